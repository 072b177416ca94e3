"""The page cache, and what it tells of itself."""

import atexit
import dataclasses
import errno
import html
import os
import pathlib
import sys
import threading
import uuid
import weakref

from pagetide import _pagetide
from pagetide._file import LIVE_FILES, File

_LIVE = weakref.WeakSet()
# Page caches by what was pickled: the original in its own process, and one in each other process.
_BY_TOKEN = weakref.WeakValueDictionary()
_RESTORED = {}
_RESTORED_LOCK = threading.RLock()


class PageCache(_pagetide.Cache):
    """A page cache with a hard byte limit.

    memory
        The limit of all its files and arrays together, in bytes or as text such as "512M"; at least
        64K. It is never exceeded, and never makes a read fail.
    policy
        What is evicted: "pagetide" unless given; `pagetide policies` lists the others.
    groups
        True where files are to be opened for groups, each with limits of its own: `set_group`.
    knobs
        Any other setting by the name it has in docs/config.md, such as `readahead_max=0`,
        `direct_io=False`, `dirty="30"`.

    Any number of threads at once. Used as a context manager it is closed at the end. It ends when
    it is closed and its last file and array are gone; an array that outlives it is good to use.

    After `fork`, the child cannot use it: every call raises RuntimeError. Arrays over files can be
    read there, as the files were; a store to them raises RuntimeError, too, because it would reach
    no file. Make a cache in the child, or start workers by "spawn" or "forkserver".

    Pickled, it takes its settings along: another process makes a page cache of its own of them, with
    as much memory, once. In the same process it stays the same object.

    Raises ValueError for settings that cannot be, MemoryError where memory cannot be reserved.
    """

    def __init__(self, memory, policy="pagetide", *, groups=False, **knobs):
        self.policy = policy
        self._settings = {"groups": groups, **knobs}
        self._token = uuid.uuid4().hex
        _BY_TOKEN[self._token] = self
        _flush_in_workers()
        self._regions = weakref.WeakValueDictionary()
        self._regions_lock = threading.Lock()
        _LIVE.add(self)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __reduce__(self):
        memory = self.stats().memory_bytes
        return _restore, (self._token, os.getpid(), memory, self.policy, self._settings)

    def __repr__(self):
        state = "closed" if self.closed else f"{self.stats().memory_bytes >> 10} KiB"
        return f"<pagetide.PageCache {state}, policy={self.policy!r}>"

    def open(self, path, mode="r", *, group=None):
        """Open a file of bytes; see `File`.

        `mode` is as for `io.FileIO`: r, w, x or a, with + for both reading and writing. What other
        programs had written when they closed the file is seen. For text, and for many small reads,
        wrap it: `io.TextIOWrapper(io.BufferedReader(f))`. The pages it brings in are the `group`'s.

        Raises OSError as `open` does: FileNotFoundError, FileExistsError, PermissionError.
        """
        return File(self.open_raw(os.fsdecode(path), mode, group), os.fspath(path), mode)

    def array(
        self, path, dtype="u1", shape=None, mode="r", offset=0, order="C", *, faults="auto"
    ):
        """A numpy array over a file: larger than memory, and inside the cache's limit.

        As `numpy.memmap`: any code may index, slice and compute, and only what is used is in
        memory. Without a shape it is one-dimensional and goes to the end of the file. `offset` is
        in bytes. `path` may be an open file. `mode` is "r", "r+", "w+" or "c", or their long names
        as of memmap. "r+" extends a file that is too short, with zeros; "w+" makes the file anew, of
        zeros; of "c", copy-on-write, what is stored never reaches the file, but leaves memory to a
        file without a name.

        `flush()` of the array makes what was stored durable; without it that happens some time
        later, and an error goes unheard. While there is an array over a file, the file cannot be
        opened in the cache; arrays of it share their pages. Where another program makes the file
        shorter, `flush()` raises OSError, and a touch past the new end ends the process with SIGBUS
        after a message, as of a memmap. A file that has grown can be opened anew by "r" arrays; for
        other modes, drop its older arrays first.

        `faults` says what brings absent pages in. By "threads" of the array, all works, also
        system calls that are given its memory (`f.readinto(a)`, `sock.send(a)`); Linux must permit
        it (root, `/dev/userfaultfd` or `vm.unprivileged_userfaultfd`). By "signal" the thread that
        touched the page does, which is faster (of random rows from a disk, 1.4 times as many); but
        a system call on a page that is not in memory fails with EFAULT: `populate()` that part of
        the array first. "auto" is "threads" where that is permitted. `tofile`, `tobytes` and
        `numpy.save` work in any case.

        Raises ValueError where a file that is only read is too short for the shape, and OSError.
        """
        from pagetide import _array

        return _array.over_file(self, path, dtype, shape, mode, offset, order, faults)

    def empty(self, shape, dtype="f8", order="C", *, folder=None, faults="auto"):
        """A numpy array of zeros that is no file's: larger than memory, inside the cache's limit.

        What leaves memory goes to a file without a name in `folder` (TMPDIR unless given, else
        /var/tmp), and is gone with the array. If the folder is full and all memory is in use, the
        next touch ends the process with SIGBUS, after a message that names the folder: `flush()`
        raises OSError for a full folder before. `faults` as for `array`.
        """
        from pagetide import _array

        return _array.anonymous(self, shape, dtype, order, folder, faults)

    def load(self, path, mode="r", *, faults="auto"):
        """The array in a .npy file, as `numpy.load` with `mmap_mode`: "r", "r+" or "c"."""
        from pagetide import _array

        return _array.over_npy(self, path, mode, faults)

    def region(self, path=None, nbytes=0, mode="r", *, folder=None, faults="auto"):
        """Memory over a file, or of `nbytes` zeros: a `Region`, for `memoryview` and the like.

        What `array` and `empty` are made of; numpy is not needed. Regions of one file are one.
        """
        if path is None:
            return self.make_region(None, nbytes, is_writable=True, faults=faults, folder=folder)
        if mode not in ("r", "r+", "w+", "c"):
            raise ValueError(f"mode {mode!r}: one of r, r+, w+, c")
        path = os.fsdecode(path)
        # Before the lock, which a child may have inherited locked.
        _ = self.closed
        with self._regions_lock:
            if mode == "c":
                return self._private_region(path, faults, folder)
            return self._region_over(path, nbytes, mode, faults)

    def _private_region(self, path, faults, folder):
        flush_files(path)
        shared = self._regions.get(_identity(path))
        if shared is not None and shared.writable:
            shared.flush()
        return self.make_private_region(path, faults=faults, folder=folder)

    def _region_over(self, path, nbytes, mode, faults):
        if mode == "w+":
            self._make_file(path, nbytes)
        key, size = _identity(path), os.stat(path).st_size
        region = self._regions.get(key)
        if region is None or mode == "r" and not region.writable and region.nbytes < size:
            return self._new_region(path, key, nbytes if mode == "r+" else 0, mode, faults)
        if mode != "r" and not region.writable:
            raise _busy("there are arrays over it that are for reading alone", path)
        if region.nbytes < max(nbytes, size):
            raise _busy(f"there are arrays over its first {region.nbytes} bytes", path)
        return region

    def _new_region(self, path, key, nbytes, mode, faults):
        size = os.stat(path).st_size
        if size < nbytes:
            os.truncate(path, nbytes)
        try:
            region = self.make_region(path, 0, is_writable=mode != "r", faults=faults)
        except BaseException:
            if size < nbytes:
                os.truncate(path, size)
            raise
        self._regions[key] = region
        return region

    def _make_file(self, path, nbytes):
        if os.path.exists(path) and _identity(path) in self._regions:
            raise _busy("there are arrays over it, which need its length", path)
        with self.open(path, "w") as made:
            made.truncate(nbytes)

    def _make_empty(self, path, nbytes, mode):
        """Do what `region` does to the file of an array without elements, which begins there."""
        with self._regions_lock:
            if mode == "w+":
                self._make_file(path, nbytes)
            elif mode == "r+" and os.stat(path).st_size < nbytes:
                os.truncate(path, nbytes)

    def stats(self):
        """What the cache has done so far, and how full it is: a `CacheStats`."""
        return CacheStats(**self.read_stats())


def _busy(said, path):
    return OSError(errno.EBUSY, f"{said}: drop them first", os.fspath(path))


def _identity(path):
    stat = os.stat(path)
    return stat.st_dev, stat.st_ino


def flush_files(path):
    """Write back what this process has written to the open files of a path."""
    identity = _identity(path)
    for file in list(LIVE_FILES):
        try:
            is_it = file.is_dirty_here and _identity(os.fsdecode(file.name)) == identity
        except OSError:
            continue
        if is_it:
            file.flush()


def as_path(file):
    """The path of a file given by its path or as an open file, and memmap's `filename` of it."""
    if isinstance(file, os.PathLike):
        return os.fspath(file), pathlib.Path(file).resolve()
    if isinstance(file, (str, bytes)):
        return os.fsdecode(file), os.path.abspath(os.fsdecode(file))
    if isinstance(file, File):
        if file.writable():
            file.flush()
        return os.fsdecode(file.name), os.path.abspath(os.fsdecode(file.name))
    if not hasattr(file, "fileno"):
        raise TypeError(f"a path or an open file, not {type(file).__name__}")
    descriptor = file.fileno()
    if hasattr(file, "writable") and file.writable():
        file.flush()
    name = getattr(file, "name", None)
    if isinstance(name, (str, bytes)):
        try:
            if os.path.samestat(os.stat(name), os.fstat(descriptor)):
                return os.fsdecode(name), os.path.abspath(os.fsdecode(name))
        except OSError:
            pass
    return f"/proc/self/fd/{descriptor}", None


def _restore(token, process, memory, policy, settings):
    """The page cache that was pickled, or one like it in another process."""
    with _RESTORED_LOCK:
        for cache in (_BY_TOKEN.get(token), _RESTORED.get((process, token))):
            if cache is not None and cache.is_here and not cache.closed:
                return cache
        cache = PageCache(memory, policy, **settings)
        _RESTORED[process, token] = cache
        return cache


def _flush_live():
    """What is dirty at the interpreter's end is written back. Errors fail the process."""
    failed = {}
    for it in _live():
        try:
            it.flush()
        except (OSError, ValueError) as error:
            failed[str(getattr(error, "filename", None))] = error
    for error in failed.values():
        print(f"pagetide: at the end of the process: {error}", file=sys.stderr, flush=True)
    if failed:
        _pagetide.fail_at_exit()
    return bool(failed)


def _live():
    for cache in list(_LIVE):
        if cache.is_here:
            if not cache.closed:
                yield cache
            yield from (region for region in list(cache._regions.values()) if region.writable)
    yield from (file for file in list(LIVE_FILES) if file.is_dirty_here)


def _flush_in_workers():
    """Has a worker of multiprocessing, which runs no `atexit`, flush at its end as well."""
    process = sys.modules.get("multiprocessing.process")
    if process is None or process.parent_process() is None or _FLUSHING_WORKERS == {os.getpid()}:
        return
    from multiprocessing import util

    _FLUSHING_WORKERS.clear()
    _FLUSHING_WORKERS.add(os.getpid())
    util.Finalize(None, _flush_worker, exitpriority=0)


def _flush_worker():
    if _flush_live():
        raise SystemExit(120)


_FLUSHING_WORKERS = set()


def _flush_before_fork():
    """Files are what a child will find in the place of arrays."""
    _RESTORED_LOCK.acquire()
    regions = [it for cache in list(_LIVE) if cache.is_here for it in list(cache._regions.values())]
    for region in regions:
        if region.writable:
            try:
                region.flush()
            except (OSError, ValueError) as error:
                print(f"pagetide: before a fork: {error}", file=sys.stderr, flush=True)


atexit.register(_flush_live)
os.register_at_fork(
    before=_flush_before_fork,
    after_in_parent=_RESTORED_LOCK.release,
    after_in_child=_RESTORED_LOCK.release,
)


@dataclasses.dataclass(frozen=True)
class CacheStats:
    """What a page cache has done so far, and how full it is. Bytes and times are in the names."""

    policy: str
    memory_bytes: int
    """The limit."""
    resident_bytes: int
    """Memory in use; never above the limit."""
    resident_bytes_max: int
    dirty_bytes: int
    """Of that, what is not written back yet."""
    accesses: int
    """Pages wanted: hits and misses."""
    hits: int
    misses: int
    hit_ratio: float
    """Hits over accesses, from 0 to 1."""
    bypass_reads: int
    """Pages read straight to the caller, because no memory could be had."""
    writes_through: int
    """Pages written straight to the file, for the same reason."""
    device_reads: int
    """Requests, as the next three."""
    device_read_bytes: int
    device_writes: int
    device_write_bytes: int
    refaults: int
    """Misses on pages that were evicted before, where the policy remembers."""
    activations: int
    evictions: int
    """Pages evicted."""
    reclaim_cpu_ns: int
    """CPU time spent making room."""
    direct_io: bool
    """Whether files go past the kernel's page cache."""
    io_uring: bool
    vmstat: dict = dataclasses.field(repr=False)
    """All counters by name, the kernel's where it has one."""
    text: str = dataclasses.field(repr=False)
    """Some ten lines for people: what `str` gives."""

    def __str__(self):
        return self.text

    def _repr_html_(self):
        lines = (line.split(maxsplit=1) for line in self.text.splitlines() if line)
        rows = ((name, rest[0] if rest else "") for name, *rest in lines)
        return _table(("page cache", ""), rows)


def _table(head, rows):
    """Rows as a table of HTML."""
    def line(tag, cells):
        cells = (f"<{tag} style='text-align:left'>{html.escape(str(it))}</{tag}>" for it in cells)
        return f"<tr>{''.join(cells)}</tr>"

    body = "".join(line("td", row) for row in rows)
    return f"<table><thead>{line('th', head)}</thead><tbody>{body}</tbody></table>"

"""Files of a page cache, as `io` has them."""

import io
import weakref

from pagetide import _pagetide

# Files that may have something to flush at the end of the process.
LIVE_FILES = weakref.WeakSet()


class File(io.RawIOBase):
    """A file whose pages are in a page cache: `PageCache.open` makes it.

    A raw file as `io.FileIO` is, with the same meaning of every call, and `pread`, `preadinto` and
    `pwrite` besides, which take an offset, neither use nor move the position, and may be called by
    any number of threads at once. Offsets and lengths are in bytes.

    `pin` keeps bytes in memory without a copy.

    `flush` writes back what is dirty, so that other programs see it; `sync` makes it durable too.
    Closing flushes, and so raises what could not be written. There is no file descriptor, whose
    reads and writes would go past the cache: `fileno` raises.
    """

    # The Rust methods are set on the instance, so that calls bypass Python. The methods below are
    # for help, and for subclasses.
    _DIRECT = ("pread", "preadinto", "pwrite", "read", "readinto", "write")

    def __init__(self, raw, name, mode):
        self._raw = raw
        self.name = name
        self.mode = mode
        if raw.is_writable:
            LIVE_FILES.add(self)
        for call in self._DIRECT:
            if getattr(type(self), call) is getattr(File, call):
                setattr(self, call, getattr(raw, call))

    def __del__(self):
        # Not closed here: `cache.open(path).read()` reads after this is gone. The compiled half is
        # then flushed and released.
        pass

    def __repr__(self):
        state = " closed" if self.closed else ""
        return f"<pagetide.File name={self.name!r} mode={self.mode!r}{state}>"

    def pread(self, nbytes, offset):
        """Read up to `nbytes` bytes at `offset`; fewer only where the file ends. -1: to the end."""
        return self._raw.pread(nbytes, offset)

    def preadinto(self, buffer, offset):
        """Fill `buffer` with the bytes from `offset` on; return how many were read."""
        return self._raw.preadinto(buffer, offset)

    def pin(self, nbytes=-1, offset=0):
        """The bytes from `offset` on, as a `Pinned`: unchanged and in memory until released.

        They count against the limit, because nothing can evict them. -1: to the end of the file.
        """
        return self._raw.pin(nbytes, offset)

    def pwrite(self, buffer, offset):
        """Write all of `buffer` at `offset`; return its length. A shorter file grows."""
        return self._raw.pwrite(buffer, offset)

    def read(self, size=-1, /):
        """Read up to `size` bytes at the position, to the end where it is -1 or None."""
        return self._raw.read(size)

    def readall(self):
        """Read from the position to the end."""
        return self._raw.read(-1)

    def readinto(self, buffer, /):
        """Fill `buffer` from the position on; return how many bytes were read."""
        return self._raw.readinto(buffer)

    def write(self, buffer, /):
        """Write all of `buffer` at the position (at the end, in mode "a"); return its length."""
        return self._raw.write(buffer)

    def seek(self, offset, whence=io.SEEK_SET, /):
        """Move the position, in bytes from the start, the position or the end; return it."""
        return self._raw.seek(offset, whence)

    def tell(self):
        """The position, in bytes from the start."""
        return self._raw.tell()

    def truncate(self, size=None, /):
        """Make the file `size` bytes long, or end at the position; return its length."""
        return self._raw.truncate(size)

    def flush(self):
        """Write back what is dirty. Raises OSError if it could not be written; it stays dirty."""
        if self.closed:
            raise ValueError("I/O operation on closed file.")
        self._raw.flush()

    def sync(self):
        """Write back what is dirty and make it durable, as `os.fdatasync` does."""
        self._raw.sync()

    def advise(self, advice, offset=0, nbytes=0):
        """Say what is coming, in the words of `os.posix_fadvise`.

        "normal", "sequential", "random" and "noreuse" hold for all accesses from now on; "willneed"
        and "dontneed" for `nbytes` bytes from `offset` on, once (0: to the end).
        """
        self._raw.advise(advice, offset, nbytes)

    @property
    def size(self):
        """The file's length in bytes, with what is not written back yet."""
        return self._raw.size

    @property
    def resident_bytes(self):
        """How many bytes of the file are in memory now, in whole pages."""
        return self._raw.resident_bytes

    @property
    def is_dirty_here(self):
        """Whether this process has something to flush in it."""
        return not self.closed and self._raw.is_here

    def readable(self):
        """Whether it was opened for reading."""
        return self._raw.is_readable

    def writable(self):
        """Whether it was opened for writing."""
        return self._raw.is_writable

    def seekable(self):
        """Always, while it is open."""
        self._raw.tell()
        return True

    def isatty(self):
        """Never."""
        self._raw.tell()
        return False

    def close(self):
        """Flush, and let go of the file. Raises what `flush` raises; it is closed all the same."""
        if self.closed:
            return
        try:
            super().close()
        finally:
            self._raw.close()

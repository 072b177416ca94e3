"""A file system of fsspec's whose local files are read through a page cache.

    >>> pandas.read_parquet("pagetide:///data/table.parquet", storage_options={"memory": "4G"})
    >>> xarray.open_dataset(fsspec.open("pagetide:///data/grid.nc", memory="4G").open())

Needs fsspec, which finds it by the protocol "pagetide". DuckDB reads through it after
`connection.register_filesystem(CachedFileSystem("4G"))`. polars knows no protocols but its own:
give it an open file, or a dataset of pyarrow.

    >>> polars.read_parquet(CachedFileSystem("4G").open("/data/table.parquet"))
"""

from __future__ import annotations

import io
import os
import threading
from typing import IO, Any

from fsspec.implementations.local import LocalFileSystem

from pagetide import File, PageCache
from pagetide._shared import SharedCache

__all__ = ["CachedFileSystem"]


class CachedFileSystem(LocalFileSystem):  # type: ignore[misc]
    """fsspec's `LocalFileSystem`, of which files opened for reading are in a page cache.

    `memory` is the limit in bytes or as text such as "4G"; `cache` is a `PageCache` instead. File
    systems of the same memory and policy share one, and each process has its own. Writes are
    `LocalFileSystem`'s, and are seen by what is opened later.

    Several threads may seek and read in one open file: each thread that seeks has its own position.
    DuckDB relies on that, and gets wrong bytes from a `LocalFileSystem`, whose files have one
    position for all threads.
    """

    protocol = ("pagetide",)

    def __init__(
        self,
        memory: int | str = "512M",
        policy: str = "pagetide",
        cache: PageCache | None = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self._shared = SharedCache(memory if cache is None else cache, policy)

    @property
    def cache(self) -> PageCache:
        """The `PageCache` that it reads through in this process."""
        return self._shared.get()

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(one) for one in path]
        return super()._strip_protocol(_as_local(path))

    def unstrip_protocol(self, name: str) -> str:
        return f"pagetide://{self._strip_protocol(name)}"

    def _open(
        self, path: Any, mode: str = "rb", block_size: int | None = None, **options: Any
    ) -> IO[bytes] | Opened:
        if mode != "rb" or options.get("compression"):
            opened: IO[bytes] = super()._open(path, mode, block_size=block_size, **options)
            return opened
        return Opened(self.cache.open(self._strip_protocol(path)), self._shared)

    def cat_file(
        self, path: Any, start: int | None = None, end: int | None = None, **_: Any
    ) -> bytes:
        with self.cache.open(self._strip_protocol(path)) as file:
            size = file.size
            start, end, _step = slice(start, end).indices(size)
            return file.pread(max(0, end - start), start)


class Opened(io.BufferedIOBase):
    """A file opened for reading, with a position for each thread that seeks.

    A thread's seek and its next reads belong together, if all threads that read have sought.
    A thread that never sought reads on from the position that the last call left, and so do all
    others then, until they seek: a file can be handed from thread to thread.

    Pickled, it takes its path and position along, and is opened anew.
    """

    def __init__(self, file: File, cache: SharedCache) -> None:
        self.raw = file
        self._cache = cache
        self.name = file.name
        self.mode = "rb"
        # For threads without a position of their own.
        self._shared = io.BufferedReader(_Cursor(file))
        self._lock = threading.Lock()
        self._position = 0
        self._own = threading.local()
        # Rises when own positions become invalid.
        self._turn = 0

    @property
    def size(self) -> int:
        """The length in bytes."""
        return self.raw.size

    def _reader(self) -> io.BufferedReader | None:
        """The reader of a thread with a position of its own."""
        self.raw.tell()  # Raises for a closed file, and in a forked child.
        if getattr(self._own, "turn", None) != self._turn:
            return None
        reader: io.BufferedReader = self._own.reader
        return reader

    def _call(self, name: str, *arguments: Any) -> Any:
        reader = self._reader()
        if reader is not None:
            result = getattr(reader, name)(*arguments)
            self._position = reader.tell()
            return result
        with self._lock:
            self._turn += 1
            if self._shared.tell() != self._position:
                self._shared.seek(self._position)
            result = getattr(self._shared, name)(*arguments)
            self._position = self._shared.tell()
            return result

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        reader = self._reader()
        if reader is None:
            reader = getattr(self._own, "reader", None)
            if reader is None:
                reader = self._own.reader = io.BufferedReader(_Cursor(self.raw))
            if whence == io.SEEK_CUR:
                offset, whence = self._position + offset, io.SEEK_SET
        self._position = reader.seek(offset, whence)
        self._own.turn = self._turn
        return self._position

    def tell(self) -> int:
        reader = self._reader()
        return self._position if reader is None else reader.tell()

    def read(self, size: int | None = -1, /) -> bytes:
        data: bytes = self._call("read", size)
        return data

    def read1(self, size: int = -1, /) -> bytes:
        data: bytes = self._call("read1", size)
        return data

    def readinto(self, buffer: Any, /) -> int:
        nbytes: int = self._call("readinto", buffer)
        return nbytes

    def readinto1(self, buffer: Any, /) -> int:
        nbytes: int = self._call("readinto1", buffer)
        return nbytes

    def readline(self, size: int | None = -1, /) -> bytes:
        line: bytes = self._call("readline", -1 if size is None else size)
        return line

    def readlines(self, hint: int | None = -1, /) -> list[bytes]:
        lines: list[bytes] = self._call("readlines", -1 if hint is None else hint)
        return lines

    def peek(self, size: int = 0, /) -> bytes:
        data: bytes = self._call("peek", size)
        return data

    def readable(self) -> bool:
        return self.raw.readable()

    def seekable(self) -> bool:
        return self.raw.seekable()

    def close(self) -> None:
        super().close()
        self.raw.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, (self._cache, self.name, self.tell())

    def __repr__(self) -> str:
        return f"<pagetide.fsspec.Opened name={self.name!r}>"


def _reopen(cache: SharedCache, path: str, position: int) -> Opened:
    opened = Opened(cache.get().open(path), cache)
    opened.seek(position)
    return opened


class _Cursor(io.RawIOBase):
    """A position in a file, for one reader."""

    def __init__(self, file: File) -> None:
        self._file = file
        self._at = 0

    def readinto(self, buffer: Any, /) -> int:
        nbytes = self._file.preadinto(buffer, self._at)
        self._at += nbytes
        return nbytes

    def readall(self) -> bytes:
        data = self._file.pread(-1, self._at)
        self._at += len(data)
        return data

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._file.size}
        if whence not in base:
            raise ValueError(f"whence {whence}: one of 0, 1, 2")
        if base[whence] + offset < 0:
            raise ValueError(f"seek({offset}, {whence}): the position would be below 0")
        self._at = base[whence] + offset
        return self._at

    def tell(self) -> int:
        return self._at

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True


def _as_local(path: str | os.PathLike[str]) -> str:
    path = path if isinstance(path, str) else str(path)
    return path.removeprefix("pagetide://").removeprefix("pagetide:")

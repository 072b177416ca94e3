"""A file system of fsspec's whose local files are read through a page cache.

    >>> pandas.read_parquet("pagetide:///data/table.parquet", storage_options={"memory": "4G"})
    >>> xarray.open_dataset(fsspec.open("pagetide:///data/grid.nc", memory="4G").open())

Needs fsspec, which finds it by the protocol "pagetide".
"""

import io

from fsspec.implementations.local import LocalFileSystem

from pagetide._shared import SharedCache

__all__ = ["CachedFileSystem"]


class CachedFileSystem(LocalFileSystem):
    """fsspec's `LocalFileSystem`, of which files opened for reading are in a page cache.

    `memory` is the limit in bytes or as text such as "4G"; `cache` is a `PageCache` instead. File
    systems of the same memory and policy share one, and each process has its own. Writes are
    `LocalFileSystem`'s, and are seen by what is opened later.
    """

    protocol = ("pagetide",)

    def __init__(self, memory="512M", policy="pagetide", cache=None, **options):
        super().__init__(**options)
        self._shared = SharedCache(memory if cache is None else cache, policy)

    @property
    def cache(self):
        """The `PageCache` that it reads through in this process."""
        return self._shared.get()

    @classmethod
    def _strip_protocol(cls, path):
        if isinstance(path, list):
            return [cls._strip_protocol(one) for one in path]
        return super()._strip_protocol(_as_local(path))

    def unstrip_protocol(self, name):
        return f"pagetide://{self._strip_protocol(name)}"

    def _open(self, path, mode="rb", block_size=None, **options):
        if mode != "rb" or options.get("compression"):
            return super()._open(path, mode, block_size=block_size, **options)
        return Opened(self.cache.open(self._strip_protocol(path)))

    def cat_file(self, path, start=None, end=None, **_):
        with self.cache.open(self._strip_protocol(path)) as file:
            size = file.size
            start, end, _ = slice(start, end).indices(size)
            return file.pread(max(0, end - start), start)


class Opened(io.BufferedReader):
    """A file opened for reading."""

    @property
    def size(self):
        """The length in bytes."""
        return self.raw.size


def _as_local(path):
    path = path if isinstance(path, str) else str(path)
    return path.removeprefix("pagetide://").removeprefix("pagetide:")

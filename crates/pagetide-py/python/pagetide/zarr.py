"""A zarr 3 store whose chunks are read through a page cache.

    >>> store = pagetide.zarr.Store("measurements.zarr", "4G")
    >>> zarr.open(store, mode="r")["temperature"][:, 3]

Needs zarr 3.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Self

from zarr.abc.store import (
    ByteRequest,
    OffsetByteRequest,
    RangeByteRequest,
    SuffixByteRequest,
)
from zarr.core.buffer.core import Buffer, BufferPrototype, default_buffer_prototype
from zarr.storage import LocalStore

from pagetide import File, PageCache
from pagetide._shared import SharedCache

__all__ = ["Store"]

_ABSENT = (FileNotFoundError, IsADirectoryError, NotADirectoryError)


class Store(LocalStore):
    """A folder as zarr's `LocalStore` has it, of which all reads go through a page cache.

    `cache` is a `PageCache`, or the memory of one in bytes or as text such as "4G": stores of the
    same memory and policy share one. Pickled, a store takes the settings along, and has a page cache
    of its own in the other process.

    Writes are `LocalStore`'s: a key is written beside its place and moved there.
    """

    def __init__(
        self,
        root: Path | str | os.PathLike[str],
        cache: PageCache | SharedCache | int | str = "512M",
        *,
        policy: str = "pagetide",
        read_only: bool = False,
    ) -> None:
        root = root if isinstance(root, (str, Path)) else Path(root)
        super().__init__(root, read_only=read_only)
        self._shared = cache if isinstance(cache, SharedCache) else SharedCache(cache, policy)

    def with_read_only(self, read_only: bool = False) -> Self:
        return type(self)(self.root, self._shared, read_only=read_only)

    @classmethod
    async def open(
        cls,
        root: Path | str | os.PathLike[str],
        cache: PageCache | SharedCache | int | str = "512M",
        *,
        policy: str = "pagetide",
        read_only: bool = False,
        mode: str | None = None,
    ) -> Self:
        """Open the store, and make its folder if it may be written."""
        created = cls(root, cache, policy=policy, read_only=mode in ("r", "r+") or read_only)
        await created._open()
        if created.read_only == read_only:
            return created
        store = created.with_read_only(read_only)
        await store._open()
        return store

    @property
    def cache(self) -> PageCache:
        """The `PageCache` that it reads through in this process."""
        return self._shared.get()

    def __repr__(self) -> str:
        return f"pagetide.zarr.Store('{self}')"

    def get_sync(
        self,
        key: str,
        *,
        prototype: BufferPrototype | None = None,
        byte_range: ByteRequest | None = None,
    ) -> Buffer | None:
        """The value of a key, or a part of it; None where there is none."""
        self._ensure_open_sync()
        return self._read(key, prototype or default_buffer_prototype(), byte_range)

    async def get(
        self,
        key: str,
        prototype: BufferPrototype | None = None,
        byte_range: ByteRequest | None = None,
    ) -> Buffer | None:
        """The value of a key, or a part of it; None where there is none."""
        if not self._is_open:
            await self._open()
        prototype = prototype or default_buffer_prototype()
        return await asyncio.to_thread(self._read, key, prototype, byte_range)

    async def get_partial_values(
        self,
        prototype: BufferPrototype,
        key_ranges: Iterable[tuple[str, ByteRequest | None]],
    ) -> list[Buffer | None]:
        """The values of several keys, or parts of them."""
        gets = (self.get(key, prototype, byte_range) for key, byte_range in key_ranges)
        return list(await asyncio.gather(*gets))

    def _read(
        self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None
    ) -> Buffer | None:
        try:
            with self.cache.open(self.root / key) as file:
                offset, nbytes = _range(byte_range, file)
                return prototype.buffer.from_bytes(file.pread(nbytes, offset))
        except _ABSENT:
            return None


def _range(byte_range: ByteRequest | None, file: File) -> tuple[int, int]:
    """Where a part begins, and how long it is at most."""
    match byte_range:
        case None:
            return 0, -1
        case RangeByteRequest(start, end):
            return start, end - start
        case OffsetByteRequest(offset):
            return offset, -1
        case SuffixByteRequest(suffix):
            return max(0, file.size - suffix), -1
        case _:
            raise TypeError(f"Unexpected byte_range, got {byte_range}.")

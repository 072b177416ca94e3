"""One page cache a process for everything that asks for the same."""

from __future__ import annotations

import os
import threading
from typing import Any

from pagetide import PageCache

_SHARED: dict[tuple[int | str, str], PageCache] = {}
_LOCK = threading.Lock()
# A forked child may inherit a lock held by a thread that it lacks.
os.register_at_fork(before=_LOCK.acquire, after_in_parent=_LOCK.release, after_in_child=_LOCK.release)


class SharedCache:
    """A page cache by its settings: what is pickled is these, and each process has its own.

    `cache` is a `PageCache`, which is used as it is in this process; or a size of memory.
    """

    def __init__(self, cache: PageCache | int | str, policy: str = "pagetide") -> None:
        self._given: PageCache | None = None
        if isinstance(cache, PageCache):
            self._settings: tuple[int | str, str] = (cache.stats().memory_bytes, cache.policy)
            self._given = cache
        else:
            self._settings = (cache, policy)

    def get(self) -> PageCache:
        """The page cache of this process: also in one that was forked."""
        if self._given is not None and self._given.is_here:
            return self._given
        with _LOCK:
            cache = _SHARED.get(self._settings)
            if cache is None or not cache.is_here or cache.closed:
                memory, policy = self._settings
                cache = _SHARED[self._settings] = PageCache(memory, policy)
            return cache

    def __getstate__(self) -> dict[str, Any]:
        return {"_settings": self._settings, "_given": None}

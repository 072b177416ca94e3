"""Policies written in Python, played beside the built-in ones."""

import abc
import array
import time

from pagetide import _pagetide
from pagetide._rows import ReplayRow

_BATCH = 4096


class Policy(abc.ABC):
    """A replacement policy in Python, for `replay`: slow (about a microsecond an access), and exact.

    The replay knows which pages are in memory; the policy says which one leaves. Pages are integers.
    A class is passed, and made for each size with the number of frames:

        >>> class Newest(pagetide.Policy):
        ...     def __init__(self, frames):
        ...         self.pages = []
        ...     def miss(self, page):
        ...         self.pages.append(page)
        ...     def evict(self):
        ...         return self.pages.pop()
        >>> pagetide.replay("run.trace", "64M", [Newest, "lru", "opt"])
    """

    def __init__(self, frames):
        """Begin with a memory of so many frames, all free."""

    def hit(self, pages):
        """These pages were accessed, in this order, and were in memory; called before a miss."""

    @abc.abstractmethod
    def miss(self, page):
        """This page was accessed and was not in memory; now it is."""

    @abc.abstractmethod
    def evict(self):
        """Memory is full and a page is to come in: return the page that leaves."""

    def discard(self, page):
        """This page left memory because its contents are gone; it is not evicted any more."""


def play(policies, sizes, path, arrays, format, lenient):
    """A row for each policy at each size, by both."""
    ranks, kinds = _pagetide.read_pages(path=path, arrays=arrays, format=format, lenient=lenient)
    pages = array.array("I", ranks)
    rows = {}
    for frames in dict.fromkeys(sizes):
        for policy in dict.fromkeys(policies):
            start = time.perf_counter()
            misses, evictions = _count(policy(frames), frames, pages, kinds)
            seconds = time.perf_counter() - start
            accesses = len(kinds) - kinds.count(b"d")
            rows[policy, frames] = ReplayRow(
                policy.__name__, frames, frames * _pagetide.PAGE_BYTES, accesses, misses,
                misses / accesses, misses * _pagetide.PAGE_BYTES, evictions, 0, 0, seconds, "none",
            )
    return rows


def _count(policy, frames, pages, kinds):
    resident, hits, misses, evictions = set(), [], 0, 0
    for page, kind in zip(pages, kinds):
        if page in resident and kind != 100:  # d
            hits.append(page)
            if len(hits) < _BATCH:
                continue
        if hits:
            policy.hit(hits)
            hits = []
        if kind == 100:
            if page in resident:
                resident.remove(page)
                policy.discard(page)
        elif page not in resident:
            misses += 1
            if len(resident) == frames:
                victim = policy.evict()
                if victim not in resident:
                    raise ValueError(f"{type(policy).__name__}.evict returned {victim!r}, which is"
                                     " no page in memory")
                resident.remove(victim)
                evictions += 1
            resident.add(page)
            policy.miss(page)
    return misses, evictions

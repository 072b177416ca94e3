"""The replacement policies alone, for a cache with memory of its own."""

import dataclasses

from pagetide import _pagetide


@dataclasses.dataclass(frozen=True)
class PolicyStats:
    """A policy's counters since it was made, and its present keys."""

    accesses: int
    hits: int
    misses: int
    inserted: int
    evicted: int
    removed: int
    entries: int
    bytes: int
    pinned: int


class CachePolicy:
    """The keys of a cache, and the decision which key leaves.

    Keys are numbers from 0 to 2^64 - 1, or bytes, which count as `CachePolicy.key(bytes)`. Evicted
    keys are always numbers. The policy is one of `pagetide policies`, and makes the decisions of
    `replay` with as many frames.

        >>> policy = pagetide.CachePolicy("s3fifo", entries=1000)
        >>> if not policy.access(17):
        ...     for key in policy.insert(17):
        ...         del contents[key]

    `entries` is a capacity in entries. `bytes` is one in bytes, for entries of `entry_bytes` on
    average. If both are given, both are limits. A later `resize` allows up to `entries_max`, and
    lifts the limit that it does not name.
    """

    def __init__(self, policy="pagetide", *, entries=None, bytes=None, entry_bytes=4096,
                 entries_max=0):
        """Raise ValueError for an unknown name, and for a capacity of 0 or above 2^28 entries."""
        self._raw = _pagetide.RawPolicy(policy, entries, bytes, entry_bytes, entries_max)

    @staticmethod
    def key(data):
        """Return the number for bytes, the same in every process."""
        return _pagetide.policy_key(data)

    @property
    def policy(self):
        """The policy's name."""
        return self._raw.name()

    def access(self, key):
        """Access a key. Return True for a hit. After a miss, the caller may insert the key."""
        return self._raw.access(key)

    def insert(self, key, bytes=1):
        """Add a key of an entry with `bytes`. Return the keys evicted for it, in order.

        The insert of a present key is an access, and sets its length. Raise OSError with EFBIG for
        an entry longer than the capacity, and with EBUSY if too much is pinned. `evicted()` has the
        keys evicted before the failure.
        """
        return self._raw.insert(key, bytes)

    def evicted(self):
        """Return the keys evicted by the last insert, evict or resize."""
        return self._raw.evicted()

    def remove(self, key):
        """Remove a key with its pins and its history. Return False if the key was absent."""
        return self._raw.remove(key)

    def evict(self):
        """Evict and return the next key, or return None if there is none without a pin."""
        return self._raw.evict()

    def pin(self, key):
        """Add a pin to a key, which is not evicted until it has none. Return False if absent."""
        return self._raw.pin(key)

    def unpin(self, key):
        """Take a pin from a key. Return False if the key is absent or has no pin."""
        return self._raw.unpin(key)

    def resize(self, *, entries=None, bytes=None):
        """Change the capacity. Return the keys evicted for it, in order.

        Raise ValueError for a capacity of 0 or above `entries_max`, and OSError with EBUSY if more
        is pinned.
        """
        return self._raw.resize(entries, bytes)

    def stats(self):
        """Return the counters."""
        return PolicyStats(**self._raw.stats())

    def __contains__(self, key):
        return self._raw.contains(key)

    def __len__(self):
        return len(self._raw)

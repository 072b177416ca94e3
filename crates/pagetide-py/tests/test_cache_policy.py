"""The policies alone: the decisions of a replay, for keys and contents of Python's own."""

import pytest

import pagetide

NAMES = ["pagetide", "lru", "s3fifo", "arc", "mglru"]


def reads():
    random, keys = 1, []
    for nth in range(6000):
        random = (random * 6364136223846793005 + 1) % 2**64
        keys.append((random >> 33) % ((random >> 40) % 300 + 1) if nth % 3 else 1000 + nth)
    return keys


@pytest.mark.parametrize("name", NAMES)
def test_the_hits_are_those_of_a_replay(name):
    keys, contents = reads(), {}
    policy = pagetide.CachePolicy(name, entries=100)
    for key in keys:
        if policy.access(key):
            assert key in contents
            continue
        for evicted in policy.insert(key):
            del contents[evicted]
        contents[key] = key
    assert len(contents) == len(policy) <= 100
    assert all(key in policy for key in contents)
    stats = policy.stats()
    assert stats.accesses == len(keys) == stats.hits + stats.misses
    assert stats.inserted == stats.evicted + stats.entries
    if name != "mglru":  # which differs in repeated reads, and in how long a page is remembered
        row = pagetide.replay(keys, policy=name, frames=100)[0]
        assert abs(row.misses - stats.misses) <= 0.005 * len(keys)


def test_pinned_keys_stay_and_long_entries_replace_several():
    policy = pagetide.CachePolicy("lru", bytes=1000, entry_bytes=100, entries_max=20)
    for key in range(10):
        assert policy.insert(key, 100) == []
    assert policy.pin(0) and not policy.pin(77)
    assert sorted(policy.insert(b"long", 250)) == [1, 2, 3]
    assert pagetide.CachePolicy.key(b"long") in policy and b"long" in policy
    with pytest.raises(OSError, match="larger than the capacity"):
        policy.insert(11, 1001)
    assert policy.remove(9) and 9 not in policy and not policy.remove(9)
    assert set(policy.resize(entries=2)) == {4, 5, 6, 7, 8}
    assert policy.evicted() and 0 in policy
    assert policy.evict() == pagetide.CachePolicy.key(b"long")
    assert policy.evict() is None
    with pytest.raises(OSError, match="are pinned"):
        policy.resize(bytes=1)
    assert policy.unpin(0) and not policy.unpin(0) and policy.evict() == 0
    assert len(policy) == 0


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match="w-tinylfu"):
        pagetide.CachePolicy("mru", entries=1)
    with pytest.raises(ValueError, match="less than one entry"):
        pagetide.CachePolicy("lru", entries=0)
    with pytest.raises(ValueError, match="or no byte"):
        pagetide.CachePolicy("lru", entries=5, bytes=0)
    with pytest.raises(ValueError, match="give entries or bytes"):
        pagetide.CachePolicy("lru")
    with pytest.raises(ValueError, match="too large"):
        pagetide.CachePolicy("lru", entries=1).resize(entries=2)
    with pytest.raises(OverflowError):
        pagetide.CachePolicy("lru", entries=-1)
    policy = pagetide.CachePolicy("lru", entries=1)
    for wrong, kind in ((-1, OverflowError), (2**64, OverflowError), ("a", TypeError), (1.5, TypeError)):
        for call in (policy.access, policy.insert, policy.remove, policy.pin, policy.__contains__):
            with pytest.raises(kind, match="a number from 0 to"):
                call(wrong)
    assert policy.insert(2**64 - 1) == [] and 2**64 - 1 in policy

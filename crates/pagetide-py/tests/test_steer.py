"""What `pagetide ctl` does to a cache, by a program itself."""

import pytest

import pagetide


def test_a_cache_is_synced_dropped_and_warm_again(path, contents):
    cache = pagetide.PageCache("1M", readahead_max=0)
    with cache.open(path, "r+") as f:
        f.pwrite(b"tide", 0)
        cache.sync()
        assert path.read_bytes()[:4] == b"tide"
        f.pread(4096, 4 * 4096)
        dump = cache.dump()
    assert dump.startswith("pagetide resident 1\n") and dump.endswith("end\n")
    assert cache.drop() == 2 * 4096 and cache.drop() == 0
    again = pagetide.PageCache("1M", background=False)
    again.warm(dump)
    with again.open(path):
        assert again.stats().resident_bytes == 2 * 4096
    with pytest.raises(ValueError):
        again.warm("no dump")


def test_generations_are_shown_and_commanded(path):
    cache = pagetide.PageCache("1M", "mglru")
    newest = cache.lru_gen().split()[-4]
    assert cache.command_lru_gen(f"+ 0 0 {newest}") == 0
    assert cache.lru_gen().split()[-4] != newest and len(cache.lru_gen(full=True)) > 100
    with pytest.raises(ValueError):
        cache.command_lru_gen("- 0 0 99")
    assert pagetide.PageCache("1M", "lru").lru_gen() == ""


def test_groups_have_limits_of_their_own(path):
    cache = pagetide.PageCache("8M", groups=True)
    cache.set_group("scans", limit="64K", low="64K")
    with cache.open(path, group="scans") as f:
        f.read()
    told = cache.groups()["scans"]
    assert 0 < told["usage_bytes"] <= told["limit_bytes"] == 64 << 10
    cache.set_group("scans", limit="128K")
    told = cache.groups()["scans"]
    assert (told["limit_bytes"], told["low_bytes"]) == (128 << 10, 64 << 10)
    with pytest.raises(ValueError):
        cache.open(path, group="others")
    assert pagetide.PageCache("1M").groups() == {}

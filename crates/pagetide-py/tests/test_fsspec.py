"""Files through fsspec: found by protocol, read through the page cache, written as ever."""

import pickle

import pytest

import pagetide

fsspec = pytest.importorskip("fsspec")

from pagetide.fsspec import CachedFileSystem  # noqa: E402


@pytest.fixture
def fs():
    return CachedFileSystem(memory="1M", skip_instance_cache=True)


def test_it_is_found_by_its_protocol(path, contents):
    with fsspec.open(f"pagetide://{path}", memory="1M") as file:
        assert isinstance(file.raw, pagetide.File)
        assert file.read() == contents
    with fsspec.open(f"pagetide://{path}", "rt", memory="1M", encoding="latin-1") as text:
        assert text.read(8).encode("latin-1") == contents[:8]


def test_reads_are_as_of_the_local_file_system(fs, path, contents):
    local = fsspec.filesystem("file")
    assert fs.cat_file(path) == contents
    for part in [(0, 10), (4090, 4100), (-20, None), (None, -199_000), (199_990, 300_000)]:
        assert fs.cat_file(path, *part) == local.cat_file(path, *part), part
    assert fs.cat_ranges([str(path)] * 2, [0, 8], [8, 16]) == [contents[:8], contents[8:16]]
    assert fs.info(path)["size"] == fs.size(f"pagetide://{path}") == len(contents)
    assert fs.ls(path.parent, detail=False) == local.ls(path.parent, detail=False)
    assert fs.glob(f"pagetide://{path.parent}/cont*") == [str(path)]
    with fs.open(path) as file:
        file.seek(-8, 2)
        assert file.read() == contents[-8:] and file.size == len(contents)
    with pytest.raises(FileNotFoundError):
        fs.open(path.parent / "absent")
    assert fs.cache.stats().accesses > 0


def test_what_is_written_is_read(fs, path):
    for text in (b"once", b"twice"):
        with fs.open(path, "wb") as file:
            file.write(text)
        assert fs.cat(path) == text


def test_one_cache_serves_equal_settings_and_pickles_are_settings(path):
    one = CachedFileSystem(memory="2M", skip_instance_cache=True)
    two = CachedFileSystem(memory="2M", skip_instance_cache=True)
    assert one.cache is two.cache is pickle.loads(pickle.dumps(one)).cache
    mine = pagetide.PageCache("1M", "lru")
    assert CachedFileSystem(cache=mine, skip_instance_cache=True).cache is mine


def test_others_read_through_it(path, tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": range(1000), "b": ["x"] * 1000})
    frame.to_csv(tmp_path / "frame.csv", index=False)
    read = pandas.read_csv(f"pagetide://{tmp_path}/frame.csv", storage_options={"memory": "1M"})
    assert read.equals(frame)
    pytest.importorskip("pyarrow")
    frame.to_parquet(tmp_path / "frame.parquet")
    read = pandas.read_parquet(
        f"pagetide://{tmp_path}/frame.parquet", storage_options={"memory": "1M"}
    )
    assert read.equals(frame)

"""zarr's own suite for stores, over ours; and that chunks do come from the page cache."""

import asyncio
import multiprocessing

import pytest

import pagetide

zarr = pytest.importorskip("zarr", minversion="3")
pytest.importorskip("pytest_asyncio")
testing = pytest.importorskip("zarr.testing.store")

import numpy as np  # noqa: E402
from zarr.core.buffer import cpu  # noqa: E402

from conftest import run_python  # noqa: E402
from pagetide.zarr import Store  # noqa: E402


def test_it_is_there_without_an_import_of_its_own():
    status, said, complaint = run_python("import pagetide; print(pagetide.zarr.Store.__name__)")
    assert (status, said) == (0, "Store\n"), complaint


class TestStore(testing.StoreTests):
    store_cls = Store
    buffer_cls = cpu.Buffer

    async def get(self, store, key):
        return self.buffer_cls.from_bytes((store.root / key).read_bytes())

    async def set(self, store, key, value):
        (store.root / key).parent.mkdir(parents=True, exist_ok=True)
        (store.root / key).write_bytes(value.to_bytes())

    @pytest.fixture
    def store_kwargs(self, tmp_path):
        return {"root": tmp_path, "cache": "4M"}

    def test_store_repr(self, store):
        assert repr(store) == f"pagetide.zarr.Store('file://{store.root.as_posix()}')"

    def test_store_supports_writes(self, store):
        assert store.supports_writes

    def test_store_supports_listing(self, store):
        assert store.supports_listing


@pytest.fixture
def array(tmp_path):
    made = zarr.create_array(tmp_path / "a.zarr", shape=(300, 300), chunks=(100, 100), dtype="i8")
    made[:] = np.arange(90_000).reshape(300, 300)
    return tmp_path / "a.zarr"


def test_chunks_come_from_the_page_cache(array):
    cache = pagetide.PageCache("1M")
    opened = zarr.open_array(Store(array, cache), mode="r")
    # A file written just now may still change unnoticed.
    for _ in range(500):
        assert (opened[:] == np.arange(90_000).reshape(300, 300)).all()
        if (stats := cache.stats()).hits:
            break
    assert stats.hits > 0 and stats.resident_bytes <= 1 << 20


def test_what_is_written_is_read(array):
    opened = zarr.open_array(Store(array, "1M"), mode="r+")
    for value in (7, 8):
        opened[:100] = value
        assert (opened[:100] == value).all() and opened[100, 0] == 30_000


def read_in_child(store):
    return int(zarr.open_array(store, mode="r")[299, 299])


@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_another_process_has_a_page_cache_of_its_own(array, start):
    store = Store(array, "1M")
    assert read_in_child(store) == 89_999
    if start == "fork":
        # zarr's threads do not survive a fork. Pagetide's are not needed.
        with multiprocessing.get_context("fork").Pool(1) as pool:
            assert pool.apply(read_bytes_in_child, (store,)).startswith(b"{")
    else:
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            assert pool.apply(read_in_child, (store,)) == 89_999


def read_bytes_in_child(store):
    return asyncio.run(store.get("zarr.json")).to_bytes()

"""Files through fsspec: found by protocol, read through the page cache, written as ever."""

import io
import pickle
import random
import threading

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


def test_an_open_file_is_pickled_with_its_position(fs, path, contents):
    """As dask does with the files of xarray."""
    with fs.open(path) as file:
        file.seek(100)
        with pickle.loads(pickle.dumps(file)) as again:
            assert again.tell() == 100 and again.read(10) == contents[100:110]
            assert file.tell() == 100 and again.raw is not file.raw


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


def in_threads(nr, work):
    """Runs `work(number)` in threads at once; raises the first failure."""
    failures = []

    def run(number):
        try:
            work(number)
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(nr)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    if failures:
        raise failures[0]


def test_threads_that_seek_have_positions_of_their_own(fs, path, contents):
    with fs.open(path) as file:

        def work(number):
            chance = random.Random(number)
            for _ in range(300):
                at, length = chance.randrange(len(contents)), chance.choice([1, 8, 5000, 60_000])
                assert file.seek(at) == at
                assert file.read(length) == contents[at : at + length]
                assert file.tell() == min(at + length, len(contents))
                assert file.read(3) == contents[at + length : at + length + 3]
                file.seek(-10, io.SEEK_CUR) if file.tell() > 10 else None
                at = file.tell()
                buffer = bytearray(16)
                nbytes = file.readinto(buffer)
                assert buffer[:nbytes] == contents[at : at + 16]

        in_threads(6, work)


def test_threads_that_never_seek_share_the_position(fs, path, contents):
    with fs.open(path) as file:
        parts = []

        def work(_):
            while part := file.read(1000):
                parts.append(part)

        in_threads(4, work)
    assert sorted(parts) == sorted(contents[at : at + 1000] for at in range(0, 200_000, 1000))


def test_a_file_is_handed_from_thread_to_thread(fs, path, contents):
    """As an executor does: no two calls at once, each on any thread."""
    with fs.open(path) as file:
        said = []
        file.seek(100)
        in_threads(1, lambda _: said.append(file.read(10)))
        said.append(file.read(10))
        in_threads(1, lambda _: said.append((file.tell(), file.seek(5, io.SEEK_CUR))))
        in_threads(1, lambda _: said.append(file.read(10)))
        said.append(file.read(10))
    assert said == [
        contents[100:110], contents[110:120], (120, 125), contents[125:135], contents[135:145],
    ]


def test_an_open_file_is_a_buffered_reader(fs, path, contents, tmp_path):
    text = tmp_path / "text"
    text.write_bytes(b"one\ntwo\nthree")
    with fs.open(text) as file:
        assert isinstance(file, io.BufferedIOBase) and file.readable() and file.seekable()
        assert not file.writable() and not file.closed and file.mode == "rb"
        assert file.readline() == b"one\n" and file.peek(3)[:3] == b"two" and file.tell() == 4
        assert list(file) == [b"two\n", b"three"]
        file.seek(0)
        assert file.readlines() == [b"one\n", b"two\n", b"three"]
        assert file.seek(0, io.SEEK_END) == 13 and file.read1(10) == b""
        with pytest.raises(io.UnsupportedOperation):
            file.write(b"1")
        with pytest.raises(io.UnsupportedOperation):
            file.fileno()
        with pytest.raises(ValueError):
            file.seek(-20)
    for call in (file.read, file.tell, lambda: file.seek(0), file.readline):
        with pytest.raises(ValueError):
            call()
    with io.TextIOWrapper(fs.open(text)) as lines:
        assert [line.strip() for line in lines] == ["one", "two", "three"]


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """A Parquet file of about 5 times the memory of `fs`, in many row groups, and its columns."""
    np = pytest.importorskip("numpy", reason="numpy is not installed")
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    path = tmp_path_factory.mktemp("table") / "table.parquet"
    chance = np.random.default_rng(46)
    columns = {name: chance.integers(0, 1 << 40, 220_000) for name in "abc"}
    parquet.write_table(pa.table(columns), path, row_group_size=5_000, compression="none")
    assert path.stat().st_size > 5 << 20
    return path, {name: int(column.sum()) for name, column in columns.items()}


def test_duckdb_sums_are_right(fs, table):
    duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed")
    path, sums = table
    connection = duckdb.connect()
    connection.execute("set threads = 8")
    connection.register_filesystem(fs)
    query = f"select sum(a), sum(b), sum(c) from read_parquet('pagetide://{path}')"
    for _ in range(5):
        assert connection.execute(query).fetchall() == [tuple(sums.values())]
    assert fs.cache.stats().resident_bytes_max <= 1 << 20


def test_pyarrow_pandas_and_polars_sums_are_right(fs, table):
    dataset = pytest.importorskip("pyarrow.dataset", reason="pyarrow is not installed")
    path, sums = table
    arrow = dataset.dataset(str(path), filesystem=fs, format="parquet")
    assert {name: sum(arrow.to_table()[name].to_pylist()) for name in sums} == sums
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    frame = pandas.read_parquet(f"pagetide://{path}", storage_options={"memory": "1M"})
    assert {name: int(frame[name].sum()) for name in sums} == sums
    polars = pytest.importorskip("polars", reason="polars is not installed")
    for frame in (
        polars.read_parquet(fs.open(path)),
        polars.scan_parquet(fs.open(path)).collect(),
        polars.scan_pyarrow_dataset(arrow).collect(),
        polars.read_parquet(f"pagetide://{path}", use_pyarrow=True, storage_options={"memory": "1M"}),
    ):
        assert {name: frame[name].sum() for name in sums} == sums

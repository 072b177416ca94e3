"""Arrays: against plain numpy, through system calls, and longer than their cache."""

import copy
import gc
import io
import os
import pickle
import random
import socket
import tempfile
import threading

import pytest

np = pytest.importorskip("numpy", reason="numpy is not installed")

import pagetide
from conftest import needs_regions, run_python

pytestmark = needs_regions


@pytest.fixture(params=["auto", "signal"])
def faults(request):
    return request.param


@pytest.fixture
def plain():
    return np.random.default_rng(25).integers(0, 1 << 30, (500, 700), dtype="i4")


@pytest.fixture
def over(cache, tmp_path, plain, faults):
    path = tmp_path / "array"
    plain.tofile(path)
    return cache.array(path, "i4", plain.shape, "r+", faults=faults)


def test_it_is_larger_than_memory_and_stays_below_the_limit(cache, faults):
    a = cache.empty((2048, 1024), "f4", faults=faults)
    assert not a.any()
    a[:] = np.arange(2048, dtype="f4")[:, None]
    assert a.sum(dtype="f8") == 1024 * 2047 * 1024
    assert cache.stats().resident_bytes_max <= 1 << 20
    assert a.region.stats()["failed_faults"] == 0


def test_shapes_and_slices_are_numpys(over, plain):
    chance = random.Random(25)

    def index(length):
        start, stop = sorted(chance.randrange(-length - 5, length + 5) for _ in range(2))
        return chance.choice([
            slice(start, stop, chance.choice([1, 1, 2, 7, -1, -3])),
            slice(None),
            chance.randrange(-length, length),
            [chance.randrange(length) for _ in range(5)],
        ])

    for _ in range(100):
        where = tuple(index(length) for length in plain.shape[: chance.choice([1, 2])])
        match chance.choice(["read", "write", "compute", "view", "sort"]):
            case "read":
                assert np.array_equal(over[where], plain[where])
            case "write":
                value = chance.randrange(1 << 30)
                over[where] = value
                plain[where] = value
            case "compute":
                assert np.array_equal(over[where] * 2 + 1, plain[where] * 2 + 1)
                assert np.sum(over[where]) == np.sum(plain[where])
            case "view":
                assert np.array_equal(over.T[::300].ravel()[5:], plain.T[::300].ravel()[5:])
            case "sort":
                row = chance.randrange(len(plain))
                over[row].sort()
                plain[row].sort()
    assert np.array_equal(over, plain)
    over.flush()
    assert np.array_equal(np.fromfile(over_path(over), "i4").reshape(plain.shape), plain)


def test_rows_by_number_are_numpys(tmp_path, faults):
    plain = np.random.default_rng(1).integers(0, 1 << 30, (3000, 25, 8), dtype="i4")
    plain.tofile(tmp_path / "rows")
    cache = pagetide.PageCache(memory="256K")
    a = cache.array(tmp_path / "rows", "i4", plain.shape, "r+", faults=faults)
    a[::50] = plain[::50] = 7
    chance = np.random.default_rng(2)
    for shape in [900, (20, 3), 1, 0]:
        index = chance.integers(-3000, 3000, shape)
        for index in (index, index.astype("i2"), index.tolist(), np.abs(index).astype("u8") % 3000):
            assert np.array_equal(a[index], plain[index]) and type(a[index]) is np.ndarray
            # In reverse order, and rows that are not contiguous.
            assert np.array_equal(a[::-1][index], plain[::-1][index])
            assert np.array_equal(a[:, ::2][index], plain[:, ::2][index])
    assert np.array_equal(a[a[:, 0, 0] > 5], plain[plain[:, 0, 0] > 5])
    for wrong in ([3000], [-3001], np.array([1 << 63], "u8"), [0.5]):
        with pytest.raises(IndexError):
            a[wrong]


def test_rows_by_number_are_brought_in_together(tmp_path, faults):
    rows = np.arange(4 << 20, dtype="u1").reshape(-1, 4096)
    rows.tofile(tmp_path / "rows")
    a = pagetide.PageCache(memory="1M").array(tmp_path / "rows", faults=faults).reshape(-1, 4096)
    chance = np.random.default_rng(2)
    for _ in range(20):
        index = chance.integers(len(rows), size=50)
        assert np.array_equal(a[index], rows[index])
    assert a.region.stats()["missing_faults"] == 0
    # Once the pages are resident and mapped, numpy is faster.
    for _ in range(6):
        a[[1, 2, 3]]
    assert not a.region._misses(3)


def over_path(array):
    """The file in the folder that the fixture has made."""
    return array_paths[id(array.region)]


array_paths = {}


@pytest.fixture(autouse=True)
def note_path(request, tmp_path):
    if "over" in request.fixturenames:
        array_paths[id(request.getfixturevalue("over").region)] = tmp_path / "array"
    yield
    array_paths.clear()


def test_results_are_plain_and_views_are_not(over):
    assert type(over[1:]) is type(over) and over[1:].region is over.region
    assert type(over + 1) is np.ndarray and type(over[[1, 2]]) is np.ndarray
    assert np.isscalar(over[0, 0]) and np.isscalar(over.sum())
    assert over.copy().region is None
    with pytest.raises(ValueError, match="numpy's own"):
        over.copy().flush()
    for other in (pickle.loads(pickle.dumps(over)), copy.deepcopy(over)):
        assert type(other) is np.ndarray or other.region is None
        assert np.array_equal(other, over)


def test_saving_works_whatever_is_in_memory(over, plain, tmp_path):
    # Few columns: each element of a column is a fault.
    for view, expected in (
        (over, plain), (over.T[::300], plain.T[::300]), (over[::3, 5:], plain[::3, 5:]),
    ):
        over.advise("dontneed")
        view.tofile(tmp_path / "raw")
        assert (tmp_path / "raw").read_bytes() == expected.tobytes()
        over.advise("dontneed")
        with open(tmp_path / "raw", "wb") as f:
            f.write(b"head")
            view.tofile(f)
            f.write(b"tail")
        assert (tmp_path / "raw").read_bytes() == b"head" + expected.tobytes() + b"tail"
        np.save(tmp_path / "saved.npy", view)
        assert np.array_equal(np.load(tmp_path / "saved.npy"), expected)
        assert view.tobytes() == expected.tobytes()
    over[:2].tofile(tmp_path / "text", sep=" ")
    assert np.array_equal(np.fromfile(tmp_path / "text", "i4", sep=" "), plain[:2].ravel())


def test_npy_files_are_arrays(cache, tmp_path, plain):
    for array in (plain, np.asfortranarray(plain), plain[0, 0]):
        np.save(tmp_path / "a.npy", array)
        ours = cache.load(tmp_path / "a.npy")
        assert np.array_equal(ours, array) and ours.flags.f_contiguous == array.flags.f_contiguous
        del ours
        gc.collect()


def test_system_calls_are_given_the_memory(cache, tmp_path, plain):
    path = tmp_path / "array"
    plain.tofile(path)
    with pagetide.PageCache(memory="256K") as small:
        a = small.array(path, "i4", plain.shape, "r+")
        if a.region.faults != "threads":
            pytest.skip("this user's regions serve no faults of system calls (not root)")
        a.advise("dontneed")
        with open(tmp_path / "written", "wb", buffering=0) as f:
            assert f.write(a) == plain.nbytes
        assert (tmp_path / "written").read_bytes() == plain.tobytes()
        a.advise("dontneed")
        with open(path.with_name("other"), "w+b", buffering=0) as f:
            f.write(bytes(range(256)) * 1000)
            f.seek(0)
            assert f.readinto(a) == 256_000
        assert a.tobytes()[:256_000] == bytes(range(256)) * 1000
        a.advise("dontneed")
        sender, receiver = socket.socketpair()
        thread = threading.Thread(target=lambda: (sender.sendall(a[:100]), sender.close()))
        thread.start()
        received = b"".join(iter(lambda: receiver.recv(1 << 16), b""))
        thread.join()
        assert received == a[:100].tobytes()


def test_a_populated_part_can_be_given_to_system_calls(over, plain, tmp_path):
    part = over[10:20]
    part.advise("dontneed")
    part.populate()
    with open(tmp_path / "part", "wb", buffering=0) as f:
        assert f.write(part) == part.nbytes
    part.populate(for_writes=True)
    with open(tmp_path / "part", "rb", buffering=0) as f:
        assert f.readinto(part) == part.nbytes
    assert np.array_equal(part, plain[10:20])


def test_files_of_a_cache_fill_and_drain_its_arrays(cache, tmp_path, plain, faults):
    plain.tofile(tmp_path / "from")
    a = cache.empty(plain.shape, "i4", faults=faults)
    with cache.open(tmp_path / "from") as f, cache.open(tmp_path / "to", "w+") as g:
        assert f.readinto(a) == plain.nbytes and np.array_equal(a, plain)
        assert g.write(a) == plain.nbytes and g.pwrite(a, 8192) == plain.nbytes
        assert g.pread(plain.nbytes, 8192) == plain.tobytes()
        assert f.preadinto(a[:2], 4) == a[:2].nbytes and a[0, 0] == plain[0, 1]


def test_modes_are_those_of_memmap(cache, tmp_path, plain):
    path = tmp_path / "array"
    a = cache.array(path, "i4", plain.shape, "w+")
    assert not a.any()
    a[:] = plain
    same = cache.array(path, "i4", mode="r", offset=plain.itemsize)
    assert same.region is a.region and np.array_equal(same, plain.ravel()[1:])
    with pytest.raises(ValueError):
        same[0] = 1
    with pytest.raises(OSError, match="drop them first"):
        cache.array(path, "i4", plain.shape, "w+")
    with pytest.raises(OSError, match="region"):
        cache.open(path)
    del a, same
    gc.collect()
    assert np.array_equal(np.fromfile(path, "i4").reshape(plain.shape), plain)
    a = cache.array(path, "i4")
    with pytest.raises(ValueError):
        a[0] = 1
    with pytest.raises(OSError, match="reading alone"):
        cache.array(path, "i4", mode="r+")
    del a
    gc.collect()
    os.chmod(path, 0o444)
    assert cache.array(path, "i4").sum() == plain.sum()


def test_what_cannot_be_an_array_is_said(cache, path, tmp_path):
    for wrong in (
        {"shape": 10**6}, {"shape": 10**6, "mode": "c"}, {"dtype": "f8", "offset": 3}, {"dtype": object}, {"mode": "q"},
        {"shape": -1}, {"offset": -1}, {"mode": "w+"}, {"faults": "magic"}, {"dtype": "V0"},
    ):
        with pytest.raises(ValueError):
            cache.array(path, **wrong)
    with pytest.raises(FileNotFoundError):
        cache.array(tmp_path / "none")
    with pytest.raises(FileNotFoundError):
        cache.empty(10, folder=tmp_path / "none")
    with pytest.raises((ValueError, MemoryError, OSError)):
        cache.empty(1 << 60)
    assert cache.array(path, shape=0).size == 0 and cache.empty((3, 0)).shape == (3, 0)


def test_views_outlive_cache_and_array(tmp_path, plain, faults):
    path = tmp_path / "array"
    plain.tofile(path)
    cache = pagetide.PageCache(memory="256K")
    a = cache.array(path, "i4", plain.shape, "r+", faults=faults)
    row, view = a[7], memoryview(a.region)
    cache.close()
    del cache, a
    gc.collect()
    assert np.array_equal(row, plain[7])
    row[:] = 5
    assert bytes(view[7 * 2800 : 7 * 2800 + 4]) == b"\5\0\0\0"
    row.flush()
    del row
    gc.collect()
    assert view[7 * 2800] == 5
    view.release()
    gc.collect()
    assert (np.fromfile(path, "i4").reshape(plain.shape)[7] == 5).all()


def test_memory_without_numpy(cache, path, contents):
    region = cache.region(path)
    view = memoryview(region)
    assert view.readonly and view.nbytes == region.nbytes == len(contents) and view == contents
    with pytest.raises((BufferError, TypeError)):
        io.BytesIO(contents).readinto(region)
    zeros = cache.region(nbytes="2M")
    memoryview(zeros)[5] = 7
    assert bytes(memoryview(zeros)[:8]) == b"\0\0\0\0\0\7\0\0"
    status, said, complaint = run_python(
        "import sys; sys.modules['numpy'] = None\n"
        "import pagetide; print(sum(memoryview(pagetide.PageCache('1M').region(nbytes=8192))))"
    )
    assert (status, said) == (0, "0\n"), complaint


def test_threads_share_an_array(faults):
    with pagetide.PageCache(memory="512K") as cache:
        a = cache.empty((8, 512, 64), "i8", faults=faults)

        def work(own):
            for step in range(1, 6):
                a[own] += 1
                assert (a[own] == step).all()

        threads = [threading.Thread(target=work, args=(own,)) for own in range(8)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        assert (a == 5).all()


def test_an_array_without_elements_is_over_its_file(cache, tmp_path):
    for shape in (0, (0, 3), (3, 0)):
        path = tmp_path / "empty"
        path.write_bytes(b"old bytes")
        a = cache.array(path, "i4", shape, "w+", offset=4)
        assert a.shape == np.zeros(shape).shape and path.read_bytes() == bytes(4)
        assert (a.filename, a.mode, a.offset) == (path, "w+", 4)
        a.flush(), a.populate(), a.advise("dontneed"), a[:0].flush()
        path.unlink()
        cache.array(path, "i4", shape, "w+").flush()
        assert path.read_bytes() == b""
        with pytest.raises(FileNotFoundError):
            cache.array(tmp_path / "none", "i4", shape)
        path.write_bytes(b"old bytes")
        for mode in ("r", "r+", "c"):
            cache.array(path, "i4", shape, mode).flush()
            assert path.read_bytes() == b"old bytes"
        path.unlink()
    cache.empty((3, 0)).flush()
    keep = cache.array(tmp_path / "kept", "i4", 5, "w+")
    with pytest.raises(OSError, match="drop them first"):
        cache.array(tmp_path / "kept", "i4", 0, "w+")
    assert keep.size == 5


def test_a_short_file_is_extended(cache, tmp_path):
    path = tmp_path / "short"
    path.write_bytes(b"abcd")
    a = cache.array(path, "u1", 10_000, "r+", offset=2)
    assert a[:2].tobytes() == b"cd" and not a[2:].any() and path.stat().st_size == 10_002
    a[-1] = 7
    a.flush()
    assert path.read_bytes()[-1] == 7
    for shape in (10_000, 10_001):
        with pytest.raises(ValueError, match="smaller shape"):
            cache.array(path, "u1", shape, "r", offset=3)
    with pytest.raises(OSError, match="its first 10002 bytes: drop them first"):
        cache.array(path, "u1", 10_001, "r+", offset=2)
    del a
    gc.collect()
    with cache.open(path), pytest.raises(OSError):
        cache.array(path, "u1", 20_000, "r+")
    assert path.stat().st_size == 10_002, "it is as long as before"


def test_a_file_that_grew_has_new_arrays(cache, path, contents):
    a = cache.array(path)
    with open(path, "ab") as file:
        file.write(bytes(range(256)) * 40)
    b = cache.array(path)
    assert a.tobytes() == contents and b.tobytes() == contents + bytes(range(256)) * 40
    assert cache.array(path, shape=100).region is b.region
    with pytest.raises(OSError, match="drop them first"):
        cache.array(path, mode="r+")
    del a, b
    gc.collect()
    a = cache.array(path, mode="r+")
    with open(path, "ab") as file:
        file.write(b"more")
    for mode in ("r", "r+"):
        with pytest.raises(OSError, match="its first 210240 bytes: drop them first") as caught:
            cache.array(path, mode=mode)
        assert caught.value.filename == str(path)


SHRUNK = """
import os, sys, numpy, pagetide
cache = pagetide.PageCache("1M", direct_io=False)
a = cache.array(sys.argv[1], "u1", mode=sys.argv[2], faults=sys.argv[3])
a[0:1].sum()
os.truncate(sys.argv[1], 100_001)
try:
    a.flush()
    print("nothing")
except OSError as error:
    print(error.filename == sys.argv[1], "shrunk to 100001 bytes" in str(error))
print(a[:100_001].sum(), flush=True)
if sys.argv[2] == "r+":
    a[100_000] += 1
    try: a.flush()
    except OSError: print(os.stat(sys.argv[1]).st_size, flush=True)
print(a[150_000], flush=True)
"""


@pytest.mark.parametrize("mode", ["r", "r+"])
def test_a_file_that_shrinks_is_no_zeros_and_does_not_grow_back(path, contents, mode, faults):
    status, said, complaint = run_python(SHRUNK, path, mode, faults)
    rest = "100001\n" if mode == "r+" else ""
    assert said == f"True True\n{sum(contents[:100_001])}\n{rest}", (said, complaint)
    assert status == -7 and str(path) in complaint and "100001" in complaint
    expected = contents[:100_000] + bytes([contents[100_000] + (mode == "r+")])
    assert path.read_bytes() == expected


def test_copies_on_write_of_a_file_that_shrinks_have_its_last_bytes(path, contents, faults):
    status, said, complaint = run_python(SHRUNK, path, "c", faults)
    assert said == f"nothing\n{sum(contents[:100_001])}\n", (said, complaint)
    assert status == -7 and str(path) in complaint and "shrunk" in complaint


def test_dirty_pages_of_a_file_that_shrank_do_not_grow_it(tmp_path):
    path = tmp_path / "shrunk"
    with pagetide.PageCache("4M", background=False) as cache:
        a = cache.array(path, "u1", 1 << 20, "w+")
        a[:] = 1
        os.truncate(path, 5000)
        with pytest.raises(OSError, match="shrunk to 5000 bytes"):
            a.flush()
        assert path.read_bytes() == b"\1" * 5000 or path.stat().st_size == 5000
        with pytest.raises(OSError):
            a.flush()
        del a
        gc.collect()
    assert path.stat().st_size == 5000


def test_copies_on_write_reach_no_file(tmp_path, faults):
    plain = np.random.default_rng(3).integers(0, 1 << 30, 1 << 20, dtype="i4")
    path = tmp_path / "array"
    plain.tofile(path)
    with pagetide.PageCache("512K") as cache:
        shared = cache.array(path, "i4", mode="r+")
        shared[5] = plain[5] = -1
        a, b = (cache.array(path, "i4", mode=mode, faults=faults) for mode in ("c", "copyonwrite"))
        assert a.mode == b.mode == "c" and a.region is not b.region
        a[::3] = 7
        b[-1] = 8
        expected = plain.copy()
        expected[::3] = 7
        # More than the memory, twice.
        for _ in range(2):
            assert np.array_equal(a, expected)
            assert np.array_equal(b[:-1], plain[:-1]) and b[-1] == 8
        a.flush()
        assert np.array_equal(shared, plain)
        assert cache.stats().resident_bytes_max <= 512 << 10
        with pytest.raises(ValueError):
            cache.array(path, "i4", 2 << 20, mode="c")
    assert np.array_equal(np.fromfile(path, "i4"), plain)
    os.chmod(path, 0o444)
    c = pagetide.PageCache("512K").array(path, "i4", mode="c")
    c += 1
    assert np.array_equal(c, plain + 1)


def test_a_bad_folder_of_copies_on_write_is_named(cache, tmp_path):
    path = tmp_path / "array"
    path.write_bytes(bytes(100))
    folder = tmp_path / "absent"
    with pytest.raises(FileNotFoundError) as caught:
        cache.region(path, mode="c", folder=folder)
    assert caught.value.filename == str(folder)
    with pytest.raises(IsADirectoryError):
        cache.array(tmp_path, mode="c")


def test_copies_on_write_begin_with_what_an_open_file_was_written(cache, tmp_path):
    path = tmp_path / "array.npy"
    np.save(path, np.arange(1000))
    with cache.open(path, "r+") as f:
        header = path.stat().st_size - 8000
        f.pwrite(bytes(8), header + 80)
        loaded = cache.load(path, mode="c")
        assert loaded[9] == 9 and loaded[10] == 0
        f.pwrite(bytes(8), header + 8000)
        longer = cache.array(path, "i8", mode="c", offset=header)
        assert len(longer) == 1001 and longer[1000] == 0


@pytest.mark.parametrize("mode", ["r", "c", "r+", "w+", "readonly", "copyonwrite", "readwrite", "write"])
def test_attributes_are_those_of_memmap(cache, tmp_path, plain, mode):
    path = tmp_path / "array"
    for given in (path, str(path)):
        plain.tofile(path)
        theirs = np.memmap(given, "i4", mode, 700, (300, 700))
        ours = cache.array(given, "i4", (300, 700), mode, 700)
        assert (ours.mode, ours.offset) == (theirs.mode, theirs.offset)
        assert ours.filename == theirs.filename and type(ours.filename) is type(theirs.filename)
        assert ours.flags.writeable == theirs.flags.writeable
        view = ours[10:]
        assert (view.filename, view.mode, view.offset) == (ours.filename, ours.mode, 700)
        assert (ours.copy().filename, ours.copy().mode) == (None, None)
        del ours, theirs, view
        gc.collect()
    assert cache.array(os.fsencode(path)).filename == str(path)
    assert cache.empty(5).filename is None and cache.empty(5).mode is None


def test_open_files_are_taken_for_their_paths(cache, tmp_path, plain):
    path = tmp_path / "array"
    plain.tofile(path)
    with open(path, "r+b") as file:
        file.write(b"\1\0\0\0")
        a = cache.array(file, "i4", plain.shape)
        assert a[0, 0] == 1 and a.filename == str(path)
    assert np.array_equal(a[1:], plain[1:])
    with tempfile.TemporaryFile() as file:
        file.write(bytes(range(100)))
        b = cache.array(file, mode="r+")
        b[0] = 100
        b.flush()
        file.seek(0)
        assert file.read(3) == b"d\1\2" and b.filename is None
    with cache.open(tmp_path / "ours", "w") as file:
        file.write(b"\1\2\3\4")
    assert cache.array(file.name, "u1").tolist() == [1, 2, 3, 4]
    np.save(tmp_path / "a.npy", plain)
    with open(tmp_path / "a.npy", "rb") as file:
        assert np.array_equal(cache.load(file, "readonly"), plain)
    for wrong in (io.BytesIO(b"1234"), 5, None):
        with pytest.raises((TypeError, io.UnsupportedOperation)):
            cache.array(wrong)
    with pytest.raises(ValueError):
        cache.array(file)


def test_rows_are_brought_in_together_by_all_ways_to_name_them(tmp_path, faults):
    rows = np.arange(4 << 20, dtype="u1").reshape(-1, 4, 1024)
    rows.tofile(tmp_path / "rows")
    cache = pagetide.PageCache(memory="1M")
    a = cache.array(tmp_path / "rows", faults=faults).reshape(rows.shape)
    chance = np.random.default_rng(2)
    for way in (
        lambda a, i: a.take(i, 0), lambda a, i: np.take(a, i, axis=0), lambda a, i: a[i, :],
        lambda a, i: a[i, ...], lambda a, i: a[i, 2], lambda a, i: a[i, 1:3, 7:900],
        lambda a, i: a[i, :, 5], lambda a, i: a[i.tolist(), -1], lambda a, i: a.take(-i, axis=0),
        lambda a, i: a[np.isin(np.arange(len(a)), i)], lambda a, i: a[i, ..., 3],
    ):
        cache.drop()
        a.advise("dontneed")
        index = chance.integers(len(rows), size=60)
        found = way(a, index)
        assert np.array_equal(found, way(rows, index)) and type(found) is np.ndarray
    assert a.region.stats()["missing_faults"] == 0
    column = rows.ravel()[:5000]
    assert np.array_equal(a.reshape(-1).take([[3, 4], [4999, 0]]), column.take([[3, 4], [4999, 0]]))
    assert np.array_equal(a.take([5, 6]), rows.take([5, 6])) and a.take(5) == rows.take(5)
    assert np.array_equal(a.take([0, 9999], 0, mode="clip"), rows.take([0, 9999], 0, mode="clip"))
    assert np.array_equal(a.take([3], 1), rows.take([3], 1))
    out = np.empty((2, 4, 1024), "u1")
    assert a.take([1, 2], 0, out) is out and np.array_equal(out, rows[1:3])
    for wrong in (lambda: a[[9999], :], lambda: a[[1], 9], lambda: a.take([9999], 0)):
        with pytest.raises(IndexError):
            wrong()
    assert np.array_equal(a[[1, 2], [0, 3]], rows[[1, 2], [0, 3]])
    assert np.array_equal(a[[1, 2], None], rows[[1, 2], None])

"""Files: the contract of `io.RawIOBase`, offsets, errors, threads."""

import copy
import errno
import inspect
import io
import os
import pickle
import random
import threading

import pytest

import pagetide
from conftest import run_python


def test_bytes_are_those_of_the_file(cache, path, contents):
    with cache.open(path) as f:
        assert f.pread(4096, offset=8192) == contents[8192:12288]
        assert f.pread(10**9, 199_990) == contents[199_990:]
        assert f.pread(-1, 0) == contents
        assert f.pread(1, 1 << 40) == b""
        assert f.read(5) + f.read(0) + f.read() == contents
        assert f.read() == b"" and f.readall() == b""
        assert f.size == len(contents)
        assert 0 < f.resident_bytes <= 1 << 20


def test_it_is_a_raw_file(cache, path, contents):
    f = cache.open(path)
    assert isinstance(f, io.RawIOBase) and f.name == str(path) and f.mode == "r"
    assert f.readable() and f.seekable() and not f.writable() and not f.isatty()
    assert f.seek(-4, io.SEEK_END) == len(contents) - 4 and f.read() == contents[-4:]
    assert f.seek(8) == 8 and f.seek(8, io.SEEK_CUR) == 16 and f.tell() == 16
    buffer = bytearray(16)
    assert f.readinto(buffer) == 16 and buffer == contents[16:32]
    assert f.readinto(memoryview(buffer)[:0]) == 0
    f.seek(0)
    assert io.BufferedReader(f).read(100) == contents[:100]
    f.close()
    f.close()
    assert f.closed and "closed" in repr(f)
    for call in (f.read, f.tell, f.flush, f.readable, f.seekable, f.isatty, f.fileno):
        with pytest.raises(ValueError):
            call()


def test_a_file_that_no_name_holds_is_good_for_a_call(cache, path, contents, tmp_path):
    assert cache.open(path).read() == contents
    assert cache.open(tmp_path / "new", "w").write(b"tide") == 4
    assert (tmp_path / "new").read_bytes() == b"tide"


def test_lines_and_text(cache, tmp_path):
    path = tmp_path / "text"
    path.write_text("one\ntwo\nthree")
    with cache.open(path) as f:
        assert f.readline() == b"one\n" and list(f) == [b"two\n", b"three"]
    with io.TextIOWrapper(io.BufferedReader(cache.open(path))) as f:
        assert f.read() == "one\ntwo\nthree"


@pytest.mark.parametrize("mode", ["r", "rb", "r+", "rb+", "w", "wb", "w+", "x", "x+", "a", "a+b"])
def test_modes_are_those_of_file_io(cache, tmp_path, mode):
    paths = [tmp_path / "ours", tmp_path / "pythons"]
    files = []
    for path in paths:
        if "x" not in mode:
            path.write_bytes(b"0123456789")
        files.append(cache.open(path, mode) if path == paths[0] else io.FileIO(path, mode))
    for call in (
        lambda f: (f.readable(), f.writable(), f.tell()),
        lambda f: f.read(3),
        lambda f: f.write(b"ab"),
        lambda f: f.seek(1),
        lambda f: f.write(b"cd"),
        lambda f: (f.tell(), f.read(), f.truncate(20), f.tell(), f.truncate()),
        lambda f: f.pread(3, 0) if hasattr(f, "pread") else os.pread(f.fileno(), 3, 0),
    ):
        answers = []
        for f in files:
            try:
                answers.append(call(f))
            except (io.UnsupportedOperation, OSError) as error:
                answers.append(OSError)
        assert answers[0] == answers[1]
    for f in files:
        f.close()
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_any_sequence_of_calls_does_what_a_plain_file_does(cache, tmp_path):
    chance = random.Random(25)
    ours, plain = tmp_path / "ours", io.BytesIO()
    with cache.open(ours, "w+") as f:
        for _ in range(1500):
            at, length = chance.randrange(3 << 20), chance.choice([1, 100, 4096, 50_000])
            match chance.choice(["read", "write", "pread", "pwrite", "seek", "truncate"]):
                case "read":
                    assert f.read(length) == plain.read(length)
                case "write":
                    data = chance.randbytes(length)
                    assert f.write(data) == plain.write(data)
                case "pread":
                    assert f.pread(length, at) == plain.getvalue()[at : at + length]
                case "pwrite":
                    data, before = chance.randbytes(length), plain.tell()
                    plain.seek(at)
                    assert f.pwrite(data, at) == plain.write(data)
                    plain.seek(before)
                case "seek":
                    assert f.seek(at) == plain.seek(at)
                case "truncate":
                    # A BytesIO does not grow like a file.
                    size = min(at, f.size)
                    f.truncate(size), plain.truncate(size)
            assert f.tell() == plain.tell()
    assert ours.read_bytes() == plain.getvalue()
    assert cache.stats().resident_bytes_max <= 1 << 20


def test_what_was_flushed_is_seen_by_others(cache, path):
    with cache.open(path, "r+") as f:
        f.pwrite(b"tide", offset=4094)
        f.flush()
        assert path.read_bytes()[4094:4098] == b"tide"
        f.sync()
        f.advise("sequential")
        f.advise("dontneed")
        assert f.resident_bytes == 0 and cache.stats().dirty_bytes == 0


def test_errors_are_pythons(cache, path, tmp_path):
    with pytest.raises(FileNotFoundError) as caught:
        cache.open(tmp_path / "none")
    assert (caught.value.errno, caught.value.filename) == (errno.ENOENT, str(tmp_path / "none"))
    with pytest.raises(FileExistsError):
        cache.open(path, "x")
    with pytest.raises(IsADirectoryError):
        cache.open(tmp_path)
    for mode in ("", "rw", "q", "r++", "t"):
        with pytest.raises(ValueError, match="mode"):
            cache.open(path, mode)
    with cache.open(path) as f:
        with pytest.raises(io.UnsupportedOperation):
            f.fileno()
        with pytest.raises(io.UnsupportedOperation):
            f.write(b"1")
        with pytest.raises(ValueError):
            f.pread(1, -1)
        with pytest.raises(ValueError):
            f.seek(-1)
        with pytest.raises(ValueError):
            f.seek(0, 9)
        with pytest.raises(TypeError):
            f.readinto(b"bytes are for reading alone")
        with pytest.raises(TypeError):
            f.preadinto("text has no bytes", 0)
        with pytest.raises(BufferError):
            f.readinto(memoryview(bytearray(10))[::2])
        with pytest.raises(ValueError, match="advice"):
            f.advise("perhaps")


def test_a_failed_write_is_heard_of_at_the_flush():
    if not os.path.exists("/dev/full"):
        pytest.skip("there is no /dev/full")
    # A device cannot be a store, so a file that may not grow stands for a full disk.
    code = """
import errno, resource, signal, sys, pagetide
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
cache = pagetide.PageCache(memory="8M", background=False)
f = cache.open(sys.argv[1], "w")
f.write(b"1" * (4 << 20))
try:
    f.close()
except OSError as error:
    print(error.errno == errno.EFBIG, f.closed)
"""
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        status, said, complaint = run_python(code, os.path.join(folder, "full"))
        assert said.strip() == "True True", (status, said, complaint)


def test_settings_that_cannot_be_are_value_errors():
    for wrong in ({"memory": "8X"}, {"memory": 10}, {"memory": -1}, {"memory": 1 << 65}):
        with pytest.raises(ValueError):
            pagetide.PageCache(**wrong)
    for wrong in ({"policy": "best"}, {"dirty": 1000}, {"no_such_knob": 1}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            pagetide.PageCache(memory="1M", **wrong)
    with pytest.raises(TypeError):
        pagetide.PageCache(memory=1.5)
    with pytest.raises(MemoryError):
        pagetide.PageCache(memory=1 << 40, pretouch=False, memory_max=1 << 40).resize(1 << 40)


def test_knobs_have_the_names_of_the_command_line(path):
    knobs = {"background": False, "readahead_max": 0, "dirty": "30"}
    with pagetide.PageCache(65536, policy="lru", **knobs) as cache, cache.open(path) as f:
        f.pread(-1, 0)
        stats = cache.stats()
        assert (stats.policy, stats.memory_bytes) == ("lru", 65536)
        assert stats.misses == 49 and stats.accesses == stats.hits + stats.misses
        assert stats.vmstat["readahead_pages"] == 0
        assert 0 <= cache.hit_ratio_at("1M") <= 1
        assert str(stats).startswith("policy      lru\n")
        assert "<td style='text-align:left'>lru</td>" in stats._repr_html_()


def test_a_closed_cache_opens_nothing_and_its_files_go_on(path, contents):
    cache = pagetide.PageCache(memory="1M")
    f = cache.open(path, "r+")
    cache.close()
    cache.close()
    assert cache.closed and "closed" in repr(cache)
    for call in (lambda: cache.open(path), cache.stats, cache.flush):
        with pytest.raises(ValueError, match="closed"):
            call()
    assert f.pread(8, 8) == contents[8:16]
    f.pwrite(b"late", 0)
    f.close()
    assert path.read_bytes()[:4] == b"late"


def test_the_limit_can_change(path):
    with pagetide.PageCache(memory="256K", memory_max="1M") as cache, cache.open(path) as f:
        cache.resize("1M")
        f.pread(-1, 0)
        cache.resize("64K")
        assert cache.stats().resident_bytes <= 65536
        with pytest.raises(ValueError):
            cache.resize("2M")


def test_threads_read_and_write_beside_each_other(tmp_path):
    path, nr_pages = tmp_path / "pages", 512
    path.write_bytes(bytes(nr_pages * 4096))
    failures = []
    with pagetide.PageCache(memory="512K") as cache, cache.open(path, "r+") as f:

        def work(own):
            chance = random.Random(own)
            try:
                for step in range(300):
                    page = chance.randrange(nr_pages // 4) * 4 + own
                    f.pwrite(bytes([step % 256]) * 4096, page * 4096)
                    assert len(set(f.pread(4096, page * 4096))) == 1
                    assert len(set(f.pread(4096, chance.randrange(nr_pages) * 4096))) == 1
            except BaseException as failure:
                failures.append(failure)

        threads = [threading.Thread(target=work, args=(own,)) for own in range(4)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
    assert failures == []


def test_one_position_moves_once_for_each_byte(cache, path, contents):
    with cache.open(path) as f:
        parts = []

        def work():
            while part := f.read(1000):
                parts.append(part)

        threads = [threading.Thread(target=work) for _ in range(4)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
    assert sorted(parts) == sorted(contents[at : at + 1000] for at in range(0, 200_000, 1000))


def test_everything_public_is_described():
    for name in pagetide.__all__:
        thing = getattr(pagetide, name)
        if inspect.isclass(thing):
            assert inspect.getdoc(thing), name
            own = vars(thing).items()
            calls = [key for key, value in own if callable(value) and not key.startswith("_")]
            assert all(inspect.getdoc(getattr(thing, key)) for key in calls), (name, calls)


def test_pinned_bytes_stay_until_released(cache, path, contents):
    with cache.open(path) as f:
        with f.pin(5000, 4090) as pin:
            assert len(pin) == pin.nbytes == 5000 and bytes(pin) == contents[4090:9090]
            view = memoryview(pin)
            assert view.readonly and view[10] == contents[4100]
            with pytest.raises(BufferError, match="release them first"):
                pin.release()
            view.release()
        with pytest.raises((ValueError, BufferError)):
            memoryview(pin)
        pin.release()
        whole = f.pin()
        with pytest.raises((BufferError, TypeError)):
            io.BytesIO(contents).readinto(whole)
        for wrong in ((10, 1 << 40), (10, -1), (1 << 40, 0)):
            with pytest.raises((OSError, ValueError)):
                f.pin(*wrong)
    assert bytes(whole) == contents
    whole.release()
    assert bytes(memoryview(cache.open(path).pin(8, 8))) == contents[8:16]


def test_a_cache_is_pickled_as_its_settings(path, contents):
    with pagetide.PageCache("2M", "lru", dirty="30") as cache:
        assert pickle.loads(pickle.dumps(cache)) is cache is copy.deepcopy(cache)
        pickled = pickle.dumps(cache)
        code = """
import pickle, sys, pagetide
cache, again = (pickle.loads(bytes.fromhex(sys.argv[1])) for _ in range(2))
stats = cache.stats()
print(cache is again, stats.memory_bytes, stats.policy, cache.open(sys.argv[2]).pread(8, 8))
"""
        status, said, complaint = run_python(code, pickled.hex(), path)
        assert (status, said) == (0, f"True {2 << 20} lru {contents[8:16]}\n"), complaint
    with pytest.raises(ValueError, match="closed"):
        pickle.dumps(cache)

"""Fork, spawn, and the interpreter's end."""

import io
import multiprocessing
import os
import pickle
import signal
import warnings

import pytest

import pagetide
from conftest import needs_regions, run_python


def in_child(work):
    """What `work` returns, or the exception's name, in a child that is forked; or its status."""
    receive, send = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        try:
            said = repr(work())
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
        os.write(send, said.encode())
        os._exit(0)
    os.close(send)
    with open(receive) as f:
        said = f.read()
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return said if status == 0 else status


def test_a_child_is_told_that_the_cache_is_its_parents(cache, path, contents):
    f = cache.open(path, "r+")
    f.pwrite(b"parent", 0)
    for work in (lambda: f.pread(4, 0), cache.stats, lambda: cache.open(path), cache.close):
        said = in_child(work)
        assert said.startswith("RuntimeError") and "spawn" in said, said
    assert in_child(lambda: (cache.is_here, pagetide.PageCache("1M").is_here)) == "(False, True)"
    assert f.pread(10, 0) == b"parent" + contents[6:10]


def test_a_child_may_have_a_cache_of_its_own(cache, path, contents):
    cache.open(path)

    def work():
        with pagetide.PageCache("1M") as own, own.open(path) as f:
            return f.pread(-1, 0) == contents

    assert in_child(work) == "True"


@needs_regions
def test_a_child_reads_an_array_over_a_file(cache, path):
    pytest.importorskip("numpy", reason="numpy is not installed")
    a = cache.array(path, "i8", mode="r+")
    a[100] = -5

    def work():
        return int(a.sum()), int(a[100]), in_child(lambda: int(a[100]))

    assert in_child(work) == repr((sum(range(25_000)) - 105, -5, "-5"))


@needs_regions
def test_no_store_of_a_child_is_lost_in_silence(cache, path, contents):
    np = pytest.importorskip("numpy", reason="numpy is not installed")
    a = cache.array(path, "i8", mode="r+")
    plain, view, part = a.view(np.ndarray), memoryview(a.region), a[50:60]

    def add():
        nonlocal a
        a += 1

    def repeat(store):
        # Also the second store after a first one that was caught.
        try:
            store()
        except RuntimeError:
            pass
        return store()

    for store in (
        lambda: a.__setitem__(100, 7), lambda: plain.__setitem__(100, 7), lambda: a.sort(), add,
        lambda: np.add(plain, 1, out=plain), lambda: view.__setitem__(100, 7), a.flush,
        lambda: part.__setitem__(slice(None), 1), lambda: np.copyto(part, 3), a.populate,
        lambda: plain[::2].fill(9), lambda: repeat(lambda: plain.fill(9)),
        lambda: in_forked_child(lambda: plain.fill(9)),
    ):
        said = in_child(store)
        assert "RuntimeError" in said and "spawn" in said, said
    assert a.tobytes() == contents


def in_forked_child(work):
    raise RuntimeError(in_child(work))


def test_no_call_of_a_child_is_lost_in_silence(cache, path, contents):
    f = cache.open(path, "r+")
    buffered = io.BufferedWriter(f)
    for call in (
        lambda: f.pwrite(b"child", 0), lambda: f.write(b"child"), lambda: f.truncate(5), f.flush,
        f.sync, f.close, lambda: f.advise("dontneed"), cache.flush, cache.sync, cache.drop,
        lambda: cache.open(path, "r+"), lambda: cache.resize("2M"), lambda: f.pin(10, 0),
        lambda: (buffered.write(b"child"), buffered.flush()), lambda: pickle.dumps(cache),
    ):
        said = in_child(call)
        assert said.startswith("RuntimeError") and "spawn" in said, said
    assert f.pread(-1, 0) == contents


STORING = """
import multiprocessing, os, sys, pagetide
import numpy as np

def work(number):
    array[number] = number

def work_in_place(number):
    array[number : number + 1] += 1

def work_on_parts(number):
    plain[number : number + 5].fill(number)

if __name__ == "__main__":
    cache = pagetide.PageCache("1M")
    array = cache.array(sys.argv[1], "i8", mode="r+")
    plain = np.asarray(array)
    with multiprocessing.get_context("fork").Pool(2) as pool:
        for job in (work, work_in_place, work_on_parts):
            try:
                pool.map(job, range(100))
                print("nothing")
            except RuntimeError as error:
                print("spawn" in str(error))
"""


@needs_regions
def test_stores_of_forked_workers_raise(path, contents):
    pytest.importorskip("numpy", reason="numpy is not installed")
    status, said, complaint = run_python(STORING, path)
    assert (status, said) == (0, "True\nTrue\nTrue\n"), complaint
    assert path.read_bytes() == contents


@needs_regions
def test_reads_of_an_array_without_a_file_raise_in_a_child(cache):
    pytest.importorskip("numpy", reason="numpy is not installed")
    a = cache.empty(1000, "i8")
    for touch in (lambda: a[0], lambda: a[5:7], lambda: a.__setitem__(0, 1)):
        assert in_child(touch).startswith("RuntimeError")


@needs_regions
def test_a_child_that_touches_its_parents_memory_is_told_why_it_ends():
    code = """
import os, pagetide
cache = pagetide.PageCache("1M")
view = memoryview(cache.region(nbytes=8192))
view[0] = 1
child = os.fork()
if child == 0:
    view[0]
    os._exit(0)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), view[0])
"""
    status, said, complaint = run_python(code)
    assert (status, said) == (0, f"{-signal.SIGSEGV} 1\n")
    assert "touched an array without a file" in complaint and "spawn" in complaint


def read_in_worker(path):
    with pagetide.PageCache("1M") as own, own.open(path) as f:
        return f.pread(8, 80)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_of_a_pool_have_caches_of_their_own(cache, path, contents, method):
    f = cache.open(path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        with multiprocessing.get_context(method).Pool(2) as pool:
            assert pool.map(read_in_worker, [path] * 4) == [contents[80:88]] * 4
    assert f.pread(8, 80) == contents[80:88]


def test_what_is_dirty_at_the_end_is_written(tmp_path):
    code = """
import sys, pagetide
cache = pagetide.PageCache("1M", background=False)
f = cache.open(sys.argv[1], "w")
f.write(b"not closed")
"""
    path = tmp_path / "late"
    status, _, complaint = run_python(code, path)
    assert (status, path.read_bytes()) == (0, b"not closed"), complaint


LIMITED = """
import errno, os, resource, signal, sys, pagetide
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
cache = pagetide.PageCache(memory="8M", background=False)
path = sys.argv[1]

def limit():
    # A file that may not grow stands for a full disk.
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))

def show(call):
    try:
        call()
        print("nothing")
    except OSError as error:
        print(error.errno == errno.EFBIG, error.filename == path, "bytes" in str(error))
"""


@pytest.mark.parametrize(
    "call", ["f.flush", "f.sync", "f.close", "cache.flush", "cache.sync", "cache.close"]
)
def test_a_write_that_fails_late_names_its_file(tmp_path, call):
    code = f"{LIMITED}\nf = cache.open(path, 'w')\nlimit()\nf.write(bytes(4 << 20))\nshow({call})"
    status, said, complaint = run_python(code, tmp_path / "full")
    assert said == "True True True\n", (said, complaint)
    # What was raised was heard of, but is not written.
    assert status == 120, complaint


@pytest.mark.parametrize("kind", ["open", "closed cache", "dropped", "dropped cache"])
def test_a_write_that_fails_at_the_end_fails_the_process(tmp_path, kind):
    end = {
        "open": "",
        "closed cache": "try: cache.close()\nexcept OSError: pass",
        "dropped": "del f",
        "dropped cache": "del f, cache",
    }[kind]
    code = f"{LIMITED}\nf = cache.open(path, 'w')\nlimit()\nf.write(bytes(4 << 20))\n{end}"
    status, _, complaint = run_python(code, tmp_path / "full")
    assert "File too large" in complaint and str(tmp_path / "full") in complaint
    assert "bytes" in complaint
    if kind != "dropped cache":
        assert status == 120, complaint


@needs_regions
def test_a_fork_with_a_full_disk_writes_the_other_files(tmp_path):
    pytest.importorskip("numpy", reason="numpy is not installed")
    code = f"""{LIMITED}
first, last = (cache.array(path + it, "u1", 100, "w+") for it in ("first", "last"))
full = cache.array(path, "u1", 4 << 20, "w+")
more = cache.array(path + "more", "u1", 100, "w+")
limit()
for array in (first, last, full, more):
    array[:] = 5
child = os.fork()
if child == 0:
    os._exit(int(sum(int(array[7]) for array in (first, last, more))))
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    _, said, complaint = run_python(code, tmp_path / "full")
    assert said == "15\n", complaint
    assert "before a fork" in complaint and str(tmp_path / "full") in complaint
    assert "Traceback" not in complaint, complaint


@needs_regions
def test_stores_to_an_array_that_fail_at_the_end_fail_the_process(tmp_path):
    pytest.importorskip("numpy", reason="numpy is not installed")
    code = f"{LIMITED}\na = cache.array(path, 'u1', 4 << 20, 'w+')\nlimit()\na[:] = 1\n"
    status, said, complaint = run_python(f"{code}show(a.flush)", tmp_path / "full")
    assert (status, said) == (120, "True True True\n"), complaint
    status, _, complaint = run_python(code, tmp_path / "full")
    assert status == 120 and str(tmp_path / "full") in complaint


@needs_regions
@pytest.mark.parametrize("faults", ["auto", "signal"])
def test_an_array_that_finds_no_room_says_so_before_it_ends_the_process(tmp_path, faults):
    pytest.importorskip("numpy", reason="numpy is not installed")
    code = (
        f"{LIMITED}\na = cache.empty(64 << 20, 'u1', folder=path, faults={faults!r})\nlimit()\n"
        "a[:] = 1"
    )
    status, _, complaint = run_python(code, tmp_path)
    assert status == -signal.SIGBUS, complaint
    assert str(tmp_path) in complaint and "File too large" in complaint and "room" in complaint


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_write_back_at_their_end(tmp_path, method):
    path = tmp_path / "late"
    worker = multiprocessing.get_context(method).Process(target=write_in_worker, args=(path,))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        worker.start()
    worker.join()
    assert (worker.exitcode, path.read_bytes()) == (0, b"not closed")


def write_in_worker(path):
    global kept
    cache = pagetide.PageCache("1M", background=False)
    kept = cache, cache.open(path, "w")
    kept[1].write(b"not closed")

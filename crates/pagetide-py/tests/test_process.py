"""Fork, spawn, and the interpreter's end."""

import multiprocessing
import os
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
def test_a_child_has_a_copy_of_an_array_over_a_file(cache, path):
    np = pytest.importorskip("numpy", reason="numpy is not installed")
    a = cache.array(path, "i8", mode="r+")
    a[100] = -5

    def work():
        total = int(a.sum())
        a[100] = 7
        return total, in_child(lambda: int(a[100]))

    assert in_child(work) == repr((sum(range(25_000)) - 105, "7"))
    assert a[100] == -5


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

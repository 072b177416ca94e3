"""What type checkers are told is what there is."""

import ast
import dataclasses
import inspect
import os
import pathlib
import subprocess
import sys

import pytest

import pagetide

STUB = ast.parse((pathlib.Path(pagetide.__file__).parent / "__init__.pyi").read_text())
STUBBED = {it.name: it for it in STUB.body if isinstance(it, (ast.ClassDef, ast.FunctionDef))}


def parameters(function):
    it = function.args
    return [arg.arg for arg in [*it.posonlyargs, *it.args, it.vararg, *it.kwonlyargs, it.kwarg]
            if arg is not None]


def members(name):
    functions = [it for it in STUBBED[name].body if isinstance(it, ast.FunctionDef)]
    return {it.name: it for it in functions if not it.name.startswith("__") or it.name == "__init__"}


def test_each_public_name_is_in_the_stub_and_has_words():
    for name in pagetide.__all__:
        it = getattr(pagetide, name)
        if callable(it):
            assert name in STUBBED and it.__doc__, name
    assert set(STUBBED) <= set(pagetide.__all__)
    assert (pathlib.Path(pagetide.__file__).parent / "py.typed").exists()


@pytest.mark.parametrize("name", STUBBED)
def test_what_the_stub_says_of_it_is_so(name):
    it = getattr(pagetide, name)
    if inspect.isfunction(it):
        assert parameters(STUBBED[name]) == list(inspect.signature(it).parameters)
    elif dataclasses.is_dataclass(it):
        fields = [field.target.id for field in STUBBED[name].body]
        assert fields == [field.name for field in dataclasses.fields(it)]
    else:
        for member, function in members(name).items():
            there = inspect.getattr_static(it, member)
            assert member == "__init__" or getattr(it, member).__doc__, f"{name}.{member}"
            if inspect.isfunction(there):
                assert parameters(function) == list(inspect.signature(there).parameters), member


def test_what_there_is_is_in_the_stub():
    for name in ("PageCache", "File", "Region", "Rows", "Curves", "SweepRows"):
        own = {key for key in vars(getattr(pagetide, name)) if not key.startswith("_")}
        known = members(name).keys() | {"isatty", "readable", "writable", "seekable", "readall"}
        known |= {"seek", "tell", "flush", "close"} if name == "File" else set()
        assert own <= known, name


PROGRAM = """
import io
import zarr
from typing import assert_type
import pagetide
import pagetide.fsspec
import pagetide.zarr

cache = pagetide.PageCache("1M")
store = pagetide.zarr.Store("a.zarr", cache, read_only=True)
assert_type(store.cache, pagetide.PageCache)
zarr.open_group(store)
fs = pagetide.fsspec.CachedFileSystem(cache=cache)
assert_type(fs.cache, pagetide.PageCache)
assert_type(fs.cat_file("a"), bytes)
with cache.open("a").pin(10) as pin:
    memoryview(pin)
array = cache.array(open("a", "rb"), "i4", (2, 3), "copyonwrite")
assert_type(array.offset, int)
"""


def test_programs_pass_a_type_checker(tmp_path):
    pytest.importorskip("mypy", reason="mypy is not installed")
    pytest.importorskip("zarr", minversion="3", reason="zarr is not installed")
    pytest.importorskip("fsspec", reason="fsspec is not installed")
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    package = pathlib.Path(pagetide.__file__).parent
    modules = [str(package / name) for name in ("zarr.py", "fsspec.py", "_shared.py")]
    command = ["-m", "mypy", "--strict", "--cache-dir", str(tmp_path / "cache"), "--ignore-missing"]
    done = subprocess.run(
        [sys.executable, *command, str(program), *modules],
        capture_output=True, text=True, cwd=package.parent,
        env=os.environ | {"MYPYPATH": str(package.parent)},
    )
    assert done.returncode == 0, done.stdout + done.stderr

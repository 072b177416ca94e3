"""What the tests share, and how they are counted."""

import os
import subprocess
import sys

import pytest

import pagetide


@pytest.fixture
def cache():
    with pagetide.PageCache(memory="1M") as cache:
        yield cache


@pytest.fixture
def contents():
    """Bytes of which no page is like another, and a part of a page at the end."""
    return b"".join(number.to_bytes(8, "little") for number in range(25_000))


@pytest.fixture
def path(tmp_path, contents):
    path = tmp_path / "contents"
    path.write_bytes(contents)
    return path


def has_regions():
    try:
        pagetide.PageCache(memory="64K").region(nbytes=4096)
    except OSError as error:
        return str(error)
    return None


needs_regions = pytest.mark.skipif(has_regions() is not None, reason=f"no regions: {has_regions()}")


def run_python(code, *arguments):
    """Runs code in an interpreter of its own; returns its status, stdout and stderr."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    env = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    return done.returncode, done.stdout, done.stderr


def pytest_terminal_summary(terminalreporter):
    """The closing lines that `cargo x check` counts."""
    reports = terminalreporter.stats
    count = {kind: len(reports.get(kind, [])) for kind in ("passed", "skipped", "failed", "error")}
    for report in reports.get("skipped", []):
        print(f"\nSKIPPED: {report.nodeid}: {report.longrepr[2].removeprefix('Skipped: ')}")
    passed, failed = count["passed"] + count["skipped"], count["failed"] + count["error"]
    print(f"\ntest result: {passed} passed; {failed} failed; 0 ignored")

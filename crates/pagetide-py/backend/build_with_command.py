"""Maturin's build of the package, with the `pagetide` command among what the wheel installs.

Maturin takes the folder `pagetide.data` along as it is, and wants it to be there; the command is
built into it for a wheel. Its preload library is inside the command.
"""

import contextlib
import json
import pathlib
import shutil
import subprocess

import maturin
from maturin import get_requires_for_build_sdist, get_requires_for_build_wheel  # noqa: F401

_HERE = pathlib.Path(__file__).resolve().parent.parent
_BUILD = "cargo build --release --locked --package pagetide-cli --message-format json".split()


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    with _scripts():
        return maturin.prepare_metadata_for_build_wheel(metadata_directory, config_settings)


def build_sdist(sdist_directory, config_settings=None):
    with _scripts():
        return maturin.build_sdist(sdist_directory, config_settings)


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    with _scripts() as scripts:
        shutil.copy2(_built_command(), scripts)
        return maturin.build_wheel(wheel_directory, config_settings, metadata_directory)


@contextlib.contextmanager
def _scripts():
    data = _HERE / "pagetide.data"
    (data / "scripts").mkdir(parents=True, exist_ok=True)
    try:
        yield data / "scripts"
    finally:
        shutil.rmtree(data)


def _built_command():
    done = subprocess.run(_BUILD, cwd=_HERE, stdout=subprocess.PIPE, text=True, check=True)
    messages = (json.loads(line) for line in done.stdout.splitlines() if line.startswith("{"))
    return next(it["executable"] for it in messages if it.get("executable"))

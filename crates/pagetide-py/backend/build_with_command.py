"""Maturin's build of the package, with the `pagetide` command among what the wheel installs.

Maturin takes a folder `pagetide.data` along as it is; the command is built into it first. Its
preload library is inside the command.
"""

import json
import pathlib
import shutil
import subprocess

import maturin
from maturin import *  # noqa: F403, what pip asks for besides

_HERE = pathlib.Path(__file__).resolve().parent.parent
_BUILD = "cargo build --release --locked --package pagetide-cli --message-format json".split()


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    scripts = _HERE / "pagetide.data" / "scripts"
    scripts.mkdir(parents=True, exist_ok=True)
    try:
        shutil.copy2(_built_command(), scripts)
        return maturin.build_wheel(wheel_directory, config_settings, metadata_directory)
    finally:
        shutil.rmtree(scripts.parent)


def _built_command():
    done = subprocess.run(_BUILD, cwd=_HERE, stdout=subprocess.PIPE, text=True, check=True)
    messages = (json.loads(line) for line in done.stdout.splitlines() if line.startswith("{"))
    return next(it["executable"] for it in messages if it.get("executable"))

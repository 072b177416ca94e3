"""What the Python door costs beside what people use instead: by turns in one run, medians.

    pread      a resident 4 KiB page, against os.pread on the kernel's page cache; nanoseconds a call
    readinto   1 MiB, resident, against a raw file of `open`; microseconds a call
    sum        of a resident array, whose pages are made huge in the first quiet second, against plain numpy, whose
               pages are; milliseconds
    gather     random rows of 4 KiB over 4x memory, against numpy.memmap (and with MADV_RANDOM) in a memory cgroup of
               the same limit; thousand rows a second
    replay     a trace, against the command `pagetide replay`; seconds, reading included

Ratios above 1 are the door's. The gathers need a writable cgroup hierarchy (root), and a folder on a real disk.
"""

import argparse
import contextlib

import mmap
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import pagetide

PAGE = 4096
# A third of them fill the memory; by readahead sooner, and very much slower.
NR_ROWS = {"pagetide": 48_000, "MADV_RANDOM": 48_000, "memmap": 2_400}


def timed(work, times=1):
    start = time.perf_counter()
    for _ in range(times):
        work()
    return (time.perf_counter() - start) / times


def say(name, unit, runs, subjects, is_rate=False):
    """Runs all subjects in turn, so many times; the first is the door's."""
    values = {subject: [] for subject in subjects}
    for _ in range(runs):
        for subject, measure in subjects.items():
            values[subject].append(measure())
    ours, *others = values
    medians = {subject: statistics.median(each) for subject, each in values.items()}
    shown = ", ".join(f"{subject} {median:.4g}" for subject, median in medians.items())
    print(f"{name}, {unit}: {shown}")
    for other in others:
        ratios = sorted((b / a) ** (-1 if is_rate else 1) for a, b in zip(values[ours], values[other]))
        print(f"    {ratios[len(ratios) // 2]:.2f}x of {other} ({ratios[0]:.2f} to {ratios[-1]:.2f})")


def resident(folder, runs):
    path = folder / "resident"
    path.write_bytes(os.urandom(64 << 20))
    cache = pagetide.PageCache("256M")
    file, raw, fd = cache.open(path), open(path, "rb", buffering=0), os.open(path, os.O_RDONLY)
    file.pread(-1, 0), os.pread(fd, 64 << 20, 0)
    offsets = [int(page) * PAGE for page in np.random.default_rng(1).permutation(16 << 10)]

    def preads(pread):
        return timed(lambda: [pread(offset) for offset in offsets], 5) / len(offsets) * 1e9

    say("pread of 4 KiB", "ns", runs, {
        "pagetide": lambda: preads(lambda offset: file.pread(PAGE, offset)),
        "os.pread": lambda: preads(lambda offset: os.pread(fd, PAGE, offset)),
    })
    buffer = bytearray(1 << 20)

    def readintos(it):
        def once():
            it.seek(0)
            while it.readinto(buffer) == len(buffer):
                pass

        return timed(once, 5) / 64 * 1e6

    say("readinto of 1 MiB", "us", runs, {
        "pagetide": lambda: readintos(file), "open": lambda: readintos(raw),
    })
    file.close()
    array, plain = cache.array(path, "i8"), np.fromfile(path, "i8")
    array.sum()
    time.sleep(1.5)
    say("sum of 64 MiB", "ms", runs, {
        "pagetide": lambda: timed(array.sum, 5) * 1e3, "numpy": lambda: timed(plain.sum, 5) * 1e3,
    })


@contextlib.contextmanager
def memory_group(limit):
    """The file that a process writes its id into."""
    v1 = pathlib.Path("/sys/fs/cgroup/memory")
    root, name = (v1, "memory.limit_in_bytes") if v1.is_dir() else (v1.parent, "memory.max")
    group = root / f"pagetide-{os.getpid()}"
    group.mkdir()
    try:
        (group / name).write_text(str(limit))
        yield group / "cgroup.procs"
    finally:
        group.rmdir()


def gather_once(path, memory, subject, group):
    """Thousand rows a second of one subject; in a process of its own."""
    if subject == "pagetide":
        rows = pagetide.PageCache(memory).array(path).reshape(-1, PAGE)
    else:
        # What is in memory by now is not the group's: it has its limit for pages of the file.
        pathlib.Path(group).write_text(str(os.getpid()))
        rows = np.memmap(path, "u1", "r").reshape(-1, PAGE)
        if subject == "MADV_RANDOM":
            rows._mmap.madvise(mmap.MADV_RANDOM)
    indexes = np.random.default_rng(2).integers(len(rows), size=(NR_ROWS[subject] // 100, 100))
    warm = len(indexes) // 3
    for batch in indexes[:warm]:
        rows[batch]
    start = time.perf_counter()
    for batch in indexes[warm:]:
        rows[batch]
    return (len(indexes) - warm) * 100 / (time.perf_counter() - start) / 1e3


def gathers(folder, runs, memory):
    path = folder / "large"
    with open(path, "wb") as out:
        for _ in range(4 * memory >> 20):
            out.write(os.urandom(1 << 20))
        os.fsync(out.fileno())

    def subject(name):
        def measure():
            with open(path, "rb") as large:
                os.posix_fadvise(large.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            with memory_group(memory) as group:
                command = [sys.executable, __file__, "--gather", str(path), str(memory), name, str(group)]
                return float(subprocess.check_output(command))

        return measure

    names = ("pagetide", "memmap", "MADV_RANDOM")
    try:
        say(f"gather over 4x {memory >> 20} MiB", "k rows/s", runs, {it: subject(it) for it in names}, True)
    except OSError as error:
        print(f"SKIPPED: gather: no memory cgroup: {error}")


def replays(folder, runs, trace):
    command = shutil.which("pagetide", path=os.path.dirname(sys.executable))
    asked = ["--memory", "16M,64M", "--policy", "lru,mglru,arc"]
    say(f"replay of {pathlib.Path(trace).name}", "s", runs, {
        "pagetide.replay": lambda: timed(lambda: pagetide.replay(trace, ["16M", "64M"], ["lru", "mglru", "arc"])),
        "command": lambda: timed(lambda: subprocess.run([command, "replay", trace, *asked], check=True,
                                                        stdout=subprocess.DEVNULL)),
    })


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dir", default="/var/tmp", help="a folder on a real disk")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--memory", type=int, default=64 << 20, help="of the gathers, in bytes")
    parser.add_argument("--trace", help="of the replays")
    parser.add_argument("--gather", nargs=4, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.gather:
        path, memory, subject, group = args.gather
        print(gather_once(path, int(memory), subject, group))
        return
    with tempfile.TemporaryDirectory(prefix="pagetide-", dir=args.dir) as folder:
        folder = pathlib.Path(folder)
        resident(folder, args.runs)
        gathers(folder, args.runs, args.memory)
        if args.trace:
            replays(folder, args.runs, args.trace)


if __name__ == "__main__":
    main()

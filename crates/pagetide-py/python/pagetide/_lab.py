"""The lab: traces replayed through the policies, in virtual time."""

import array
import os

from pagetide import _pagetide
from pagetide._policy import play
from pagetide._rows import Curves, ReplayRows

_USUAL = ("pagetide", "mglru", "lru")


def replay(
    trace, memory=(), policy=_USUAL, *, frames=(), times=None, kinds=None, clock="costs",
    format=None, lenient=False, readahead="without", jobs=None
):
    """Replay a trace through policies in memories; a row for each policy at each size.

    The numbers are those of the command `pagetide replay`, and so is the code.

    trace
        The path of a file in one of 17 formats (docs/formats.md), also compressed; or page
        numbers: an array or a sequence of integers from 0 to 2**64 - 1, a page of 4 KiB each.
    memory, frames
        Sizes, one or several: bytes, or text such as "64M"; or frames of 4 KiB.
    policy
        Names, as `pagetide policies` lists them, and "opt", Belady's bound; classes derived from
        `Policy`, which is a policy in Python.
    times, kinds
        With page numbers: when each access was made, in seconds, ascending; and what it was: a
        string of r (read), w (write) and d (discarded), or booleans that are true for writes.
    clock
        "costs": an access is made once the one before is done. "trace": not before its time.
    format, lenient, readahead
        Of a file: its format where its name and first bytes do not tell; whether malformed lines
        are skipped; "recorded" gives every policy what the recorded run read ahead.
    jobs
        Replays at a time; one a core, as far as memory allows, without.

    Waits release the GIL, and Ctrl-C ends them. Raises OSError for a file that cannot be read,
    ValueError for one that makes no sense, MemoryError where it does not fit.

        >>> rows = pagetide.replay("twitter.csv.zst", memory=["64M", "256M"], policy=["lru", "opt"])
        >>> rows.to_pandas()
    """
    path, arrays = _source(trace, times, kinds)
    policies, sizes = _list(policy), _pagetide.frames_of(_list(memory), _list(frames))
    named, classes = [], []
    for one in policies:
        (classes if isinstance(one, type) else named).append(one)
    rows = _pagetide.replay(
        path=path, arrays=arrays, policies=named, memory=[], frames=sizes, clock=clock,
        format=format, lenient=lenient, readahead=readahead, jobs=jobs,
    )
    if classes:
        played = play(classes, sizes, path, arrays, format, lenient)
        built_in = iter(rows)
        rows = [played[one, size] if isinstance(one, type) else next(built_in)
                for size in sizes for one in policies]
    return ReplayRows(rows)


def mrc(
    trace, policy=("pagetide", "mglru", "active-inactive", "lru"), *, points=32, sample=None,
    times=None, kinds=None, format=None, lenient=False, readahead="without", jobs=None
):
    """Miss-ratio curves of a trace: the miss ratio of each policy at each of `points` sizes.

    Sizes are evenly spaced by ratio, up to that of all pages; the numbers are those of the command
    `pagetide mrc`. `sample`, as in 0.01, follows only that share of the pages, and has an error.
    The other arguments are those of `replay`, and so are the errors.

        >>> pagetide.mrc("twitter.csv.zst", policy=["mglru", "pagetide"]).plot()
    """
    path, arrays = _source(trace, times, kinds)
    return Curves(_pagetide.mrc(
        path=path, arrays=arrays, policies=_list(policy), points=points, sample=sample,
        format=format, lenient=lenient, readahead=readahead, jobs=jobs,
    ))


def _list(given):
    """One or several of it."""
    if isinstance(given, str) or not hasattr(given, "__iter__"):
        return [given]
    return list(given)


def _source(trace, times, kinds):
    if isinstance(trace, (str, bytes, os.PathLike)):
        if times is not None or kinds is not None:
            raise ValueError("a file has its own times and kinds")
        return os.fsdecode(trace), None
    pages = _words(trace, "page numbers")
    times = None if times is None else _milliseconds(times)
    kinds = None if kinds is None else _letters(kinds)
    return None, (pages, times, kinds)


def _words(numbers, what):
    """Integers as an array of 64 bits each."""
    if hasattr(numbers, "__array__"):
        import numpy as np

        numbers = np.asarray(numbers)
        if numbers.ndim != 1 or numbers.dtype.kind not in "ui":
            raise ValueError(f"{what}: an array of integers in one dimension, not {numbers.dtype} "
                             f"in {numbers.ndim}")
        if numbers.dtype.kind == "i" and numbers.size and numbers.min() < 0:
            raise ValueError(f"{what}: {numbers.min()} is below 0")
        return np.ascontiguousarray(numbers, dtype="=u8")
    try:
        return array.array("Q", numbers)
    except OverflowError as error:
        raise ValueError(f"{what}: {error}") from None


def _milliseconds(times):
    if hasattr(times, "__array__"):
        import numpy as np

        times = np.asarray(times, dtype="f8")
        if times.size and not (np.isfinite(times).all() and times.min() >= 0):
            raise ValueError("times: seconds from 0 on")
        return _words((times * 1000).astype("u8"), "times")
    return _words([int(time * 1000) for time in times], "times")


def _letters(kinds):
    if isinstance(kinds, str):
        return kinds.encode()
    if isinstance(kinds, (bytes, bytearray)):
        return kinds
    if hasattr(kinds, "tolist"):
        kinds = kinds.tolist()
    return "".join("rw"[kind] if isinstance(kind, (bool, int)) else kind for kind in kinds).encode()

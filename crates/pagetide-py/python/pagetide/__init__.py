"""A page cache that your program owns: real files, a hard byte limit, the reclaim of a kernel.

    >>> import pagetide
    >>> cache = pagetide.PageCache(memory="512M")
    >>> with cache.open("big.bin") as f:
    ...     f.pread(4096, offset=1 << 30)
    >>> a = cache.array("weights.f32", dtype="f4", shape=(50_000_000, 128))
    >>> print(cache.stats())

Files are `io.RawIOBase`, arrays are numpy's; all of a cache's files and arrays together stay below
its limit, and what is used least leaves.

    >>> rows = pagetide.replay("twitter.csv.zst", ["64M", "256M"], ["lru", "mglru", "opt"])
    >>> pagetide.mrc("twitter.csv.zst", ["mglru", "pagetide"]).plot()

`replay`, `mrc` and `sweep` answer what other policies and sizes would do, from a trace. Sizes are
bytes, or text in binary units such as "512M".
"""

import importlib

from pagetide._cache import CacheStats, PageCache
from pagetide._cache_policy import CachePolicy, PolicyStats
from pagetide._file import File
from pagetide._lab import mrc, replay
from pagetide._pagetide import PAGE_BYTES, Pinned, Region, __version__
from pagetide._policy import Policy
from pagetide._rows import (
    CurvePoint,
    Curves,
    ReplayRow,
    ReplayRows,
    Rows,
    Standing,
    Standings,
    SweepRow,
    SweepRows,
)
from pagetide._sweep import RayExecutor, sweep

__all__ = [
    "PAGE_BYTES", "CachePolicy", "CacheStats", "CurvePoint", "Curves", "File", "PageCache", "Pinned",
    "Policy", "PolicyStats", "RayExecutor", "Region", "ReplayRow", "ReplayRows", "Rows", "Standing",
    "Standings", "SweepRow", "SweepRows", "__version__", "mrc", "replay", "sweep",
]


def __getattr__(name):
    # Imported on use, so that all else works without zarr.
    if name == "zarr":
        return importlib.import_module("pagetide.zarr")
    raise AttributeError(f"module 'pagetide' has no attribute {name!r}")

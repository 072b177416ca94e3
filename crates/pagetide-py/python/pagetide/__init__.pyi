import abc
import concurrent.futures
import dataclasses
import io
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import IO, Any, Generic, Literal, Self, TypeAlias, TypeVar, overload

import matplotlib.axes
import numpy as np
import numpy.typing as npt
import pandas
import pyarrow
from typing_extensions import Buffer

from pagetide._array import Array

__version__: str
PAGE_BYTES: int

_Path: TypeAlias = str | bytes | os.PathLike[str] | os.PathLike[bytes]
_Bytes: TypeAlias = int | str
"""A number of bytes, or text in binary units such as "512M"."""
_Faults: TypeAlias = Literal["auto", "threads", "signal"]
_ArrayMode: TypeAlias = Literal[
    "r", "r+", "w+", "c", "readonly", "readwrite", "write", "copyonwrite"
]
_Readahead: TypeAlias = Literal["without", "recorded"]
_Pages: TypeAlias = Sequence[int] | npt.NDArray[np.integer[Any]]

class PageCache:
    policy: str
    def __init__(
        self, memory: _Bytes, policy: str = "pagetide", *, groups: bool = False, **knobs: Any
    ) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *_: object) -> None: ...
    def open(self, path: _Path, mode: str = "r", *, group: str | None = None) -> File: ...
    def array(
        self,
        path: _Path | IO[Any],
        dtype: npt.DTypeLike = "u1",
        shape: int | Sequence[int] | None = None,
        mode: _ArrayMode = "r",
        offset: int = 0,
        order: Literal["C", "F"] = "C",
        *,
        faults: _Faults = "auto",
    ) -> Array: ...
    def empty(
        self,
        shape: int | Sequence[int],
        dtype: npt.DTypeLike = "f8",
        order: Literal["C", "F"] = "C",
        *,
        folder: _Path | None = None,
        faults: _Faults = "auto",
    ) -> Array: ...
    def load(
        self,
        path: _Path | IO[Any],
        mode: Literal["r", "r+", "c", "readonly", "readwrite", "copyonwrite"] = "r",
        *,
        faults: _Faults = "auto",
    ) -> Array: ...
    def region(
        self,
        path: _Path | None = None,
        nbytes: _Bytes = 0,
        mode: Literal["r", "r+", "w+", "c"] = "r",
        *,
        folder: _Path | None = None,
        faults: _Faults = "auto",
    ) -> Region: ...
    def stats(self) -> CacheStats: ...
    def hit_ratio_at(self, memory: _Bytes) -> float: ...
    def flush(self) -> None: ...
    def resize(self, memory: _Bytes) -> None: ...
    def sync(self) -> None: ...
    def drop(self) -> int: ...
    def lru_gen(self, *, full: bool = False) -> str: ...
    def command_lru_gen(self, commands: str) -> int: ...
    def dump(self) -> str: ...
    def warm(self, dump: str) -> None: ...
    def set_group(
        self,
        name: str,
        *,
        limit: _Bytes | None = None,
        min: _Bytes | None = None,
        low: _Bytes | None = None,
    ) -> None: ...
    def groups(self) -> dict[str, dict[str, int | None]]: ...
    def close(self) -> None: ...
    @property
    def closed(self) -> bool: ...
    @property
    def is_here(self) -> bool: ...

class File(io.RawIOBase):
    name: str
    mode: str
    def pread(self, nbytes: int, offset: int) -> bytes: ...
    def preadinto(self, buffer: Buffer, offset: int) -> int: ...
    def pin(self, nbytes: int = -1, offset: int = 0) -> Pinned: ...
    def pwrite(self, buffer: Buffer, offset: int) -> int: ...
    def read(self, size: int | None = -1, /) -> bytes: ...
    def readinto(self, buffer: Buffer, /) -> int: ...
    def write(self, buffer: Buffer, /) -> int: ...
    def truncate(self, size: int | None = None, /) -> int: ...
    def sync(self) -> None: ...
    def advise(
        self,
        advice: Literal["normal", "sequential", "random", "noreuse", "willneed", "dontneed"],
        offset: int = 0,
        nbytes: int = 0,
    ) -> None: ...
    @property
    def size(self) -> int: ...
    @property
    def resident_bytes(self) -> int: ...
    @property
    def is_dirty_here(self) -> bool: ...

class Pinned:
    def __buffer__(self, flags: int, /) -> memoryview: ...
    def __len__(self) -> int: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *_: object) -> None: ...
    @property
    def nbytes(self) -> int: ...
    def release(self) -> None: ...

class Region:
    def __buffer__(self, flags: int, /) -> memoryview: ...
    def __len__(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def address(self) -> int: ...
    @property
    def writable(self) -> bool: ...
    @property
    def faults(self) -> Literal["threads", "signal"]: ...
    @property
    def is_here(self) -> bool: ...
    def flush(self) -> None: ...
    def populate(self, offset: int = 0, nbytes: int = 0, *, for_writes: bool = False) -> None: ...
    def gather(self, offsets: Buffer, target: Buffer) -> None: ...
    def advise(
        self, advice: Literal["willneed", "dontneed"], offset: int = 0, nbytes: int = 0
    ) -> None: ...
    def stats(self) -> dict[str, int]: ...

@dataclasses.dataclass(frozen=True)
class CacheStats:
    policy: str
    memory_bytes: int
    resident_bytes: int
    resident_bytes_max: int
    dirty_bytes: int
    accesses: int
    hits: int
    misses: int
    hit_ratio: float
    bypass_reads: int
    writes_through: int
    device_reads: int
    device_read_bytes: int
    device_writes: int
    device_write_bytes: int
    refaults: int
    activations: int
    evictions: int
    reclaim_cpu_ns: int
    direct_io: bool
    io_uring: bool
    vmstat: Mapping[str, int]
    text: str

_Key: TypeAlias = int | bytes

@dataclasses.dataclass(frozen=True)
class PolicyStats:
    accesses: int
    hits: int
    misses: int
    inserted: int
    evicted: int
    removed: int
    entries: int
    bytes: int
    pinned: int

class CachePolicy:
    policy: str
    def __init__(
        self,
        policy: str = "pagetide",
        *,
        entries: int | None = None,
        bytes: int | None = None,
        entry_bytes: int = 4096,
        entries_max: int = 0,
    ) -> None: ...
    @staticmethod
    def key(data: bytes) -> int: ...
    def access(self, key: _Key) -> bool: ...
    def insert(self, key: _Key, bytes: int = 1) -> list[int]: ...
    def evicted(self) -> list[int]: ...
    def remove(self, key: _Key) -> bool: ...
    def evict(self) -> int | None: ...
    def pin(self, key: _Key) -> bool: ...
    def unpin(self, key: _Key) -> bool: ...
    def resize(self, *, entries: int | None = None, bytes: int | None = None) -> list[int]: ...
    def stats(self) -> PolicyStats: ...
    def __contains__(self, key: _Key) -> bool: ...
    def __len__(self) -> int: ...

_Row = TypeVar("_Row")

class Rows(Sequence[_Row], Generic[_Row]):
    @overload
    def __getitem__(self, index: int) -> _Row: ...
    @overload
    def __getitem__(self, index: slice) -> Self: ...
    def __len__(self) -> int: ...
    def to_dicts(self) -> list[dict[str, Any]]: ...
    def to_columns(self) -> dict[str, list[Any]]: ...
    def to_pandas(self) -> pandas.DataFrame: ...
    def to_arrow(self) -> pyarrow.Table: ...

@dataclasses.dataclass(frozen=True)
class ReplayRow:
    policy: str
    frames: int
    memory_bytes: int
    accesses: int
    misses: int
    miss_ratio: float
    device_read_bytes: int
    evictions: int
    refaults: int
    activations: int
    seconds: float
    readahead: Literal["none", "without", "recorded"]

class ReplayRows(Rows[ReplayRow]): ...

@dataclasses.dataclass(frozen=True)
class CurvePoint:
    policy: str
    frames: int
    memory_bytes: int
    miss_ratio: float
    device_read_bytes: int
    miss_ratio_error: float

class Curves(Rows[CurvePoint]):
    def plot(self, ax: matplotlib.axes.Axes | None = None) -> matplotlib.axes.Axes: ...

@dataclasses.dataclass(frozen=True)
class SweepRow:
    trace: str
    group: str
    content: str | None
    settings: str
    version: str
    policy: str
    size: str
    frames: int | None
    memory_bytes: int | None
    pages: int | None
    accesses: int | None
    misses: int | None
    miss_ratio: float | None
    device_read_bytes: int | None
    evictions: int | None
    refaults: int | None
    activations: int | None
    seconds: float | None
    error: str | None

@dataclasses.dataclass(frozen=True)
class Standing:
    group: str | None
    policy: str
    cells: int
    win_rate: float
    regret_mean: float
    regret_max: float
    worst_trace: str
    worst_size: str

class Standings(Rows[Standing]): ...

class SweepRows(Rows[SweepRow]):
    standings: Standings
    @property
    def failed(self) -> SweepRows: ...

class Policy(abc.ABC):
    def __init__(self, frames: int) -> None: ...
    def hit(self, pages: list[int]) -> None: ...
    @abc.abstractmethod
    def miss(self, page: int) -> None: ...
    @abc.abstractmethod
    def evict(self) -> int: ...
    def discard(self, page: int) -> None: ...

def replay(
    trace: _Path | _Pages,
    memory: _Bytes | Iterable[_Bytes] = (),
    policy: str | type[Policy] | Iterable[str | type[Policy]] = ...,
    *,
    frames: int | Iterable[int] = (),
    times: Sequence[float] | npt.NDArray[Any] | None = None,
    kinds: str | bytes | Sequence[bool] | npt.NDArray[np.bool_] | None = None,
    clock: Literal["costs", "trace"] = "costs",
    format: str | None = None,
    lenient: bool = False,
    readahead: _Readahead = "without",
    jobs: int | None = None,
) -> ReplayRows: ...
def mrc(
    trace: _Path | _Pages,
    policy: str | Iterable[str] = ...,
    *,
    points: int = 32,
    sample: float | None = None,
    times: Sequence[float] | npt.NDArray[Any] | None = None,
    kinds: str | bytes | Sequence[bool] | npt.NDArray[np.bool_] | None = None,
    format: str | None = None,
    lenient: bool = False,
    readahead: _Readahead = "without",
    jobs: int | None = None,
) -> Curves: ...
def sweep(
    traces: _Path | Iterable[_Path],
    *,
    policy: str | Iterable[str],
    memory: _Bytes | Iterable[_Bytes],
    out: _Path,
    executor: concurrent.futures.Executor | None = None,
    shard: str | None = None,
    jobs: int | None = None,
    format: str | None = None,
    lenient: bool = False,
    readahead: _Readahead = "without",
) -> SweepRows: ...

class RayExecutor(concurrent.futures.Executor):
    def __init__(self, **options: Any) -> None: ...
    def submit(
        self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any
    ) -> concurrent.futures.Future[Any]: ...

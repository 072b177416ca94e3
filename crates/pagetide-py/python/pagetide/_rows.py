"""Rows of answers: a sequence of dataclasses that pandas, pyarrow and notebooks take."""

import collections.abc
import dataclasses

from pagetide._cache import _table


class Rows(collections.abc.Sequence):
    """Answers, a dataclass each, in the order they were asked for.

    A sequence; `to_pandas`, `to_arrow` and `to_dicts` make a table of it, and a notebook shows one.
    """

    _row = None

    def __init__(self, rows):
        self._rows = [it if isinstance(it, self._row) else self._row(*it) for it in rows]

    def __len__(self):
        return len(self._rows)

    def __getitem__(self, index):
        found = self._rows[index]
        return type(self)(found) if isinstance(index, slice) else found

    def __eq__(self, other):
        return self._rows == other._rows if isinstance(other, Rows) else NotImplemented

    __hash__ = None

    def to_dicts(self):
        """A dict for each row."""
        return [dataclasses.asdict(row) for row in self._rows]

    def to_columns(self):
        """A list for each field, by its name."""
        names = [field.name for field in dataclasses.fields(self._row)]
        return {name: [getattr(row, name) for row in self._rows] for name in names}

    def to_pandas(self):
        """A `pandas.DataFrame`, a column for each field. Raises ImportError without pandas."""
        import pandas

        return pandas.DataFrame(self.to_columns())

    def to_arrow(self):
        """A `pyarrow.Table`, a column for each field. Raises ImportError without pyarrow."""
        import pyarrow

        return pyarrow.table(self.to_columns())

    def _cells(self):
        names = [field.name for field in dataclasses.fields(self._row)]
        return names, [[_text(getattr(row, name)) for name in names] for row in self._rows]

    def __str__(self):
        names, rows = self._cells()
        widths = [max(map(len, column)) for column in zip(names, *rows)]
        lines = ("  ".join(cell.rjust(width) for cell, width in zip(line, widths)) for line in
                 [names, *rows])
        return "\n".join(lines)

    def __repr__(self):
        return f"<pagetide.{type(self).__name__} of {len(self)} rows>\n{self}"

    def _repr_html_(self):
        return _table(*self._cells())


def _text(value):
    if isinstance(value, float):
        return f"{value:.6f}"
    return "" if value is None else str(value)


@dataclasses.dataclass(frozen=True)
class ReplayRow:
    """What one policy did in one memory. Bytes, seconds and frames (4 KiB) are in the names."""

    policy: str
    frames: int
    memory_bytes: int
    accesses: int
    misses: int
    miss_ratio: float
    """Misses over accesses, from 0 to 1."""
    device_read_bytes: int
    """From the store, by misses and by readahead."""
    evictions: int
    """Pages evicted."""
    refaults: int
    """Misses on pages that were evicted before, where the policy remembers."""
    activations: int
    """Refaults taken for hot at once."""
    seconds: float
    """How long the replay took, beside others on other cores."""
    readahead: str
    """What became of readahead in the trace: "none" was in it, all are "without", or all have what
    was "recorded"."""


class ReplayRows(Rows):
    """What `replay` returns: a `ReplayRow` for each policy at each size."""

    _row = ReplayRow


@dataclasses.dataclass(frozen=True)
class CurvePoint:
    """A point of a miss-ratio curve."""

    policy: str
    frames: int
    memory_bytes: int
    miss_ratio: float
    """Misses over accesses, from 0 to 1."""
    device_read_bytes: int
    miss_ratio_error: float
    """One standard error of the miss ratio, from sampling; 0 where all pages were followed."""


class Curves(Rows):
    """What `mrc` returns: a `CurvePoint` for each policy at each size."""

    _row = CurvePoint

    def plot(self, ax=None):
        """Draw the curves by matplotlib, into `ax` if it is given; return the axes.

        Memory is in MiB on a logarithmic axis. Raises ImportError without matplotlib.
        """
        import matplotlib.pyplot

        if ax is None:
            ax = matplotlib.pyplot.figure().add_subplot()
        for policy in dict.fromkeys(point.policy for point in self):
            points = [point for point in self if point.policy == policy]
            memory = [point.memory_bytes / 2**20 for point in points]
            ratios = [point.miss_ratio for point in points]
            errors = [point.miss_ratio_error for point in points]
            if any(errors):
                ax.errorbar(memory, ratios, errors, label=policy)
            else:
                ax.plot(memory, ratios, label=policy)
        ax.set_xscale("log")
        ax.set_ylim(bottom=0)
        ax.set_xlabel("memory, MiB")
        ax.set_ylabel("miss ratio")
        ax.legend()
        return ax


@dataclasses.dataclass(frozen=True)
class SweepRow:
    """What one policy did in one memory over one trace; the numbers are None where it failed."""

    trace: str
    group: str
    """The folder of the trace."""
    content: str | None
    """The 128-bit XXH3 hash of the file's bytes."""
    settings: str
    """How the trace was read."""
    version: str
    policy: str
    size: str
    """As it was asked for: frames, or a share of the trace's pages in percent."""
    frames: int | None
    memory_bytes: int | None
    pages: int | None
    """Distinct pages of the trace."""
    accesses: int | None
    misses: int | None
    miss_ratio: float | None
    device_read_bytes: int | None
    evictions: int | None
    refaults: int | None
    activations: int | None
    seconds: float | None
    error: str | None
    """Why there are no numbers."""


@dataclasses.dataclass(frozen=True)
class Standing:
    """How one policy did against the others in one group of traces; group None is all of them."""

    group: str | None
    policy: str
    cells: int
    """Traces by sizes that it was compared at."""
    win_rate: float
    """The share of these in which none missed less, from 0 to 1."""
    regret_mean: float
    """How much more it missed than the best: a difference of miss ratios."""
    regret_max: float
    worst_trace: str
    """Where that was."""
    worst_size: str


class Standings(Rows):
    """A `Standing` for each policy in each group of traces, then in all of them."""

    _row = Standing


class SweepRows(Rows):
    """What `sweep` returns: a `SweepRow` for each trace, size and policy."""

    _row = SweepRow

    def __init__(self, rows, standings=()):
        super().__init__(rows)
        self.standings = Standings(standings)
        """Win rates and regret, by group: a `Standings`."""

    @property
    def failed(self):
        """The rows that have an error instead of numbers."""
        return SweepRows([row for row in self if row.error is not None])

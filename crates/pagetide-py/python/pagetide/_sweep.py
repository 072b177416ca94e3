"""Sweeps: many traces by policies by sizes, on this machine or on an executor's."""

import concurrent.futures
import os
import queue
import sys
import tempfile

from pagetide import _pagetide
from pagetide._lab import _list
from pagetide._rows import SweepRows

_ATTEMPTS = 3
"""A worker may die of another unit: its units are sent again, but not for ever."""


def sweep(
    traces, *, policy, memory, out, executor=None, shard=None, jobs=None, format=None,
    lenient=False, readahead="without"
):
    """Replay traces through policies and sizes; only what is missing, and keep it.

    traces
        Files, folders of them with all that is below, and the same by addresses of fsspec
        ("s3://bucket/traces/", "s3://bucket/*.csv.zst").
    policy, memory
        As for `replay`; a size may also be a share of each trace's pages, such as "1%".
    out
        The table, a Parquet file. Rows are kept as they come in a folder beside it, `out`.rows, as
        lines of JSON keyed by the trace's content, the settings and the version: a sweep that was
        interrupted, or is asked for more, does the rest, and so does the command `pagetide sweep`.
    executor
        Any `concurrent.futures.Executor`: a unit of work is one trace, read once for all that is
        asked of it. `ProcessPoolExecutor`, Dask's `client.get_executor()`, `RayExecutor`. What a
        dead worker had is sent again. Without one, all cores of this machine, as far as memory
        allows; `jobs` is how many then.
    shard
        "1/16": only the first of sixteen parts of the traces, by their names, and no table. Once
        all parts are done, the same call without makes it.

    Returns the rows of these traces; `.standings` has win rates and regret, `.failed` what failed:
    a trace that cannot be read is a row with its error. Raises OSError where rows or the table
    cannot be written, ValueError for names and sizes that cannot be.

        >>> rows = pagetide.sweep("traces/", policy=["lru", "arc"], memory=["1%", "10%"],
        ...                       out="results.parquet")
        >>> print(rows.standings)
    """
    os.stat(os.path.dirname(os.path.abspath(out)))
    names = _names(traces)
    if shard is not None:
        names = _pagetide.in_shard(names, shard)
    asked = (_list(policy), [str(size) for size in _list(memory)])
    reading = (format, lenient, readahead)
    plan = _pagetide.Plan(f"{os.fspath(out)}.rows", *asked, *reading)
    progress = _Progress(len(names))
    if executor is None and not any(map(_is_address, names)):
        failures = plan.run(names, jobs, progress.parts)
    elif executor is None:
        with concurrent.futures.ThreadPoolExecutor(jobs or os.cpu_count()) as threads:
            failures = _spread(plan, names, (*asked, *reading), threads, progress)
    else:
        failures = _spread(plan, names, (*asked, *reading), executor, progress)
    progress.end()
    rows = SweepRows(*plan.table(names, failures))
    if shard is None:
        plan.write(out, names, failures)
    return rows


def _spread(plan, names, question, executor, progress):
    """Has the executor run a unit for each trace of which something is missing."""
    failures, attempts, pending, done = {}, {}, {}, queue.SimpleQueue()

    def send(name):
        attempts[name] = attempts.get(name, 0) + 1
        try:
            stamp = _stamp(name)
            missing = plan.missing(name, stamp)
            if missing != []:
                future = executor.submit(_run_unit, name, stamp, missing, *question)
                pending[future] = name
                future.add_done_callback(done.put)
        except Exception as error:
            failures[name] = _describe(error)

    for name in names:
        send(name)
    nr_units = len(pending)
    try:
        while pending:
            future = done.get()
            name = pending.pop(future)
            try:
                lines, failure = future.result()
            except Exception as error:
                if attempts[name] < _ATTEMPTS:
                    send(name)
                    continue
                lines, failure = [], f"its worker failed: {_describe(error)}"
            if lines:
                plan.append(lines)
            if failure is not None:
                failures[name] = failure
            progress.parts(nr_units - len(pending), nr_units)
    finally:
        for future in pending:
            future.cancel()
    return failures


def _run_unit(name, stamp, missing, policies, sizes, format, lenient, readahead):
    """What a worker does: its lines, or none and why."""
    question = (stamp, missing, policies, sizes, format, lenient, readahead)
    if not _is_address(name):
        return _pagetide.run_unit(name, name, *question)
    import fsspec

    with tempfile.TemporaryDirectory(prefix="pagetide-") as folder:
        # The suffix gives the format.
        path = os.path.join(folder, os.path.basename(name.rstrip("/")) or "trace")
        try:
            fs, place = fsspec.core.url_to_fs(name)
            fs.get_file(place, path)
        except Exception as error:
            return [], _describe(error)
        return _pagetide.run_unit(name, path, *question)


def _is_address(name):
    return "://" in name


def _stamp(name):
    if not _is_address(name):
        return None
    import fsspec

    fs, place = fsspec.core.url_to_fs(name)
    return str(fs.ukey(place))


def _names(traces):
    names = set()
    for trace in _list(traces):
        name = os.fsdecode(trace)
        if _is_address(name):
            names.update(_addresses(name))
        elif os.path.isdir(name):
            for folder, _, files in os.walk(name):
                names.update(os.path.join(folder, file) for file in files)
        else:
            names.add(name)
    if not names:
        raise ValueError("there is no file in these folders")
    return sorted(names)


def _addresses(name):
    """What a pattern or a folder stands for; else the address, whatever is there."""
    import fsspec

    if "::" in name:
        return [name]
    fs, place = fsspec.core.url_to_fs(name)
    if "*" in place:
        found = [it for it in fs.glob(place) if not fs.isdir(it)]
    elif fs.isdir(place):
        found = fs.find(place)
    else:
        return [name]
    return map(fs.unstrip_protocol, found)


def _describe(error):
    return f"{type(error).__name__}: {error}"


class _Progress:
    """A line on stderr, where that is a terminal."""

    def __init__(self, nr_traces):
        import time

        self._label = f"sweeping {nr_traces} traces"
        self._now, self._start = time.monotonic, time.monotonic()
        self._is_shown = sys.stderr is not None and sys.stderr.isatty()

    def parts(self, nr_done, nr_parts):
        if self._is_shown and nr_parts:
            share = nr_done / nr_parts
            left = (self._now() - self._start) * (1 - share) / share if share else 0
            sys.stderr.write(f"\r{self._label}: {share:6.1%}, {left:.0f} s left \033[K")
            sys.stderr.flush()

    def end(self):
        if self._is_shown:
            sys.stderr.write("\r\033[K")


class RayExecutor(concurrent.futures.Executor):
    """Ray's tasks as an executor for `sweep`: a task each call, `options` as of `ray.remote`.

    `ray.init()` comes first. Workers that die are replaced, and their tasks run again, by Ray.
    """

    def __init__(self, **options):
        import ray

        self._run = ray.remote(**({"max_retries": _ATTEMPTS} | options))(_call)

    def submit(self, fn, /, *args, **kwargs):
        """Have a worker call `fn`; a `concurrent.futures.Future` of what it returns."""
        return self._run.remote(fn, args, kwargs).future()


def _call(fn, args, kwargs):
    return fn(*args, **kwargs)

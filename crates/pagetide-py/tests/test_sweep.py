"""Sweeps: on this machine, on executors whose workers die, and begun by one and ended by another."""

import concurrent.futures
import multiprocessing
import os
import random
import shutil
import signal
import subprocess
import sys

import pytest

import pagetide

ASKED = {"policy": ["lru", "sieve", "opt"], "memory": ["256K", "10%"]}
LONG = pytest.mark.skipif(
    not os.environ.get("PAGETIDE_LONG"), reason="takes half a minute: set PAGETIDE_LONG=1"
)


def make_traces(folder, nr_traces):
    for nth in range(nr_traces):
        group = folder / "traces" / f"group-{nth % 3}"
        group.mkdir(parents=True, exist_ok=True)
        uniform = random.Random(nth).random
        pages = (int(uniform() ** 2 * (500 + nth)) for _ in range(3000 + nth))
        (group / f"{nth}.txt").write_text("".join(f"{page}\n" for page in pages))
    return folder / "traces"


def timeless(rows):
    rows = rows.to_dicts()
    for row in rows:
        del row["seconds"]
    return rows


@pytest.fixture(scope="module")
def traces(tmp_path_factory):
    return make_traces(tmp_path_factory.mktemp("sweep"), 12)


@pytest.fixture(scope="module")
def whole(traces, tmp_path_factory):
    """The rows of one process."""
    return pagetide.sweep(traces, **ASKED, out=tmp_path_factory.mktemp("whole") / "whole.parquet")


def nr_rows_written(out):
    return sum(file.read_text().count('{"row"') for file in out.parent.glob(f"{out.name}.rows/*"))


def test_rows_have_the_numbers_of_replay(traces, whole):
    assert len(whole) == 12 * 6 and not whole.failed
    trace = traces / "group-0" / "0.txt"
    for row in whole:
        if row.trace == str(trace):
            [replayed] = pagetide.replay(trace, frames=row.frames, policy=row.policy)
            assert (row.misses, row.evictions) == (replayed.misses, replayed.evictions)
    standings = [it for it in whole.standings if it.group is None]
    assert {it.policy for it in standings} == {"lru", "sieve"}
    assert sum(it.win_rate for it in standings) >= 1


def test_a_sweep_is_resumed_and_shards_are_its_parts(traces, whole, tmp_path):
    out = tmp_path / "shared.parquet"
    first = pagetide.sweep(traces, **ASKED, out=out, shard="1/2")
    second = pagetide.sweep(traces, **ASKED, out=out, shard="2/2")
    assert len(first) + len(second) == len(whole) and not out.exists()
    assert timeless(pagetide.sweep(traces, **ASKED, out=out)) == timeless(whole)
    assert nr_rows_written(out) == len(whole)
    more = ASKED | {"policy": ["lru", "sieve", "opt", "fifo"]}
    assert len(pagetide.sweep(traces, **more, out=out, jobs=2)) == 12 * 8
    assert nr_rows_written(out) == 12 * 8


def test_the_table_is_parquet(traces, tmp_path):
    pq = pytest.importorskip("pyarrow.parquet")
    out = tmp_path / "table.parquet"
    damaged = tmp_path / "damaged.txt"
    damaged.write_text("1\ntwo\n")
    rows = pagetide.sweep([traces, damaged, tmp_path / "absent"], **ASKED, out=out)
    assert pq.read_table(out).to_pylist() == rows.to_dicts()
    assert len(rows.failed) == 2 * 6 and "line 2" in str(rows.failed)


def test_threads_and_processes_give_the_same_rows(traces, whole, tmp_path):
    spawn = multiprocessing.get_context("spawn")
    for nth, executor in enumerate([
        concurrent.futures.ThreadPoolExecutor(2),
        concurrent.futures.ProcessPoolExecutor(2, mp_context=spawn),
    ]):
        out = tmp_path / f"{nth}.parquet"
        with executor:
            rows = pagetide.sweep(traces, **ASKED, out=out, executor=executor)
        assert timeless(rows) == timeless(whole)
        assert nr_rows_written(out) == len(whole)


def test_what_an_executor_cannot_do_is_a_row(traces, tmp_path):
    out = tmp_path / "broken.parquet"
    executor = concurrent.futures.ThreadPoolExecutor(1)
    executor.shutdown()
    rows = pagetide.sweep(traces, **ASKED, out=out, executor=executor)
    assert len(rows.failed) == 12 * 6 and "shutdown" in rows[0].error
    assert not pagetide.sweep(traces, **ASKED, out=out).failed


def test_addresses_of_fsspec_are_traces(traces, whole, tmp_path):
    pytest.importorskip("fsspec")
    names = sorted(f"file://{row.trace}" for row in whole)[:1] + ["memory://absent"]
    rows = pagetide.sweep(names, **ASKED, out=tmp_path / "addressed.parquet")
    assert {row.trace for row in rows} == set(names)
    assert {row.trace for row in rows.failed} == {"memory://absent"}
    expected = [row.misses for row in whole if f"file://{row.trace}" == names[0]]
    assert [row.misses for row in rows if row.error is None] == expected
    group = traces / "group-0"
    for address in (f"file://{group}", f"file://{group}/*.txt"):
        rows = pagetide.sweep(address, **ASKED, out=tmp_path / "folder.parquet")
        assert {row.trace for row in rows} == {f"file://{it}" for it in group.iterdir()}
        assert not rows.failed


def test_what_cannot_be_asked_is_a_sentence(traces, tmp_path):
    out = tmp_path / "wrong.parquet"
    for wrong in ({"memory": "0%"}, {"policy": "fastest"}, {"shard": "3/2"}, {"format": "docx"}):
        with pytest.raises(ValueError):
            pagetide.sweep(traces, **(ASKED | wrong), out=out)
    with pytest.raises(ValueError, match="no file"):
        pagetide.sweep(tmp_path, **ASKED, out=out)
    with pytest.raises(FileNotFoundError):
        pagetide.sweep(traces, **ASKED, out=tmp_path / "no" / "such" / "folder" / "rows.parquet")


@LONG
def test_a_dask_worker_is_killed_in_the_middle(tmp_path):
    distributed = pytest.importorskip("distributed")
    traces = make_traces(tmp_path, 200)
    expected = pagetide.sweep(traces, **ASKED, out=tmp_path / "one.parquet")
    out = tmp_path / "dask.parquet"
    with distributed.LocalCluster(2, threads_per_worker=1, dashboard_address=None) as cluster:
        with distributed.Client(cluster) as client:
            executor = Killing(client.get_executor(), cluster.workers[0].pid)
            rows = pagetide.sweep(traces, **ASKED, out=out, executor=executor)
    assert executor.nr_killed == 1
    assert timeless(rows) == timeless(expected)
    assert nr_rows_written(out) == len(rows) == 200 * 6


@LONG
def test_a_ray_worker_is_killed_in_the_middle(tmp_path, monkeypatch):
    # No token in the home folder, and no usage report to Ray.
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    ray = pytest.importorskip("ray")
    traces = make_traces(tmp_path, 200)
    expected = pagetide.sweep(traces, **ASKED, out=tmp_path / "one.parquet")
    out = tmp_path / "ray.parquet"
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        workers = pagetide.RayExecutor()
        executor = Killing(workers, workers.submit(os.getpid).result())
        rows = pagetide.sweep(traces, **ASKED, out=out, executor=executor)
    finally:
        ray.shutdown()
    assert executor.nr_killed == 1
    assert timeless(rows) == timeless(expected)
    assert nr_rows_written(out) == len(rows) == 200 * 6


MPI = f"""
import sys

import pagetide
from mpi4py.futures import MPIPoolExecutor

if __name__ == "__main__":
    with MPIPoolExecutor() as pool:
        pagetide.sweep(sys.argv[1], **{ASKED}, out=sys.argv[2], executor=pool)
"""


@LONG
def test_an_mpi_pool_gives_the_same_rows(traces, whole, tmp_path):
    pytest.importorskip("mpi4py")
    if shutil.which("mpiexec") is None:
        pytest.skip("no mpiexec: install openmpi-bin")
    script, out = tmp_path / "mpi.py", tmp_path / "mpi.parquet"
    script.write_text(MPI)
    # For Open MPI: as root, and on fewer cores.
    env = dict.fromkeys(["OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"], "1")
    env |= {"OMPI_MCA_rmaps_base_oversubscribe": "1"}
    command = ["mpiexec", "-n", "3", sys.executable, "-m", "mpi4py.futures", script, traces, out]
    subprocess.run(command, env=os.environ | env, check=True)
    assert nr_rows_written(out) == len(whole)
    assert timeless(pagetide.sweep(traces, **ASKED, out=out)) == timeless(whole)


class Killing(concurrent.futures.Executor):
    """An executor of which one worker is killed when a quarter of its work is done."""

    def __init__(self, inner, pid):
        self.inner, self.pid, self.nr_done, self.nr_killed = inner, pid, 0, 0

    def submit(self, fn, /, *args, **kwargs):
        future = self.inner.submit(fn, *args, **kwargs)
        future.add_done_callback(self.count)
        return future

    def count(self, _):
        self.nr_done += 1
        if self.nr_done == 50:
            os.kill(self.pid, signal.SIGKILL)
            self.nr_killed += 1

"""The same traces through `pagetide.replay` and libCacheSim, both from Python, in turn.

Each row is one policy at one size: both miss ratios to four digits, whether they are the same, both rates, and how
many times as long theirs takes. Two comparisons, both on one core:

replay    from the first access on; their hash table gets the size that fits the pages, which their user would have to
          know and set
whole     as a user types it: from a file that nobody has looked at to the answer of one policy, theirs with its default
          table of 2^24 slots. Ours reads and numbers the pages anew for each, which one call for all policies does once

Belady's bound is `opt` here and `Belady` there. The traces are libCacheSim csv files; sizes are shares of their pages.
"""

import argparse
import pathlib
import statistics
import tempfile
import time

import libcachesim
import pagetide
from replay_rate import PEERS, pages_of, peer, write_oracle_general

POLICIES = PEERS | {"2q": libcachesim.TwoQ, "w-tinylfu": libcachesim.WTinyLFU, "opt": libcachesim.Belady}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("traces", nargs="+", help="libCacheSim csv, .zst or not")
    parser.add_argument("--shares", default="0.01,0.1", help="of the pages")
    parser.add_argument("--policy", default=",".join(POLICIES))
    parser.add_argument("--runs", type=int, default=5)
    args = parser.parse_args()
    print("| trace | policy | frames | ours | theirs | | M/s ours | theirs | replay | whole |\n" + "|---" * 10 + "|")
    for trace in args.traces:
        with tempfile.TemporaryDirectory() as folder:
            pages = pages_of(trace)
            path = str(pathlib.Path(folder) / "trace.oracleGeneral.bin")
            nr_pages = write_oracle_general(pages, path)
            for share in map(float, args.shares.split(",")):
                for policy in args.policy.split(","):
                    compare(trace, path, policy, max(1, int(nr_pages * share)), nr_pages, args.runs)


def compare(trace, path, policy, frames, nr_pages, runs):
    ours, theirs, replays, wholes = [], [], [], []
    for _ in range(runs):
        our_whole, [row] = timed(lambda: pagetide.replay(path, frames=frames, policy=policy, jobs=1))
        their_whole, _ = timed(lambda: as_typed(POLICIES[policy], path, frames))
        seconds, miss_ratio = peer(POLICIES[policy], path, frames, nr_pages)
        ours.append(row.accesses / row.seconds / 1e6)
        theirs.append(row.accesses / seconds / 1e6)
        replays.append(seconds / row.seconds)
        wholes.append(their_whole / our_whole)
    digits = f"{row.miss_ratio:.4f}", f"{miss_ratio:.4f}"
    cells = [pathlib.Path(trace).name.split(".")[0], policy, frames, *digits,
             "same" if digits[0] == digits[1] else f"{row.miss_ratio - miss_ratio:+.4f}",
             *(f"{statistics.median(each):.1f}" for each in (ours, theirs, replays, wholes))]
    print("| " + " | ".join(map(str, cells)) + " |", flush=True)


def as_typed(kind, path, frames):
    reader = libcachesim.TraceReader(trace=path, trace_type=libcachesim.TraceType.ORACLE_GENERAL_TRACE)
    return kind(cache_size=frames).process_trace(reader)


def timed(work):
    start = time.perf_counter()
    answer = work()
    return time.perf_counter() - start, answer


if __name__ == "__main__":
    main()

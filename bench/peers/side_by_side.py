"""The same traces through `pagetide.replay` and libCacheSim, both from Python, in turn.

Each row is one policy at one size: both miss ratios to four digits, whether they are the same, and both rates. What
either does before its first access is left out of both times, and both use one core. Belady's bound is `opt` here and
`Belady` there. The traces are libCacheSim csv files; sizes are shares of their pages.
"""

import argparse
import pathlib
import statistics
import tempfile

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
    print("| trace | policy | frames | ours | theirs | | M/s ours | theirs | ratio |\n" + "|---" * 9 + "|")
    for trace in args.traces:
        with tempfile.TemporaryDirectory() as folder:
            pages = pages_of(trace)
            path = str(pathlib.Path(folder) / "trace.oracleGeneral.bin")
            nr_pages = write_oracle_general(pages, path)
            for share in map(float, args.shares.split(",")):
                for policy in args.policy.split(","):
                    compare(trace, path, policy, max(1, int(nr_pages * share)), nr_pages, args.runs)


def compare(trace, path, policy, frames, nr_pages, runs):
    ours, theirs = [], []
    for _ in range(runs):
        [row] = pagetide.replay(path, frames=frames, policy=policy, jobs=1)
        seconds, miss_ratio = peer(POLICIES[policy], path, frames, nr_pages)
        ours.append(row.accesses / row.seconds / 1e6)
        theirs.append(row.accesses / seconds / 1e6)
    ratios = [mine / other for mine, other in zip(ours, theirs)]
    digits = f"{row.miss_ratio:.4f}", f"{miss_ratio:.4f}"
    cells = [pathlib.Path(trace).name.split(".")[0], policy, frames, *digits,
             "same" if digits[0] == digits[1] else f"{row.miss_ratio - miss_ratio:+.4f}",
             *(f"{statistics.median(each):.1f}" for each in (ours, theirs, ratios))]
    print("| " + " | ".join(map(str, cells)) + " |", flush=True)


if __name__ == "__main__":
    main()

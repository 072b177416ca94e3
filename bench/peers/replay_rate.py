"""Replay rate: `pagetide replay` and libCacheSim over the same trace, in turn.

Both replay from memory: libCacheSim from a mapped file of 24-byte records (oracleGeneral) that is in the kernel's
page cache, Pagetide from its dense ids. What either does before its first access (reading, numbering pages) is left
out of both times, and printed for Pagetide. libCacheSim's hash table gets the size that fits the pages, which is
kinder to it than its default. One core: `--jobs 1`.
"""

import argparse
import json
import math
import statistics
import struct
import subprocess
import tempfile
import time
from pathlib import Path

try:
    import libcachesim
except ImportError:
    raise SystemExit("the peer is not installed: pip install libcachesim==0.3.5") from None

PEERS = {
    "lru": libcachesim.LRU,
    "fifo": libcachesim.FIFO,
    "clock": libcachesim.Clock,
    "sieve": libcachesim.Sieve,
    "s3fifo": libcachesim.S3FIFO,
    "arc": libcachesim.ARC,
    "lirs": libcachesim.LIRS,
}


def replay(binary, trace, frames, policies):
    """Seconds and misses of each policy, as `pagetide replay` says them."""
    command = [binary, "replay", trace, "--frames", str(frames), "--policy", ",".join(policies)]
    done = subprocess.run([*command, "--jobs", "1", "--json"], check=True, capture_output=True)
    return {row["policy"]: row for row in json.loads(done.stdout)["rows"]}


def pages_of(trace):
    """The page ids of a libCacheSim csv, plain or zstd."""
    if trace.endswith(".zst"):
        text = subprocess.run(["zstd", "-dc", trace], check=True, capture_output=True, text=True).stdout
    else:
        text = Path(trace).read_text()
    head, *lines = text.splitlines()
    names = [name.strip() for name in head.lstrip("# ").split(",")]
    column = next(at for at, name in enumerate(names) if name in ("object", "obj_id", "id", "lbn"))
    return [line.split(",")[column].strip() for line in lines if line and not line.startswith("#")]


def write_oracle_general(pages, path):
    next_use = [-1] * len(pages)
    last = {}
    for at in range(len(pages) - 1, -1, -1):
        next_use[at] = last.get(pages[at], -1)
        last[pages[at]] = at
    number = {page: id for id, page in enumerate(dict.fromkeys(pages))}
    record = struct.Struct("<IQIq")
    with open(path, "wb") as out:
        for page, later in zip(pages, next_use):
            out.write(record.pack(0, number[page], 1, later))
    return len(number)


def peer(kind, path, frames, nr_pages):
    """Seconds and misses of one run of libCacheSim."""
    reader = libcachesim.TraceReader(trace=path, trace_type=libcachesim.TraceType.ORACLE_GENERAL_TRACE)
    cache = kind(cache_size=frames, hashpower=max(10, math.ceil(math.log2(nr_pages))))
    start = time.perf_counter()
    miss_ratio, _ = cache.process_trace(reader)
    return time.perf_counter() - start, miss_ratio


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("binary")
    parser.add_argument("trace", help="libCacheSim csv, .zst or not")
    parser.add_argument("--frames", type=int, required=True)
    parser.add_argument("--policy", default="lru,fifo,clock,sieve,s3fifo,arc,lirs")
    parser.add_argument("--also", default="active-inactive,mglru,pagetide", help="timed without a peer")
    parser.add_argument("--runs", type=int, default=7)
    args = parser.parse_args()
    policies = args.policy.split(",")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        pages = pages_of(args.trace)
        path = str(Path(folder) / "trace.oracleGeneral.bin")
        nr_pages = write_oracle_general(pages, path)
        for policy in policies + args.also.split(","):
            subject, other = [], []
            for _ in range(args.runs):
                row = replay(args.binary, args.trace, args.frames, [policy])[policy]
                subject.append(row["accesses"] / row["seconds"] / 1e6)
                if policy in PEERS:
                    seconds, miss_ratio = peer(PEERS[policy], path, args.frames, nr_pages)
                    other.append(len(pages) / seconds / 1e6)
            ratios = [ours / theirs for ours, theirs in zip(subject, other)]
            rows.append(
                {
                    "policy": policy,
                    "frames": args.frames,
                    "accesses": len(pages),
                    "subject_m_per_s": round(statistics.median(subject), 2),
                    "subject_range": [round(min(subject), 2), round(max(subject), 2)],
                    "peer_m_per_s": round(statistics.median(other), 2) if other else None,
                    "ratio": round(statistics.median(ratios), 2) if ratios else None,
                    "ratio_range": [round(min(ratios), 2), round(max(ratios), 2)] if ratios else None,
                    "miss_ratio": round(row["miss_ratio"], 4),
                    "peer_miss_ratio": round(miss_ratio, 4) if other else None,
                }
            )
            print(json.dumps(rows[-1]))


if __name__ == "__main__":
    main()

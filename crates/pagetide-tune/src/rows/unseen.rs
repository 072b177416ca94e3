//! Rows that the constants were not chosen by, at first: the cost of unforeseen patterns.
//!
//! **Problem.** The constants were chosen by the usual rows, which therefore look good. **Idea.**
//! Other patterns, memory sizes and traces, in four parts.
//!
//! ```text
//!   unseen1/...    looked at when a mechanism is chosen, not for a constant
//!   unseen2/...    kept for afterwards, but looked at more than once since
//!   unseen3/...    written down before any policy ran: a choice by these rows must be judged by
//!                  others
//!   unseen4/...    written down when the queue was done, before its first run
//! ```
//!
//! Ignored: no row stays unseen for ever. Source: core's own baselines
//! ([`best_of_peers`](crate::replays::best_of_peers)), for all of them.

use super::{Best, Row, rows};
use crate::traces::{Pattern, Program, Service, Source};
use pagetide_core::lru::PolicyName;
use pagetide_lab::made::Made;

/// The rows, grouped by trace.
pub(crate) const UNSEEN: &[Row] = rows! {
    "unseen1/" {
        "pairs", Pattern(Pattern::Pairs) =>
            5000 0.9806 WTinyLfu, 10_000 0.5000 Fifo, 20_000 0.5000 Lru;
        "drift", Pattern(Pattern::Drift { every: 10 }) =>
            5000 0.4513 Lru, 10_000 0.3477 Lru, 20_000 0.2376 Lru;
        "grow", Pattern(Pattern::GrowingLoop) =>
            5000 0.7049 Lirs, 10_000 0.4633 Lirs, 20_000 0.1408 Lirs;
        "shrink", Pattern(Pattern::ShrinkingZigzag) =>
            5000 0.6995 Lru, 10_000 0.4536 Lru, 20_000 0.1257 Lru;
        "zigscan", Pattern(Pattern::ZigzagAndScan) =>
            5000 0.8350 Arc, 10_000 0.6690 Arc, 20_000 0.5219 WTinyLfu;
        "phases", Pattern(Pattern::Phases) =>
            5000 0.6932 Clock, 10_000 0.6028 Clock, 20_000 0.4921 Lru;
        "slide", Habit(Made::Slide) => 3000 0.6344 Lirs, 6000 0.4094 Lru;
        "zigzag", Habit(Made::Zigzag) => 27_000 0.1180 Lru;
        "habits", Habit(Made::Habits) => 12_000 0.5808 WTinyLfu;
        "cp", File("cloudPhysicsIO.csv.zst") => 14_000 0.5850 Lirs;
        "P3", File("arc_P3.lis.zst") => 131_072 0.4937 Arc;
        "sprite", File("lirs_sprite.trace") => 200 0.5031 WTinyLfu;
    }
    "unseen2/" {
        "churn", Pattern(Pattern::Churn { every: 10 }) =>
            5000 0.3345 S3Fifo, 10_000 0.2623 S3Fifo, 20_000 0.1744 Clock;
        "backlog", Pattern(Pattern::Backlog) =>
            5000 0.6816 Fifo, 10_000 0.5747 Fifo, 20_000 0.5000 Lru;
        "passes", Pattern(Pattern::Passes) => 5000 0.9812 WTinyLfu, 10_000 0.3360 Lru;
        "tree", Pattern(Pattern::Tree) => 5000 0.1370 WTinyLfu, 10_000 0.0836 WTinyLfu;
        "hotscans", Pattern(Pattern::HotAndScans) => 5000 0.3176 Lirs, 10_000 0.2582 Lirs;
        "twoloops", Pattern(Pattern::TwoLoops) =>
            5000 0.6357 WTinyLfu, 10_000 0.4290 Lirs, 20_000 0.2300 Lirs;
        "wonders", Pattern(Pattern::OneHitWonders) => 5000 0.8688 WTinyLfu, 10_000 0.8574 WTinyLfu;
        "stack", Pattern(Pattern::Stack) => 5000 0.1866 Lru, 10_000 0.1014 Lru;
        "slidezipf", Pattern(Pattern::SlideAndZipf) =>
            5000 0.4961 Lirs, 10_000 0.3516 Clock, 20_000 0.2460 Lru;
        "uniform", Pattern(Pattern::Uniform) => 10_000 0.6677 Sieve;
        "slide", Habit(Made::Slide) => 9000 0.3453 Lru;
        "zigzag", Habit(Made::Zigzag) => 12_000 0.6080 Lru;
        "habits", Habit(Made::Habits) => 6000 0.7057 Arc, 24_000 0.4551 Lru;
        "OLTP", File("arc_OLTP.lis.zst") => 2000 0.5297 S3Fifo, 8000 0.3943 S3Fifo;
        "P3", File("arc_P3.lis.zst") => 32_768 0.8157 WTinyLfu;
        "P6", File("arc_P6.lis.zst") => 131_072 0.1943 S3Fifo;
        "cp", File("cloudPhysicsIO.csv.zst") => 7000 0.7069 Lirs, 25_000 0.4753 S3Fifo;
        "sprite", File("lirs_sprite.trace") => 400 0.2870 S3Fifo, 800 0.1145 Lru;
        "tw52", File("twitter_cluster52.csv.zst") => 7000 0.2149 S3Fifo, 60_000 0.1531 Arc;
        "cpp", File("lirs_cpp.trace") => 122 0.1931 Lirs, 400 0.1426 Arc;
        "gli", File("lirs_gli.trace") => 252 0.8381 WTinyLfu, 1000 0.4928 Lirs;
        "cs", File("lirs_cs.trace") => 500 0.7020 WTinyLfu, 1000 0.4128 Lirs;
        "ps", File("lirs_ps.trace") => 500 0.4304 WTinyLfu, 1500 0.2951 Lirs;
        "sqlite", File("sqlite_filemap_tracepoint.csv.zst") => 2000 0.3873 Lirs, 8000 0.2515 Sieve;
    }
    "unseen3/" {
        "index", Program(Program::Index) => 5000 0.2471 WTinyLfu, 15_000 0.1169 Sieve;
        "lsm", Program(Program::Lsm) => 5000 0.4693 Arc, 15_000 0.3659 Arc;
        "tenants", Program(Program::Tenants) => 5000 0.3474 Arc, 15_000 0.2398 TwoQueue;
        "breath", Program(Program::Breath) => 5000 0.4371 Lru, 10_000 0.1508 Sieve;
        "checkpoint", Program(Program::Checkpoint) => 5000 0.4065 WTinyLfu, 20_000 0.1399 Lru;
        "join", Program(Program::Join) => 4000 0.8022 Lirs, 7000 0.6930 Arc, 12_000 0.6414 Arc;
        "tailers", Program(Program::Tailers) =>
            5000 0.7275 TwoQueue, 8000 0.7160 TwoQueue, 17_000 0.2500 Fifo;
        "loopzipf", Program(Program::LoopAndZipf) => 5000 0.5673 Lirs, 10_000 0.3688 WTinyLfu;
        "builds", Program(Program::Builds) => 10_000 0.2468 Lirs, 18_000 0.1437 WTinyLfu;
        "graph", Program(Program::Graph) => 10_000 0.4901 S3Fifo, 18_000 0.2865 WTinyLfu;
        "crowds", Program(Program::Crowds) => 5000 0.4702 WTinyLfu, 15_000 0.3165 S3Fifo;
        "days", Program(Program::Days) => 10_000 0.3732 WTinyLfu, 16_000 0.2186 Lru;
        "P3", File("arc_P3.lis.zst") => 16_384 0.9011 WTinyLfu, 200_000 0.3933 Lirs;
        "P6", File("arc_P6.lis.zst") => 32_768 0.7124 WTinyLfu;
        "OLTP", File("arc_OLTP.lis.zst") => 3000 0.4947 S3Fifo, 11_000 0.3649 S3Fifo;
        "2_pools", File("lirs_2_pools.trace") => 250 0.4932 WTinyLfu, 700 0.4706 WTinyLfu;
        "sprite", File("lirs_sprite.trace") => 300 0.3890 WTinyLfu;
        "loop", File("lirs_loop.trace") => 750 0.2666 Lirs;
        "tw52", File("twitter_cluster52.csv.zst") => 25_000 0.1721 S3Fifo;
        "cp", File("cloudPhysicsIO.csv.zst") => 3000 0.8030 TwoQueue, 12_000 0.6182 Arc;
        "gli", File("lirs_gli.trace") => 500 0.6673 WTinyLfu;
        "cs", File("lirs_cs.trace") => 750 0.5557 WTinyLfu;
        "sqlite", File("sqlite_filemap_tracepoint.csv.zst") => 4000 0.3267 S3Fifo;
        "ps", File("lirs_ps.trace") => 1000 0.3376 Lirs;
    }
    "unseen4/" {
        "latest", Service(Service::Latest) => 3000 0.3946 Sieve, 12_000 0.2320 Sieve;
        "ranges", Service(Service::Ranges) => 5000 0.6147 WTinyLfu, 15_000 0.3314 WTinyLfu;
        "backup", Service(Service::Backup) => 5000 0.3345 WTinyLfu, 15_000 0.1720 WTinyLfu;
        "films", Service(Service::Films) => 6000 0.6686 WTinyLfu, 30_000 0.3594 WTinyLfu;
        "sessions", Service(Service::Sessions) => 2000 0.3738 Lru, 6000 0.0934 Lru;
        "heap", Service(Service::Heap) => 6000 0.1757 Lirs, 12_000 0.1044 Lirs;
        "redelivery", Service(Service::Redelivery) => 5000 0.5279 TwoQueue, 14_000 0.4706 Lru;
        "audit", Service(Service::Audit) => 8000 0.4363 Lirs, 20_000 0.3765 Arc;
        "nested", Service(Service::Nested) => 3000 0.0250 Lru, 9000 0.0250 Lru;
        "matrix", Service(Service::Matrix) => 4000 0.7718 WTinyLfu, 12_000 0.3170 WTinyLfu;
    }
};

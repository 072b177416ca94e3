//! Rows where recency wins, in many memory sizes.
//!
//! **Problem.** A policy that must learn recency may be good at one or two memory sizes, and bad
//! between. **Idea.** Each tenth of the zigzag's 30,000 pages but the last. Ignored: other
//! patterns.
//!
//! Source of the best: core's own baselines ([`best_of_peers`](crate::replays::best_of_peers)).

use super::{Best, Row, rows};
use crate::traces::{Pattern, Source};
use pagetide_core::lru::PolicyName;
use pagetide_lab::made::Made;

/// The rows, grouped by trace.
pub(crate) const TENTHS: &[Row] = rows! {
    "tenths/" {
        "zigzag", Habit(Made::Zigzag) =>
            3000 0.9020 Lru, 6000 0.8040 Lru, 9000 0.7060 Lru, 12_000 0.6080 Lru,
            15_000 0.5100 Lru, 18_000 0.4120 Lru, 21_000 0.3140 Lru, 24_000 0.2160 Lru,
            27_000 0.1180 Lru;
        "slide", Habit(Made::Slide) =>
            3000 0.6344 Lirs, 6000 0.4094 Lru, 9000 0.3453 Lru, 12_000 0.3166 Clock,
            15_000 0.3004 Clock, 18_000 0.2900 Fifo, 21_000 0.2829 Fifo, 24_000 0.2777 Fifo,
            27_000 0.2737 Fifo;
        "drift", Pattern(Pattern::Drift { every: 10 }) =>
            3000 0.5209 Lru, 6000 0.4253 Lru, 9000 0.3642 Lru, 12_000 0.3190 Lru,
            15_000 0.2836 Lru, 18_000 0.2543 Lru, 21_000 0.2282 Arc, 24_000 0.2003 Arc,
            27_000 0.1799 Arc;
    }
};

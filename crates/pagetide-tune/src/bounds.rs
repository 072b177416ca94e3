//! Near the best published policy, on the rows that are quick to run.

#[path = "../../pagetide-lab/tests/support/mod.rs"]
mod support;

use crate::replays::miss_ratio;
use crate::rows::ROWS;
use crate::traces::{Pattern, Source};
use pagetide_core::lru::PolicyName;
use pagetide_core::lru::own::Tuning;
use pagetide_lab::made::Made;
use pagetide_lab::replay::{self, Contender};
use std::path::Path;
use support::load_trace;

/// At most one point from the best published policy, on the rows that are quick to run.
#[test]
fn nowhere_a_point_from_the_best() {
    let test = "nowhere_a_point_from_the_best";
    let mut far = Vec::new();
    for row in ROWS {
        let Source::File(file) = row.source else { continue };
        if file.starts_with("arc_P") || file.starts_with("twitter") {
            continue;
        }
        let Some(trace) = load_trace(test, file) else { continue };
        let ratio = miss_ratio(&trace, row.frames, Tuning::default());
        let regret = 100.0 * (ratio - row.best.miss_ratio);
        if regret > 1.0 {
            far.push(format!("{}: {regret:+.2} points", row.name));
        }
    }
    assert!(far.is_empty(), "{far:#?}");
}

/// Zigzag, sliding window and drifting hot set, in many memory sizes: at most two points from LRU
/// where recency can be learnt and paid for. Known exception: nine tenths of the zigzag (2.3
/// points, up to 2.7 by seed).
#[test]
fn recency_costs_two_points_at_any_size() {
    let mut far = Vec::new();
    for (habit, source, tenths) in [
        ("to and fro", Source::Habit(Made::Zigzag), 1..=9),
        ("slide", Source::Habit(Made::Slide), 1..=9),
        ("drift", Source::Pattern(Pattern::Drift { every: 10 }), 1..=6),
    ] {
        let trace = source.load(Path::new("")).expect("it is made");
        for frames in tenths.map(|tenth| tenth * 3000) {
            let ratio = miss_ratio(&trace, frames, Tuning::default());
            let lru = replay::run(Contender::Policy(PolicyName::Lru), &trace, frames).miss_ratio();
            let regret = 100.0 * (ratio - lru);
            let most = if habit == "to and fro" && frames == 27_000 { 2.7 } else { 2.0 };
            if regret > most {
                far.push(format!("{habit} in {frames} frames: {regret:+.2} points"));
            }
        }
    }
    assert!(far.is_empty(), "{far:#?}");
}

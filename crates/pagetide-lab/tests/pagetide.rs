//! Our own policy: pinned to its misses on small made-up traces, and near the best on real ones.
//!
//! The bounds that hold for every policy (never better than the optimum, the same replay ends the
//! same) are in `replay.rs`.

mod support;
#[path = "support/synthetic.rs"]
#[expect(dead_code, reason = "plain reads are enough here")]
mod synthetic;

use pagetide_core::lru::PolicyName;
use pagetide_core::lru::pagetide::Tuning;
use pagetide_lab::replay::{self, Contender};
use pagetide_lab::tune::{self, ROWS, Source};
use support::load_trace;

/// Misses with 100 frames. A change of the policy moves them: print the new ones, and run
/// `pagetide lab tune` to see whether it was for the better.
#[test]
fn small_traces_miss_as_pinned() {
    let pinned: [(&str, u64); 6] = [
        ("uniform", 16_727),
        ("skewed", 17_849),
        ("loop", 15_644),
        ("phases", 18_416),
        ("scan", 10_050),
        ("once", 2000),
    ];
    let misses: Vec<(&str, u64)> = synthetic::reads()
        .iter()
        .map(|(name, trace)| {
            (*name, replay::run(Contender::Policy(PolicyName::Pagetide), trace, 100).misses)
        })
        .collect();
    assert_eq!(misses, pinned);
}

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
        let ratio = tune::miss_ratio(&trace, row.frames, Tuning::default(), |_| true);
        let regret = 100.0 * (ratio.expect("nothing stops it") - row.best.miss_ratio);
        if regret > 1.0 {
            far.push(format!("{}: {regret:+.2} points", row.name));
        }
    }
    assert!(far.is_empty(), "{far:#?}");
}

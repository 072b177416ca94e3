//! Our own policy: pinned to its misses on small made-up traces.
//!
//! The bounds that hold for every policy (never better than the optimum, the same replay ends the
//! same) are in `replay.rs`.

use pagetide_core::lru::PolicyName;
use pagetide_lab::replay::{self, Contender};

/// Misses with 100 frames. A change of the policy moves them: print the new ones, and run
/// the crate pagetide-tune to see whether it was for the better.
#[test]
fn small_traces_miss_as_pinned() {
    let pinned: [(&str, u64); 6] = [
        ("uniform", 16_711),
        ("skewed", 17_818),
        ("loop", 15_644),
        ("phases", 14_555),
        ("scan", 10_050),
        ("once", 2000),
    ];
    let misses: Vec<(&str, u64)> = crate::synthetic::reads()
        .iter()
        .map(|(name, trace)| {
            (*name, replay::run(Contender::Policy(PolicyName::Pagetide), trace, 100).misses)
        })
        .collect();
    assert_eq!(misses, pinned);
}

//! Our own policy: pinned misses on small synthetic traces.
//!
//! `replay.rs` checks the bounds for every policy.

use pagetide_core::lru::PolicyName;
use pagetide_lab::replay::{self, Contender};

/// Misses with 100 frames. After a change of the policy, print new numbers, and judge the change
/// with the crate pagetide-tune.
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

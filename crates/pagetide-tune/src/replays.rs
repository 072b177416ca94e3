//! Replays of a row: the policy called pagetide with given constants, and published policies.
//!
//! The best policy of rows with real traces of OLTP, P3, P6 and LIRS is by libCacheSim, run once
//! over the same files with object sizes ignored. All other rows use core's baselines
//! ([`best_of_peers`]).

use pagetide_core::lru::PolicyName;
use pagetide_core::lru::own::Tuning;
use pagetide_lab::replay::{self, Contender, Setup};
use pagetide_lab::trace::DenseTrace;

/// The published online policies for a row's best.
pub(crate) const PEERS: [PolicyName; 9] = [
    PolicyName::Lru,
    PolicyName::Fifo,
    PolicyName::Clock,
    PolicyName::TwoQueue,
    PolicyName::Arc,
    PolicyName::Lirs,
    PolicyName::S3Fifo,
    PolicyName::Sieve,
    PolicyName::WTinyLfu,
];

/// Returns the miss ratio of the policy called pagetide with these constants.
pub(crate) fn miss_ratio(trace: &DenseTrace, frames: u32, tuning: Tuning) -> f64 {
    let setup = Setup { tuning, ..Setup::new(PolicyName::Pagetide, frames) };
    replay::run_setup(setup, trace).miss_ratio()
}

/// Returns the best of [`PEERS`] over a trace, and its miss ratio.
pub(crate) fn best_of_peers(trace: &DenseTrace, frames: u32) -> (PolicyName, f64) {
    PEERS
        .into_iter()
        .map(|peer| (peer, replay::run(Contender::Policy(peer), trace, frames).miss_ratio()))
        .min_by(|one, other| one.1.total_cmp(&other.1))
        .expect("there are peers")
}

/// Returns the median, for an even count the mean of the middle two.
pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut sorted: Vec<f64> = values.into_iter().collect();
    sorted.sort_by(f64::total_cmp);
    let (low, high) = ((sorted.len() - 1) / 2, sorted.len() / 2);
    f64::midpoint(sorted[low], sorted[high])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median([3.0, 1.0, 2.0]).to_bits(), 2.0_f64.to_bits());
        assert_eq!(median([4.0, 1.0, 2.0, 8.0]).to_bits(), 3.0_f64.to_bits());
    }

    /// A variant takes effect: without history, a loop's pages never get in.
    #[test]
    fn the_horizon_matters() {
        let trace = DenseTrace::from_reads((0..30_000).map(|at| at * at % 977 + at % 300));
        let usual = miss_ratio(&trace, 100, Tuning::default());
        let none = Tuning { horizon_percent: 0, ..Tuning::default() };
        assert!((usual - miss_ratio(&trace, 100, none)).abs() > 0.0);
    }
}

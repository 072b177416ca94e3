//! Tuning: what is each constant of the policy called pagetide worth, and is it near the best?
//!
//! # Problem
//!
//! A policy without knobs has constants that somebody chose. Whoever doubts one must be able to
//! change it, and to see what that costs on every trace at once: a gain of a point here that loses
//! ten elsewhere is how policies come to be tuned to a trace.
//!
//! # Idea
//!
//! ```text
//!   ROWS (trace, frames, best of the online policies)
//!     x variants (constants as they are, then each changed alone)
//!     x sampling seeds                                               --> regret, in points
//!                                                                        worst row, median row
//! ```
//!
//! The regret of a row is the miss ratio less that of the best of nine published online policies.
//! Of the seeds the median counts. Rows are weighed by nothing: the worst one judges.
//!
//! # Data and invariants
//!
//! Deterministic: the same row, variant and seed give the same misses.
//!
//! # What it deliberately ignores
//!
//! Seconds. The constants were chosen looking at these rows; [`UNSEEN`] has others, to be told
//! apart, and [`TENTHS`] what recency wins at more sizes of memory.
//!
//! # Sources
//!
//! The best of the rows with real traces of OLTP, P3, P6 and LIRS: libCacheSim, run once over the
//! same files with object sizes ignored. Of the others: core's own baselines ([`best_of_peers`]).

mod chores;
mod made;
mod patterns;
mod rows;
mod services;
mod tenths;
mod unseen;
mod variants;

pub use chores::Chore;
pub use made::Made;
pub use patterns::Pattern;
pub use rows::{Best, ROWS, Row, Source};
pub use services::Service;
pub use tenths::TENTHS;
pub use unseen::UNSEEN;
pub use variants::Variant;

use crate::replay::{self, Contender, Setup};
use crate::trace::{DenseTrace, Trace, TraceError};
use pagetide_core::lru::PolicyName;
use pagetide_core::lru::pagetide::Tuning;
use std::path::Path;

/// The published online policies that a row's best is taken from.
pub const PEERS: [PolicyName; 9] = [
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

impl Source {
    /// The name of the trace's file; none, where the trace is made.
    pub fn file(&self) -> Option<&'static str> {
        match self {
            Source::File(name) => Some(name),
            Source::Made(_) => None,
        }
    }

    /// The trace: read from `folder`, or made.
    ///
    /// # Errors
    /// A file that is not there, or not sound.
    pub fn load(&self, folder: &Path) -> Result<DenseTrace, TraceError> {
        match self {
            Source::File(name) => DenseTrace::read(&mut Trace::open(&folder.join(name), None)?),
            Source::Made(made) => Ok(made.trace()),
        }
    }
}

/// The miss ratio of the policy called pagetide with these constants; `None` when `keep_on` ended
/// it, as [`replay::run_while`] has it.
pub fn miss_ratio(
    trace: &DenseTrace,
    frames: u32,
    tuning: Tuning,
    keep_on: impl FnMut(u64) -> bool,
) -> Option<f64> {
    let setup = Setup { tuning, ..Setup::new(PolicyName::Pagetide, frames) };
    replay::run_setup_while(setup, trace, keep_on).map(|outcome| outcome.miss_ratio())
}

/// The best of [`PEERS`] over a trace, and its miss ratio.
pub fn best_of_peers(trace: &DenseTrace, frames: u32) -> (PolicyName, f64) {
    PEERS
        .into_iter()
        .map(|peer| (peer, replay::run(Contender::Policy(peer), trace, frames).miss_ratio()))
        .min_by(|one, other| one.1.total_cmp(&other.1))
        .expect("there are peers")
}

/// Every row, those of a group after the usual ones.
pub fn all_rows() -> impl Iterator<Item = &'static Row> {
    ROWS.iter().chain(TENTHS).chain(UNSEEN)
}

/// The middle one of some numbers; of an even count, the mean of the two.
///
/// # Panics
/// When there are none.
pub fn median(values: impl IntoIterator<Item = f64>) -> f64 {
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

    #[test]
    fn every_row_is_named_once_and_every_variant_changes_something() {
        let rows: Vec<&Row> = all_rows().collect();
        for (at, row) in rows.iter().enumerate() {
            assert!(rows[..at].iter().all(|other| other.name != row.name), "{}", row.name);
            assert!(row.best.miss_ratio > 0.0 && row.best.miss_ratio < 1.0);
        }
        let variants = Variant::all();
        for (at, variant) in variants.iter().enumerate() {
            assert!(
                variants[..at].iter().all(|it| it.tuning != variant.tuning),
                "{}",
                variant.name
            );
        }
        assert_eq!(variants[0].tuning, Tuning::default());
    }

    /// A constant does what its variant says: with no history, a loop's pages never get in.
    #[test]
    fn the_horizon_matters() {
        let trace = DenseTrace::from_reads((0..30_000).map(|at| at * at % 977 + at % 300));
        let usual = miss_ratio(&trace, 100, Tuning::default(), |_| true);
        let none = Tuning { horizon_percent: 0, ..Tuning::default() };
        assert_ne!(usual, miss_ratio(&trace, 100, none, |_| true));
        assert_eq!(miss_ratio(&trace, 100, none, |_| false), None);
    }
}

//! Folded statistics at several phases: mean and range.
//!
//! Problem: with statistics folded every two seconds, the phase of the fold changes the hit ratio
//! by up to a point, and a machine's phase is unknown. Idea: replay at evenly spaced phases, and
//! report mean and range.
//!
//! ```text
//!   phase 0   |---------|---------|---------|
//!   phase 1   -|---------|---------|---------|
//!   ...                                          7 replays, 7 outcomes
//! ```
//!
//! Ignored: real phases need not be uniform.

use super::{Contender, ReplayOutcome, ReplayRow, Setup, StatisticsFold};
use pagetide_core::units::Millis;
use pagetide_core::vmstat::VmStat;

/// Number of phases.
pub const NR_PHASES: u64 = 7;

impl Setup {
    /// Returns this setup with a fold every `period`, at each of [`NR_PHASES`] phases.
    pub fn phases(self, period: Millis) -> impl Iterator<Item = Setup> {
        (0..NR_PHASES).map(move |at| {
            let phase = Millis(period.0 * at / NR_PHASES);
            Setup { statistics: StatisticsFold::Every { period, phase }, ..self }
        })
    }

    /// Returns this setup with a fold every `nr_reads` accesses, at each phase.
    pub fn phases_of_reads(self, nr_reads: u64) -> impl Iterator<Item = Setup> {
        (0..NR_PHASES).map(move |at| {
            let phase = nr_reads * at / NR_PHASES;
            Setup { statistics: StatisticsFold::EveryReads { nr_reads, phase }, ..self }
        })
    }
}

/// The outcomes of one setup at several phases.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Phases(pub Vec<ReplayOutcome>);

impl Phases {
    /// Returns the rounded mean of each number, with the first phase's counters and tiers.
    pub fn mean(&self) -> ReplayOutcome {
        let vmstat: VmStat = self.0.first().expect("phases have outcomes").vmstat;
        ReplayOutcome {
            accesses: self.mean_of(|outcome| outcome.accesses),
            misses: self.mean_of(|outcome| outcome.misses),
            bypasses: self.mean_of(|outcome| outcome.bypasses),
            out_of_memory: self.mean_of(|outcome| outcome.out_of_memory),
            evictions: self.mean_of(|outcome| outcome.evictions),
            pages_ahead: self.mean_of(|outcome| outcome.pages_ahead),
            vmstat,
            tiers: self.0.first().and_then(|outcome| outcome.tiers),
        }
    }

    /// Returns the lowest and the highest miss ratio.
    pub fn miss_ratio_range(&self) -> (f64, f64) {
        let ratios = self.0.iter().map(ReplayOutcome::miss_ratio);
        ratios.fold((f64::MAX, f64::MIN), |(low, high), ratio| (low.min(ratio), high.max(ratio)))
    }

    /// Returns the means as a report row, with the range of the miss ratio.
    pub fn to_row(&self, contender: Contender, frames: u32, seconds: f64) -> ReplayRow {
        let (low, high) = self.miss_ratio_range();
        ReplayRow {
            refaults: self.mean_of(ReplayOutcome::refaults),
            activations: self.mean_of(ReplayOutcome::activations),
            miss_ratio_min: Some(low),
            miss_ratio_max: Some(high),
            ..self.mean().to_row(contender, frames, seconds)
        }
    }

    fn mean_of(&self, number: impl Fn(&ReplayOutcome) -> u64) -> u64 {
        let (sum, count) = (self.0.iter().map(number).sum::<u64>(), self.0.len() as u64);
        (sum + count / 2) / count.max(1)
    }
}

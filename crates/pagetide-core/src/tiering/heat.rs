//! Heat of a page, in 32 bits of its folio.
//!
//! **Problem.** The latency of one hint fault is a draw from an exponential distribution: one in
//! ten is below a tenth of the mean. **Idea.** Average logarithms, so that one long wait does not
//! hide ten short ones. Start from the average of slow memory, so that the first latency weighs
//! little.
//!
//! ```text
//!   heat   [ again | bursts | moved | samples | log2 of 1/16 ms, 16 bits, 8 fractional ]
//!   weight of a new sample   1/2  1/3  1/4  1/4 ...      1/2 again for an outlier
//! ```
//!
//! **Data and invariants.** 0 is unknown. The logarithm is linear between powers of two, with an
//! error of at most 0.09.
//!
//! **Ignored.** Age of the samples. **Source.** Original. ARMS (2025) averages as well.

use crate::units::Millis;

pub(super) const DOUBLING: u32 = 256;
/// Log of the mean minus the mean log, of an exponential draw: Euler's constant, in doublings.
const LOG_OF_MEAN: u32 = 213;
/// A chance of 1 in 50 for a draw this far below the mean.
const LOG_OF_BURST: u32 = 5 * DOUBLING;
/// Accesses in 1024 s at a mean latency of 1/16 ms.
const RATE_OF_ONE: u64 = 16_384_000;

/// Last move of a page, until the next fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Moved {
    /// None since the last touch.
    No,
    Demoted,
    Promoted,
    /// Promoted, barely hot enough.
    Barely,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Heat(pub(super) u32);

impl Heat {
    const LOG_BITS: u32 = 16;
    const MOVED_SHIFT: u32 = 20;
    const BURSTS_SHIFT: u32 = 22;
    /// Armed again by an access, not by the scan.
    const AGAIN: u32 = 1 << 24;
    const SAMPLES_MAX: u32 = 3;

    fn new(log: u32, nr_samples: u32, moved: Moved) -> Heat {
        let log = log.clamp(1, (1 << Self::LOG_BITS) - 1);
        Heat(log | nr_samples << Self::LOG_BITS | (moved as u32) << Self::MOVED_SHIFT)
    }

    /// Returns the mean latency as a logarithm, 0 if unknown.
    pub(super) fn log(self) -> u32 {
        self.0 & ((1 << Self::LOG_BITS) - 1)
    }

    fn nr_samples(self) -> u32 {
        self.0 >> Self::LOG_BITS & 3
    }

    pub(super) fn moved(self) -> Moved {
        [Moved::No, Moved::Demoted, Moved::Promoted, Moved::Barely]
            [(self.0 >> Self::MOVED_SHIFT & 3) as usize]
    }

    pub(super) fn with_moved(self, moved: Moved) -> Heat {
        Heat(self.0 & ((1 << Self::MOVED_SHIFT) - 1) | (moved as u32) << Self::MOVED_SHIFT)
    }

    /// Returns the heat for arming again if the latency can only be the tail of the access that
    /// moved the page. At most three times.
    pub(super) fn in_burst(self, sample: u32) -> Option<Heat> {
        let is_burst = sample + LOG_OF_BURST < self.log();
        let nr_bursts = self.0 >> Self::BURSTS_SHIFT & 3;
        (is_burst && nr_bursts < 3).then_some(Heat(self.0 + (1 << Self::BURSTS_SHIFT)))
    }

    pub(super) fn armed_again(self) -> Heat {
        Heat(self.0 | Self::AGAIN)
    }

    pub(super) fn is_armed_again(self) -> bool {
        self.0 & Self::AGAIN != 0
    }

    pub(super) fn is_settled(self) -> bool {
        self.nr_samples() + 1 >= Self::SAMPLES_MAX
    }

    /// Adds a latency. `usual` is the logarithm of slow memory.
    pub(super) fn with_sample(self, sample: u32, usual: u32) -> Heat {
        let (before, nr_samples) = match self.nr_samples() {
            0 => (usual, 0),
            nr_samples => (self.log(), nr_samples),
        };
        // 1 in 30 draws is below a 16th of the mean or above 3.5 times it.
        let is_odd = sample + 3 * DOUBLING < before || sample > before + 3 * DOUBLING;
        let nr_samples = if is_odd { 0 } else { nr_samples };
        let weight = nr_samples + 2;
        let log = (before * (weight - 1) + sample + weight / 2) / weight;
        Heat::new(log, (nr_samples + 1).min(Self::SAMPLES_MAX - 1), Moved::No)
    }
}

pub(super) fn log_of(latency: Millis) -> u32 {
    let sixteenths = latency.0.min(1 << 40) * 16 + 8;
    let whole = sixteenths.ilog2();
    let part = if whole >= 8 { sixteenths >> (whole - 8) } else { sixteenths << (8 - whole) };
    whole * DOUBLING + (part as u32 & (DOUBLING - 1))
}

/// Returns the value in 1/16 ms.
fn exp_of(log: u32) -> u64 {
    let (whole, part) = (log / DOUBLING, u64::from(log % DOUBLING));
    ((256 + part) << whole.min(48)) >> 8
}

/// Returns the accesses in 1024 s for a mean logarithm.
pub(super) fn rate_of(log: u32) -> u64 {
    RATE_OF_ONE / exp_of(log + LOG_OF_MEAN).max(1)
}

/// Returns the mean logarithm for accesses in 1024 s.
pub(super) fn log_of_rate(rate: u64) -> u32 {
    let mean = (RATE_OF_ONE / rate.max(1)).max(1);
    let whole = mean.ilog2();
    let part = if whole >= 8 { mean >> (whole - 8) } else { mean << (8 - whole) };
    (whole * DOUBLING + (part as u32 & (DOUBLING - 1))).saturating_sub(LOG_OF_MEAN)
}

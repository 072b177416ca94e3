//! How hot a page is, in 32 bits of its folio.
//!
//! **Problem.** The latency of one hint fault is one draw from an exponential distribution: a page
//! touched once a second shows less than a tenth of it one time in ten. **Idea.** Average what a
//! page has shown, in logarithms, so that one long wait does not drown ten short ones, and start
//! from what pages of slow memory show on average, so that a page's first latency is taken with
//! scepticism.
//!
//! ```text
//!   heat   [ again | bursts | moved | samples | log2 of 1/16 ms, 16 bits, 8 behind the point ]
//!   weight of a new sample   1/2  1/3  1/4  1/4 ...      1/2 again where it fits the others badly
//! ```
//!
//! **Data and invariants.** 0 is a page that nothing is known of. The logarithm is linear between
//! powers of two, off by 0.09 at most.
//!
//! **Ignored.** How old the samples are. Source: our own; ARMS (2025) averages as well.

use crate::units::Millis;

/// Parts of a doubling.
pub(super) const DOUBLING: u32 = 256;
/// What the logarithm of an exponential draw is below that of its mean, on average: Euler's
/// constant, in doublings.
const LOG_OF_MEAN: u32 = 213;
/// One page in 50 is touched again in so small a part of its mean by chance.
const LOG_OF_BURST: u32 = 5 * DOUBLING;
/// Accesses in 1024 s of a page with a mean latency of 1/16 ms.
const RATE_OF_ONE: u64 = 16_384_000;

/// What a page's last move was, while the fault after it is awaited.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Moved {
    /// It was not moved, or has been touched since.
    No,
    Demoted,
    Promoted,
    /// Promoted, and only just hot enough.
    Barely,
}

/// What is known of a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Heat(pub(super) u32);

impl Heat {
    const LOG_BITS: u32 = 16;
    const MOVED_SHIFT: u32 = 20;
    const BURSTS_SHIFT: u32 = 22;
    /// Armed by an access of the page, not by the scan.
    const AGAIN: u32 = 1 << 24;
    /// Samples, counted up to this.
    const SAMPLES_MAX: u32 = 3;

    fn new(log: u32, nr_samples: u32, moved: Moved) -> Heat {
        let log = log.clamp(1, (1 << Self::LOG_BITS) - 1);
        Heat(log | nr_samples << Self::LOG_BITS | (moved as u32) << Self::MOVED_SHIFT)
    }

    /// The average latency, as a logarithm; 0 of a page that nothing is known of.
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

    /// Whether a latency says no more than that the access that moved the page was not over: then
    /// the page is to be armed again, with the heat returned. So often and no oftener.
    pub(super) fn in_burst(self, sample: u32) -> Option<Heat> {
        let is_burst = sample + LOG_OF_BURST < self.log();
        let nr_bursts = self.0 >> Self::BURSTS_SHIFT & 3;
        (is_burst && nr_bursts < 3).then_some(Heat(self.0 + (1 << Self::BURSTS_SHIFT)))
    }

    /// Armed again at once, by an access.
    pub(super) fn armed_again(self) -> Heat {
        Heat(self.0 | Self::AGAIN)
    }

    pub(super) fn is_armed_again(self) -> bool {
        self.0 & Self::AGAIN != 0
    }

    /// Whether so much has been seen of the page that one latency more changes little.
    pub(super) fn is_settled(self) -> bool {
        self.nr_samples() + 1 >= Self::SAMPLES_MAX
    }

    /// After one more latency; `usual` is the logarithm that pages of slow memory have.
    pub(super) fn with_sample(self, sample: u32, usual: u32) -> Heat {
        let (before, nr_samples) = match self.nr_samples() {
            0 => (usual, 0),
            nr_samples => (self.log(), nr_samples),
        };
        // One in 30 pages shows a 16th of its mean, or three and a half times as much.
        let is_odd = sample + 3 * DOUBLING < before || sample > before + 3 * DOUBLING;
        let nr_samples = if is_odd { 0 } else { nr_samples };
        let weight = nr_samples + 2;
        let log = (before * (weight - 1) + sample + weight / 2) / weight;
        Heat::new(log, (nr_samples + 1).min(Self::SAMPLES_MAX - 1), Moved::No)
    }
}

/// The logarithm of a latency.
pub(super) fn log_of(latency: Millis) -> u32 {
    let sixteenths = latency.0.min(1 << 40) * 16 + 8;
    let whole = sixteenths.ilog2();
    let part = if whole >= 8 { sixteenths >> (whole - 8) } else { sixteenths << (8 - whole) };
    whole * DOUBLING + (part as u32 & (DOUBLING - 1))
}

/// What has this logarithm, in 1/16 ms.
fn exp_of(log: u32) -> u64 {
    let (whole, part) = (log / DOUBLING, u64::from(log % DOUBLING));
    ((256 + part) << whole.min(48)) >> 8
}

/// Accesses in 1024 s of a page whose latencies have this logarithm on average.
pub(super) fn rate_of(log: u32) -> u64 {
    RATE_OF_ONE / exp_of(log + LOG_OF_MEAN).max(1)
}

/// The logarithm of a page with so many accesses in 1024 s.
pub(super) fn log_of_rate(rate: u64) -> u32 {
    let mean = (RATE_OF_ONE / rate.max(1)).max(1);
    let whole = mean.ilog2();
    let part = if whole >= 8 { mean >> (whole - 8) } else { mean << (8 - whole) };
    (whole * DOUBLING + (part as u32 & (DOUBLING - 1))).saturating_sub(LOG_OF_MEAN)
}

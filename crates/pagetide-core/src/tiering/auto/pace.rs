//! How much promotion gains of late, and so how often it is worth to look for hot pages.
//!
//! ```text
//!   cost of rounds   \                  /  hot pages that wait
//!                      \              /
//!   a second             `--.____.--'          least at sqrt(2 cost / gain)
//!                   short rounds   long rounds
//! ```
//!
//! **Problem.** Fast rounds of the scan cost faults, slow ones leave hot pages where they are.
//! **Idea.** With the cost of a round, and the gain found a second, the best length follows. The
//! gain is the larger of a short average and a long one, so that a hot set that has moved is looked
//! for at once.
//!
//! **Data and invariants.** A round takes between a 64th and a 16th of the threads' time.
//!
//! **Ignored.** That the gain found depends on the round itself. Source: our own.

use super::costs::TierCosts;
use crate::units::Millis;

/// How long a window is.
pub(super) const WINDOW: Millis = Millis(1000);
/// One part in so many of the threads' time at most goes into a round of the scan; and at least.
const SCAN_PART_MAX: u64 = 16;
const SCAN_PART_MIN: u64 = 64;
/// Averages of windows: one part in so many is the newest.
const SHORT: u64 = 8;
const LONG: u64 = 64;
/// How long pages are taken to stay, in seconds.
const STAY_MIN_S: u64 = 8;
const STAY_MAX_S: u64 = 512;

/// Averages of windows.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Pace {
    /// Promotions a second, times 1024.
    promoted: u64,
    /// What promotions gain: nanoseconds in 1024 s, each second.
    gain_short: u64,
    gain_long: u64,
}

impl Pace {
    /// A window of so many milliseconds is over, with so many promotions that gain so much each.
    pub(super) fn end_window(&mut self, elapsed: u64, nr_promoted: u64, gain_of_one: u64) {
        let per_second = |amount: u64| u128::from(amount) * 1000 / u128::from(elapsed);
        let promoted = per_second(nr_promoted * 1024) as u64;
        let gain = promoted.saturating_mul(gain_of_one) >> 10;
        let average = |old: u64, new: u64, part: u64| (old * (part - 1) + new).div_ceil(part);
        let windows = (elapsed / WINDOW.0).min(4 * LONG);
        for _ in 0..windows {
            self.gain_short = average(self.gain_short, gain, SHORT);
            self.gain_long = average(self.gain_long, gain, LONG);
            self.promoted = average(self.promoted, promoted, LONG);
        }
    }

    /// How long a round of the scan over slow memory should take.
    pub(super) fn pass(&self, costs: &TierCosts) -> Millis {
        let cost = costs.nr_slow.saturating_mul(costs.hint_fault_ns);
        let found = self.gain_short.max(self.gain_long).max(1);
        // In seconds, squared, times 2^20: milliseconds are close enough to 1024ths.
        let square = u128::from(cost) * 2 * 1024 * (1 << 20) / u128::from(found);
        let millis = u64::try_from(square).unwrap_or(u64::MAX).isqrt();
        let of_time = |part: u64| {
            u128::from(cost) * 1000 * u128::from(part) / u128::from(costs.thread_ns_per_s.max(1))
        };
        let [min, max] = [SCAN_PART_MAX, SCAN_PART_MIN]
            .map(|part| u64::try_from(of_time(part)).unwrap_or(u64::MAX).max(1));
        Millis(millis.clamp(min, max))
    }

    /// Seconds that a page stays in a fast node of so many frames.
    pub(super) fn stay(&self, nr_fast: u64) -> u64 {
        (nr_fast * 1024 / self.promoted.max(1)).clamp(STAY_MIN_S, STAY_MAX_S)
    }
}

//! Pace of the hint scan, from the recent gain of promotions.
//!
//! ```text
//!   cost of rounds   \                  /  hot pages that wait
//!                      \              /
//!   a second             `--.____.--'          least at sqrt(2 cost / gain)
//!                   short rounds   long rounds
//! ```
//!
//! **Problem.** Short scan rounds cost faults. Long rounds leave hot pages in slow memory.
//! **Idea.** The best length follows from the cost of a round and the gain per second, the larger
//! of a short and a long average, so that a moved hot set is found soon.
//!
//! **Data and invariants.** A round takes a 64th to a 16th of the threads' time.
//!
//! **Ignored.** The gain's dependence on the round. **Source.** Original.

use super::costs::TierCosts;
use crate::units::Millis;

pub(super) const WINDOW: Millis = Millis(1000);
/// Divisors of the threads' time for one scan round.
const SCAN_PART_MAX: u64 = 16;
const SCAN_PART_MIN: u64 = 64;
/// Windows per average.
const SHORT: u64 = 8;
const LONG: u64 = 64;
/// Bounds of the assumed stay in fast memory, s.
const STAY_MIN_S: u64 = 8;
const STAY_MAX_S: u64 = 512;

#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Pace {
    /// Promotions a second, times 1024.
    promoted: u64,
    /// Gain of promotions: ns in 1024 s, per second.
    gain_short: u64,
    gain_long: u64,
}

impl Pace {
    /// Ends a window of `elapsed` ms, with a gain per promotion.
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

    pub(super) fn pass(&self, costs: &TierCosts) -> Millis {
        let cost = costs.nr_slow.saturating_mul(costs.hint_fault_ns);
        let found = self.gain_short.max(self.gain_long).max(1);
        // In s^2 times 2^20, with 1024 ms per second.
        let square = u128::from(cost) * 2 * 1024 * (1 << 20) / u128::from(found);
        let millis = u64::try_from(square).unwrap_or(u64::MAX).isqrt();
        let of_time = |part: u64| {
            u128::from(cost) * 1000 * u128::from(part) / u128::from(costs.thread_ns_per_s.max(1))
        };
        let [min, max] = [SCAN_PART_MAX, SCAN_PART_MIN]
            .map(|part| u64::try_from(of_time(part)).unwrap_or(u64::MAX).max(1));
        Millis(millis.clamp(min, max))
    }

    /// Returns the stay of a page in the node, s.
    pub(super) fn stay(&self, nr_fast: u64) -> u64 {
        (nr_fast * 1024 / self.promoted.max(1)).clamp(STAY_MIN_S, STAY_MAX_S)
    }
}

//! Spares hot victims from demotion.
//!
//! **Problem.** A policy finds pages unused *now*. If all of fast memory is hot, these are not the
//! coldest. A wrong demotion costs two moves and many slow accesses.
//!
//! **Idea.** The coldest quarter of the victims goes, by heat from hint faults. The cut adapts.
//!
//! ```text
//!   offered:   hot  . . . . . . . . . | . . .  cold
//!                  spared: cut -1    cut   gone: cut +3       one in four goes
//! ```
//!
//! **Data and invariants.** The cut is a logarithm of latency, like heat. Pages of unknown heat go.
//! The cut sinks while no page goes.
//!
//! **Ignored.** Age of the heat, except that the wait of an armed page counts.
//!
//! **Source.** Original. The cut is a stochastic approximation of a quantile (Robbins and Monro,
//! 1951).

use super::heat::{Heat, log_of};
use crate::units::Millis;

/// Pages spared per page that goes.
const SPARED_A_GONE: u32 = 3;
/// Step of the cut per page, in units of 1/256 doubling.
const STEP: u32 = 1;

#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Sparing {
    cut: u32,
}

impl Sparing {
    /// Returns true if a victim stays. `waited` is the time since arming without a touch.
    pub(super) fn spares(&mut self, heat: Heat, waited: Option<Millis>) -> bool {
        if heat.log() == 0 {
            return false;
        }
        let log = heat.log().max(waited.map_or(0, log_of));
        let is_spared = log < self.cut;
        self.cut = if is_spared {
            self.cut - STEP
        } else {
            (self.cut + SPARED_A_GONE * STEP).min(log + 256)
        };
        is_spared
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A page with this mean latency.
    fn heat(latency_ms: u64) -> Heat {
        let sample = log_of(Millis(latency_ms));
        Heat(0).with_sample(sample, sample)
    }

    #[test]
    fn the_coldest_quarter_of_what_is_offered_goes() {
        let mut sparing = Sparing::default();
        let latencies = [10, 20, 40, 80, 160, 320, 640, 1280];
        let mut nr_gone = [0; 8];
        for nth in 0..80_000 {
            let which = nth * 5 % 8;
            let is_gone = !sparing.spares(heat(latencies[which]), None);
            nr_gone[which] += usize::from(is_gone && nth >= 40_000);
        }
        assert_eq!(nr_gone[..5], [0; 5], "{nr_gone:?}");
        assert!(nr_gone[7] == 5000, "{nr_gone:?}");
        let all: usize = nr_gone.iter().sum();
        assert!((9_500..10_500).contains(&all), "{nr_gone:?}");
    }

    #[test]
    fn unknown_pages_go_and_so_does_one_that_was_hot_and_waits() {
        let mut sparing = Sparing::default();
        for _ in 0..4000 {
            let _ = sparing.spares(heat(1000), None);
        }
        assert!(!sparing.spares(Heat(0), None));
        assert!(sparing.spares(heat(10), None));
        assert!(sparing.spares(heat(10), Some(Millis(20))));
        assert!(!sparing.spares(heat(10), Some(Millis(60_000))));
    }

    #[test]
    fn pages_that_are_all_alike_go_in_the_end() {
        let mut sparing = Sparing::default();
        for _ in 0..4000 {
            let _ = sparing.spares(heat(1000), None);
        }
        let first = (0..4000).position(|_| !sparing.spares(heat(5), None));
        assert!(first.is_some());
    }
}

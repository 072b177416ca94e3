//! Which of reclaim's victims stay in fast memory after all: those that are known to be hot.
//!
//! **Problem.** A replacement policy looks for pages that are not used *now*; it may count accesses
//! to five. Where all of fast memory is hot, those it finds are not its coldest, but hit by
//! chance, and a page demoted by mistake costs two moves and many slow accesses.
//!
//! **Idea.** The policy offers, and of what it offers the coldest quarter goes, by the heat that
//! faults have shown. The cut between them is no constant: it follows the pages offered.
//!
//! ```text
//!   offered:   hot  . . . . . . . . . | . . .  cold
//!                  spared: cut -1    cut   gone: cut +3       one in four goes
//! ```
//!
//! **Data and invariants.** The cut is a logarithm of latencies, as heat is. A page of which
//! nothing is known goes. Whatever is offered, pages go sooner or later: while none does, the cut
//! sinks.
//!
//! **Ignored.** How long ago a page's heat was seen, unless it is armed now: then the wait so far
//! counts. Source: our own; the cut is a stochastic approximation of a quantile (Robbins and Monro,
//! 1951).

use super::heat::{Heat, log_of};
use crate::units::Millis;

/// Pages spared for each that goes.
const SPARED_A_GONE: u32 = 3;
/// How far one page moves the cut, in parts of a doubling.
const STEP: u32 = 1;

/// The cut. See the module.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Sparing {
    cut: u32,
}

impl Sparing {
    /// Whether a page offered stays; `waited` is how long it has been armed for nothing.
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

    /// A page whose mean latency is about so long.
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

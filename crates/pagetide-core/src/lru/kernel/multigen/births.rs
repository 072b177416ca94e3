//! When each generation was started, and how long it is kept at least.
//!
//! Problem: where everything in memory is in use, evicting any of it makes the next moment worse;
//! a machine that does so anyway is busy and gets nothing done. Idea: a generation younger than
//! `min_ttl` is a working set of that many milliseconds. It is not evicted; an allocation
//! that wants its memory gets none.
//!
//! ```text
//!   born    1500 ms ago        400 ms ago     now
//!   gen     min_seq            min_seq + 1
//!           may go at 1000     may not: 400 < 1000
//! ```
//!
//! The kernel kills a process then. Here reads go past memory and are served from the store, and
//! guards are refused. Source: the multi-gen LRU specification, section 11.

use super::window::{MAX_NR_GENS, index_of};
use crate::units::Millis;

/// When the generations in use were started.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Births {
    at: [Millis; MAX_NR_GENS],
}

impl Births {
    /// A generation is started.
    pub(super) fn stamp(&mut self, seq: u64, now: Millis) {
        self.at[index_of(seq)] = now;
    }

    /// When a generation of the window was started.
    pub(super) fn of(&self, seq: u64) -> Millis {
        self.at[index_of(seq)]
    }

    /// Whether a generation has been kept for longer than `min_ttl`. Zero asks for nothing.
    pub(super) fn is_old_enough(&self, seq: u64, now: Millis, min_ttl: Millis) -> bool {
        min_ttl.0 == 0 || now.0 > self.of(seq).0.saturating_add(min_ttl.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generation_is_ripe_after_its_time() {
        let mut births = Births::default();
        births.stamp(7, Millis(5000));
        let is_old_enough = |now, min_ttl| births.is_old_enough(7, Millis(now), Millis(min_ttl));
        assert!(
            !is_old_enough(5400, 1000) && !is_old_enough(6000, 1000) && is_old_enough(6001, 1000)
        );
        assert!(is_old_enough(5000, 0), "no least age");
        assert!(!is_old_enough(u64::MAX, u64::MAX), "never");
        assert_eq!((births.of(7), births.of(11)), (Millis(5000), Millis(5000)), "a slot is reused");
    }
}

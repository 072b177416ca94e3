//! Start times and minimum age of generations.
//!
//! Problem: if all of memory is in use, evicting any page makes thrashing worse. Idea: a generation
//! younger than `min_ttl` milliseconds is not evicted, and an allocation that needs its memory
//! fails.
//!
//! ```text
//!   born    1500 ms ago        400 ms ago     now
//!   gen     min_seq            min_seq + 1
//!           may go at 1000     may not: 400 < 1000
//! ```
//!
//! The kernel then kills a process. Here reads bypass memory, and guards are refused. Source:
//! `Documentation/admin-guide/mm/multigen_lru.rst`, "Thrashing prevention".

use super::window::{MAX_NR_GENS, index_of};
use crate::units::Millis;

#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Births {
    at: [Millis; MAX_NR_GENS],
}

impl Births {
    pub(super) fn stamp(&mut self, seq: u64, now: Millis) {
        self.at[index_of(seq)] = now;
    }

    pub(super) fn of(&self, seq: u64) -> Millis {
        self.at[index_of(seq)]
    }

    /// Returns true for any age if `min_ttl` is 0.
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

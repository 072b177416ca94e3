//! The number of folios held at reclaim, the base of all shares.
//!
//! Problem: background reclaim keeps some frames free. A share of all frames is then never full,
//! and every page is admitted without a comparison.
//!
//! ```text
//!   frames   |---------------------------------|............|
//!   held      a pass ends here ^               ^ begins here   never in use
//! ```
//!
//! Idea: count the folios left at the end of a pass, plus the incoming page.
//!
//! Invariant: at least one, at most all frames. A decrease is followed at once, an increase by a
//! 16th of the difference.

/// Part of an increase that is followed per pass, as a divisor.
const PARTS: u32 = 16;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Held {
    most: u32,
    now: u32,
}

impl Held {
    pub(super) const fn new(nr_frames: u32) -> Held {
        Held { most: nr_frames, now: nr_frames }
    }

    pub(super) fn begin(&mut self, nr_folios: u64) {
        self.note(nr_folios);
    }

    pub(super) fn end(&mut self, nr_folios: u64) {
        self.note(nr_folios + 1);
    }

    fn note(&mut self, held: u64) {
        let held = u32::try_from(held).unwrap_or(u32::MAX).clamp(1, self.most);
        self.now = held.min(self.now) + held.saturating_sub(self.now).div_ceil(PARTS);
    }

    pub(super) const fn now(&self) -> u32 {
        self.now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_at_its_limit_holds_all_its_frames() {
        let mut held = Held::new(100);
        for _ in 0..10 {
            held.begin(100);
            held.end(99);
            assert_eq!(held.now(), 100);
        }
    }

    #[test]
    fn frames_that_stay_free_are_not_held_and_those_put_in_service_are_in_the_end() {
        let mut held = Held::new(1000);
        for _ in 0..10 {
            held.begin(850);
            held.end(799);
            assert_eq!(held.now(), 800);
        }
        for _ in 0..200 {
            held.begin(1000);
            held.end(960);
        }
        assert_eq!(held.now(), 961);
        held.end(0);
        assert_eq!(held.now(), 1);
    }
}

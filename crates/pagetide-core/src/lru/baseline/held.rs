//! How many folios memory holds when it must give: what shares of memory are shares of.
//!
//! Problem: a policy is told how many frames there are. Background reclaim keeps some free, and a
//! cache that may grow has fewer in service. Shares of frames that never hold a page are never
//! full, and a page that comes in while they are not is let in unasked: into LIRS's LIR pages, or
//! past the comparison of W-TinyLFU.
//!
//! ```text
//!   frames   |---------------------------------|............|
//!   held      a pass ends here ^               ^ begins here   never in use
//! ```
//!
//! Idea: what is left when a pass ends, and the one page that it made room for. A pass at a group's
//! limit evicts one page for one: all frames are held, and nothing changes.
//!
//! Invariant: at most as many as there are frames, at least one. It follows what is less at once,
//! and what is more by a 16th of the difference: how many frames are free moves by the batches in
//! which they are taken and given.

/// Of frames that there are more of than before, so many parts are believed at a time.
const PARTS: u32 = 16;

/// See the module.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Held {
    most: u32,
    now: u32,
}

impl Held {
    /// All of so many frames, until a pass says otherwise.
    pub(super) const fn new(nr_frames: u32) -> Held {
        Held { most: nr_frames, now: nr_frames }
    }

    /// A pass begins, with so many folios on the lists.
    pub(super) fn begin(&mut self, nr_folios: u64) {
        self.note(nr_folios);
    }

    /// A pass ends, with so many left.
    pub(super) fn end(&mut self, nr_folios: u64) {
        self.note(nr_folios + 1);
    }

    fn note(&mut self, held: u64) {
        let held = u32::try_from(held).unwrap_or(u32::MAX).clamp(1, self.most);
        self.now = held.min(self.now) + held.saturating_sub(self.now).div_ceil(PARTS);
    }

    /// How many that is.
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

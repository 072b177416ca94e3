//! How many folios memory holds when it must give, as far as main may count on it.
//!
//! Problem: main must leave probation its share of what there is room for. Were it allowed frames
//! that always stay free, it would never be full, and every page that came back would enter it. But
//! what there is room for moves with each batch of frames and each window of readahead.
//!
//! Idea: main gets what it can keep. It gives at once, and takes what was there for a memory's
//! turns, if that is clearly more.
//!
//! ```text
//!   room     ____     __    ________________________
//!                |___|  |__|
//!   held     ____                     (turns)   ____
//!                |_____________________________|
//! ```
//!
//! Data: the least there was in each of the last turns, the running one included.

/// Frames there are more of than before count if they are more than one of so many parts.
const PARTS: u32 = 32;
/// Turns that such frames must have been there: a memory's distinct pages.
const TURNS: usize = 8;
/// The running one's place among them.
const NOW: usize = TURNS - 1;

/// Folios that memory holds, never none.
#[derive(Debug)]
pub(super) struct Held {
    now: u32,
    capacity: u32,
    least: [u32; TURNS],
}

impl Held {
    /// As many as memory has frames.
    pub(super) fn new(capacity: u32) -> Held {
        Held { now: capacity.max(1), capacity, least: [capacity; TURNS] }
    }

    pub(super) fn get(&self) -> u32 {
        self.now
    }

    /// So many are all there is room for now. Returns whether that changes anything.
    pub(super) fn note(&mut self, held: u32) -> bool {
        self.least[NOW] = self.least[NOW].min(held);
        let is_less = held < self.now;
        self.now = self.now.min(held).max(1);
        is_less
    }

    /// A turn is over: see [`Unread`](super::unread::Unread). Returns whether anything changes.
    pub(super) fn end_turn(&mut self) -> bool {
        let held = self.least.into_iter().fold(self.capacity, u32::min);
        self.least.rotate_left(1);
        self.least[NOW] = self.capacity;
        let is_more = held > self.now + self.capacity / PARTS;
        if is_more {
            self.now = held;
        }
        is_more
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn less_counts_at_once_and_more_after_a_memory_of_turns() {
        let mut held = Held::new(1000);
        assert!(held.note(900) && !held.note(950));
        // The turn in which there was less must be forgotten first.
        (0..TURNS).for_each(|_| assert!(!held.end_turn()));
        assert!(held.end_turn());
        assert_eq!(held.get(), 1000);
    }

    #[test]
    fn a_little_more_changes_nothing_and_nothing_is_still_one() {
        let mut held = Held::new(1000);
        assert!(held.note(1000 - 1000 / PARTS));
        assert!((0..=2 * TURNS).all(|_| !held.end_turn()));
        assert!(held.note(0));
        assert_eq!(held.get(), 1);
    }
}

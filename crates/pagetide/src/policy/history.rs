//! The shadow entries of evicted keys.
//!
//! Problem: most policies judge a key that returns by its shadow entry, and there are more keys
//! than memory. Idea: a ring of the last evictions, with an index.
//!
//! ```text
//!   ring     [ key shadow | key, taken | key shadow | ... ]      the oldest is overwritten
//!   index    hash of the key --> position in the ring
//! ```
//!
//! Invariant: the index has the positions whose shadows were not taken.

use super::index::{Index, hash_of};
use pagetide_core::lru::ShadowEntry;

/// Marks a place without a shadow: unused, or taken. A shadow has at most 60 bits, and is stored
/// plus one.
const NONE: u64 = 0;

pub(super) struct History {
    index: Index,
    /// Keys with their shadows.
    ring: Box<[[u64; 2]]>,
    next: usize,
}

impl History {
    /// Creates an empty history of the last `nr_evictions`.
    pub(super) fn new(nr_evictions: u32) -> History {
        let ring = vec![[0, NONE]; nr_evictions as usize].into();
        History { index: Index::new(nr_evictions), ring, next: 0 }
    }

    /// Remembers an evicted key, which is not in the history.
    pub(super) fn push(&mut self, key: u64, shadow: ShadowEntry) {
        let Some(place) = self.ring.get_mut(self.next) else { return };
        let [oldest, its_shadow] = std::mem::replace(place, [key, shadow.bits() + 1]);
        if its_shadow != NONE {
            self.index.remove(hash_of(oldest), self.next as u32);
        }
        self.index.insert(hash_of(key), self.next as u32);
        self.next = (self.next + 1) % self.ring.len();
    }

    /// Removes and returns the shadow of a key.
    pub(super) fn take(&mut self, key: u64) -> Option<ShadowEntry> {
        let hash = hash_of(key);
        let position = self.index.find(hash, |at| self.ring[at as usize][0] == key)?;
        self.index.remove(hash, position);
        let shadow = std::mem::replace(&mut self.ring[position as usize][1], NONE);
        Some(ShadowEntry::from_bits(shadow - 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_evictions_are_remembered_and_taken_once() {
        let mut history = History::new(3);
        let shadow = |key| ShadowEntry::from_bits(key * 100);
        for key in 0..5 {
            history.push(key, shadow(key));
        }
        assert_eq!([0, 1].map(|key| history.take(key)), [None; 2], "overwritten");
        assert_eq!(history.take(3), Some(shadow(3)));
        assert_eq!(history.take(3), None, "taken");
        (5..8).for_each(|key| history.push(key, shadow(key)));
        assert_eq!([4, 7].map(|key| history.take(key)), [None, Some(shadow(7))]);
        let mut none = History::new(0);
        none.push(1, shadow(1));
        assert_eq!(none.take(1), None);
    }
}

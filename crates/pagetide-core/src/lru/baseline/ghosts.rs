//! A bounded history of evicted pages (ghosts).
//!
//! Problem: the papers keep lists of page identities. Idea: a shadow entry holds the eviction's
//! place in a ring of bits, where a set bit is a remembered ghost. A returning ghost clears its
//! bit.
//!
//! ```text
//!   places   oldest                              next
//!              |                                   |
//!     ... . .  1  0  1  1  0  0  1  1  1  0  1  1  .  .       1: remembered   0: came back
//! ```
//!
//! Invariants: no place before `oldest` is remembered. `len` counts the set bits, at most
//! `capacity`. The ring has [`SPAN`] places per ghost, rounded up to a power of two: 2 to 4 bytes a
//! ghost. Unlike a list, the ring forgets the oldest ghost early if returns spread the others too
//! far.
//!
//! Ignored: dropped pages, which stay until they age out.

use crate::lru::TOKEN_MASK;
use alloc::boxed::Box;
use alloc::vec;

/// Places per ghost.
const SPAN: u64 = 16;
const WORD_BITS: u64 = 64;

/// Ghosts in eviction order. All operations O(1), [`Ghosts::forget_oldest`] amortised.
#[derive(Debug)]
pub(super) struct Ghosts {
    places: Box<[u64]>,
    capacity: u64,
    len: u64,
    oldest: u64,
    next: u64,
}

impl Ghosts {
    pub(super) fn new(capacity: u64) -> Ghosts {
        let nr_words = (capacity * SPAN).div_ceil(WORD_BITS).next_power_of_two() as usize;
        Ghosts { places: vec![0; nr_words].into(), capacity, len: 0, oldest: 0, next: 0 }
    }

    pub(super) fn len(&self) -> u64 {
        self.len
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Remembers an eviction and returns its token. Forgets the oldest beyond the capacity.
    pub(super) fn push(&mut self) -> u64 {
        if self.next - self.oldest == self.nr_places() {
            self.skip_returned();
        }
        if self.next - self.oldest == self.nr_places() {
            self.forget_oldest();
        }
        let place = self.next;
        self.next += 1;
        self.flip(place);
        self.len += 1;
        if self.len > self.capacity {
            self.forget_oldest();
        }
        place & TOKEN_MASK
    }

    /// Removes the ghost with this token. Returns true if it was remembered.
    pub(super) fn take(&mut self, token: u64) -> bool {
        let age = self.next.wrapping_sub(token) & TOKEN_MASK;
        if age == 0 || age > self.next - self.oldest {
            return false;
        }
        let place = self.next - age;
        let is_remembered = self.is_set(place);
        if is_remembered {
            self.flip(place);
            self.len -= 1;
        }
        is_remembered
    }

    pub(super) fn forget_oldest(&mut self) {
        self.skip_returned();
        if self.oldest < self.next {
            self.flip(self.oldest);
            self.oldest += 1;
            self.len -= 1;
        }
    }

    fn skip_returned(&mut self) {
        while self.oldest < self.next && !self.is_set(self.oldest) {
            self.oldest += 1;
        }
    }

    /// Panics if an invariant is broken. O(places).
    pub(super) fn validate(&self) {
        let nr_set: u64 = self.places.iter().map(|word| u64::from(word.count_ones())).sum();
        assert_eq!(nr_set, self.len, "ghosts marked and counted");
        assert!(self.len <= self.capacity, "{} ghosts of {}", self.len, self.capacity);
        assert!(self.next - self.oldest <= self.nr_places(), "the ring overlaps itself");
        assert!(
            (self.oldest..self.next).filter(|place| self.is_set(*place)).count() as u64 == nr_set
        );
    }

    fn nr_places(&self) -> u64 {
        self.places.len() as u64 * WORD_BITS
    }

    fn position(&self, place: u64) -> (usize, u64) {
        let place = place & (self.nr_places() - 1);
        ((place / WORD_BITS) as usize, 1 << (place % WORD_BITS))
    }

    fn is_set(&self, place: u64) -> bool {
        let (word, bit) = self.position(place);
        self.places[word] & bit != 0
    }

    fn flip(&mut self, place: u64) {
        let (word, bit) = self.position(place);
        self.places[word] ^= bit;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::VecDeque;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn ghosts_agree_with_a_list(
            capacity in 0..8u64,
            ops in prop::collection::vec((0..4u8, 0..12u64), 0..600),
        ) {
            let mut ghosts = Ghosts::new(capacity);
            let mut twin = VecDeque::new();
            for (op, back) in ops {
                match op {
                    0 | 1 => {
                        twin.push_back(ghosts.push());
                        if twin.len() as u64 > capacity {
                            twin.pop_front();
                        }
                        if twin.front().is_some_and(|token| ghosts.next - token > 64) {
                            return Ok(());
                        }
                    }
                    _ => {
                        let token = ghosts.next.wrapping_sub(back) & TOKEN_MASK;
                        let at = twin.iter().position(|other| *other == token);
                        at.map(|at| twin.remove(at));
                        prop_assert_eq!(ghosts.take(token), at.is_some());
                    }
                }
                ghosts.validate();
                prop_assert_eq!(ghosts.len(), twin.len() as u64);
            }
        }
    }

    #[test]
    fn a_ring_full_of_returns_forgets_nobody() {
        let mut ghosts = Ghosts::new(4);
        let mut kept = ghosts.push();
        for _ in 0..200 {
            let next = ghosts.push();
            assert!(ghosts.take(kept), "{kept} was forgotten");
            kept = next;
            ghosts.validate();
        }
    }

    #[test]
    fn a_ghost_that_outlives_the_ring_is_forgotten() {
        let mut ghosts = Ghosts::new(4);
        let first = ghosts.push();
        for _ in 0..64 {
            let token = ghosts.push();
            assert!(ghosts.take(token));
            ghosts.validate();
        }
        assert!(!ghosts.take(first));
        assert!(ghosts.is_empty());
    }
}

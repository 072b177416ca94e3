//! A hash table from keys to numbers below 2^32, of a fixed length.
//!
//! Problem: an access looks up its key, and most of its time is one cache miss in this table. Idea:
//! open addressing with eight bytes a slot. The keys themselves stay where the numbers lead.
//!
//! ```text
//!   slot   [ upper half of the hash, 32 bits | number + 1, 32 bits ]       0 is empty
//!   home   the first bits of the hash
//! ```
//!
//! Invariants: at most half of the slots are used. No empty slot lies between a used slot and its
//! home. A removal moves later slots back.

use pagetide_sys::huge_buffer;

const EMPTY: u64 = 0;

/// Returns the hash of a key. The index takes its upper half.
#[inline]
pub(super) fn hash_of(key: u64) -> u64 {
    const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
    let product = u128::from(key ^ ODD.rotate_left(32)) * u128::from(ODD);
    (product >> 64) as u64 ^ product as u64
}

pub(super) struct Index {
    slots: Box<[u64]>,
    /// Turns the upper half of a hash into its home.
    shift: u32,
}

impl Index {
    /// Creates an empty index for at most `nr_max` numbers, below 2^31.
    pub(super) fn new(nr_max: u32) -> Index {
        let nr_slots = (2 * nr_max as usize).next_power_of_two().max(2);
        Index { slots: vec![EMPTY; nr_slots].into(), shift: 32 - nr_slots.ilog2() }
    }

    /// Moves a large table to huge pages, so that accesses seldom miss the TLB.
    pub(super) fn move_to_huge_pages(&self) {
        huge_buffer::move_to_huge_pages(&self.slots);
    }

    /// Returns the number of the hash for which `is_key` returns true.
    #[inline]
    pub(super) fn find(&self, hash: u64, is_key: impl Fn(u32) -> bool) -> Option<u32> {
        let mut at = self.home(hash);
        loop {
            let slot = self.slots[at];
            if slot == EMPTY {
                return None;
            }
            let number = (slot as u32).wrapping_sub(1);
            if slot >> 32 == hash >> 32 && is_key(number) {
                return Some(number);
            }
            at = self.next(at);
        }
    }

    /// Adds a number, which must not be there.
    pub(super) fn insert(&mut self, hash: u64, number: u32) {
        let mut at = self.home(hash);
        while self.slots[at] != EMPTY {
            at = self.next(at);
        }
        self.slots[at] = hash >> 32 << 32 | (u64::from(number) + 1);
    }

    /// Removes a number, if it is there.
    pub(super) fn remove(&mut self, hash: u64, number: u32) {
        let mut at = self.home(hash);
        while self.slots[at] as u32 != number + 1 {
            if self.slots[at] == EMPTY {
                return;
            }
            at = self.next(at);
        }
        let (mut hole, mut next) = (at, self.next(at));
        while self.slots[next] != EMPTY {
            let home = self.home(self.slots[next]);
            if self.distance(home, next) >= self.distance(hole, next) {
                self.slots[hole] = self.slots[next];
                hole = next;
            }
            next = self.next(next);
        }
        self.slots[hole] = EMPTY;
    }

    #[inline]
    fn home(&self, hash: u64) -> usize {
        ((hash >> 32) as u32 >> self.shift) as usize
    }

    #[inline]
    fn next(&self, at: usize) -> usize {
        (at + 1) & (self.slots.len() - 1)
    }

    fn distance(&self, from: usize, to: usize) -> usize {
        to.wrapping_sub(from) & (self.slots.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        /// Equal hashes in few homes, one of which is near the end of the table.
        #[test]
        fn numbers_are_found_until_removed(
            ops in prop::collection::vec((any::<bool>(), 0..4u64, 0..16u32), 0..200),
        ) {
            let mut index = Index::new(16);
            let mut twin = BTreeMap::new();
            for (inserts, home, number) in ops {
                let hash = home.wrapping_sub(1) << 60 | 1 << 32;
                if inserts && !twin.contains_key(&number) {
                    twin.insert(number, hash);
                    index.insert(hash, number);
                } else if !inserts && let Some(hash) = twin.remove(&number) {
                    index.remove(hash, number);
                    index.remove(hash, number);
                }
                for number in 0..16 {
                    let found = (0..4u64)
                        .map(|home| home.wrapping_sub(1) << 60 | 1 << 32)
                        .filter(|hash| index.find(*hash, |found| found == number).is_some());
                    prop_assert_eq!(
                        found.collect::<Vec<_>>(),
                        twin.get(&number).copied().into_iter().collect::<Vec<_>>()
                    );
                }
            }
        }
    }
}

//! A table of a fixed size, by 32-bit keys: what there is instead of a hash map.
//!
//! Problem: core has no hash maps, and a sampler needs to find a page by its key. Idea:
//! open addressing. A key stands in the first vacant slot from its home on; where one is removed,
//! those that were pushed past it move up, so that nothing is left behind.
//!
//! ```text
//!   home of k:  key as it is, modulo the slots          slots  [k|value] [ ] [l|value] [m|value]
//! ...
//! ```
//!
//! Invariants: a key is in one slot at most, and no vacant slot lies between it and its home. The
//! caller keeps some slots vacant, or a search would not end: three quarters full is plenty.
//!
//! Ignored: hashing. Keys are hashes already, and never 0, which is a vacant slot.

use alloc::boxed::Box;
use alloc::vec;

#[derive(Clone, Copy, Debug)]
struct Slot<V> {
    key: u32,
    value: V,
}

/// Values by key; a key is any number but 0.
#[derive(Clone, Debug)]
pub(crate) struct KeyTable<V> {
    /// `[power of two]`.
    slots: Box<[Slot<V>]>,
}

impl<V: Copy> KeyTable<V> {
    /// So many slots, a power of two, all vacant; `filler` is what those hold.
    pub(crate) fn new(nr_slots: usize, filler: V) -> KeyTable<V> {
        KeyTable { slots: vec![Slot { key: 0, value: filler }; nr_slots].into() }
    }

    /// The key's value, if it is there.
    pub(crate) fn find(&self, key: u32) -> Option<V> {
        let slot = self.slots[self.slot_of(key)];
        (slot.key == key).then_some(slot.value)
    }

    /// Puts the key in, or gives it another value.
    pub(crate) fn put(&mut self, key: u32, value: V) {
        let at = self.slot_of(key);
        self.slots[at] = Slot { key, value };
    }

    /// Takes the key out, if it is there and its value is the one meant.
    pub(crate) fn remove_if(&mut self, key: u32, is_meant: impl FnOnce(V) -> bool) -> Option<V> {
        let at = self.slot_of(key);
        let slot = self.slots[at];
        if slot.key != key || !is_meant(slot.value) {
            return None;
        }
        self.vacate(at);
        Some(slot.value)
    }

    /// Panics unless every key is found; returns them with their values. O(slots).
    pub(crate) fn validate(&self) -> impl Iterator<Item = (u32, V)> {
        self.slots.iter().enumerate().filter(|(_, slot)| slot.key != 0).map(|(at, slot)| {
            assert_eq!(self.slot_of(slot.key), at, "{:#x} is out of reach", slot.key);
            (slot.key, slot.value)
        })
    }

    /// How many slots there are.
    pub(crate) fn nr_slots(&self) -> usize {
        self.slots.len()
    }

    /// The slot that holds the key, or the vacant one where it belongs.
    fn slot_of(&self, key: u32) -> usize {
        let mask = self.slots.len() - 1;
        let mut at = key as usize & mask;
        while self.slots[at].key != key && self.slots[at].key != 0 {
            at = (at + 1) & mask;
        }
        at
    }

    /// Empties a slot, and moves up those that were pushed past it.
    fn vacate(&mut self, at: usize) {
        let mask = self.slots.len() - 1;
        let (mut hole, mut next) = (at, at);
        loop {
            next = (next + 1) & mask;
            let Slot { key, .. } = self.slots[next];
            if key == 0 {
                break;
            }
            let from_home = next.wrapping_sub(key as usize) & mask;
            if from_home >= next.wrapping_sub(hole) & mask {
                self.slots[hole] = self.slots[next];
                hole = next;
            }
        }
        self.slots[hole].key = 0;
    }
}

//! A hash table of fixed size with 32-bit keys.
//!
//! **Problem.** Core has no hash maps. **Idea.** Open addressing with linear probing. A removal
//! moves later entries up.
//!
//! ```text
//!   home of k:  key modulo the slots          slots  [k|value] [ ] [l|value] [m|value]
//! ```
//!
//! **Invariants.** A key is in at most one slot, without a vacant slot between home and key. The
//! caller keeps some slots vacant, so that searches end.
//!
//! **Ignored.** Hashing: keys are hashes already. 0 marks a vacant slot.

use alloc::boxed::Box;
use alloc::vec;

#[derive(Clone, Copy, Debug)]
struct Slot<V> {
    key: u32,
    value: V,
}

/// Values by nonzero key.
#[derive(Clone, Debug)]
pub(crate) struct KeyTable<V> {
    /// `[power of two]`.
    slots: Box<[Slot<V>]>,
}

impl<V: Copy> KeyTable<V> {
    /// Creates `nr_slots` vacant slots, a power of two, holding `filler`.
    pub(crate) fn new(nr_slots: usize, filler: V) -> KeyTable<V> {
        KeyTable { slots: vec![Slot { key: 0, value: filler }; nr_slots].into() }
    }

    pub(crate) fn find(&self, key: u32) -> Option<V> {
        let slot = self.slots[self.slot_of(key)];
        (slot.key == key).then_some(slot.value)
    }

    pub(crate) fn put(&mut self, key: u32, value: V) {
        let at = self.slot_of(key);
        self.slots[at] = Slot { key, value };
    }

    /// Removes the key if `is_meant` accepts its value.
    pub(crate) fn remove_if(&mut self, key: u32, is_meant: impl FnOnce(V) -> bool) -> Option<V> {
        let at = self.slot_of(key);
        let slot = self.slots[at];
        if slot.key != key || !is_meant(slot.value) {
            return None;
        }
        self.vacate(at);
        Some(slot.value)
    }

    /// Panics unless every key is reachable. Returns the entries. O(slots).
    pub(crate) fn validate(&self) -> impl Iterator<Item = (u32, V)> {
        self.slots.iter().enumerate().filter(|(_, slot)| slot.key != 0).map(|(at, slot)| {
            assert_eq!(self.slot_of(slot.key), at, "{:#x} is out of reach", slot.key);
            (slot.key, slot.value)
        })
    }

    pub(crate) fn nr_slots(&self) -> usize {
        self.slots.len()
    }

    /// Returns the slot of the key, or the vacant slot for it.
    fn slot_of(&self, key: u32) -> usize {
        let mask = self.slots.len() - 1;
        let mut at = key as usize & mask;
        while self.slots[at].key != key && self.slots[at].key != 0 {
            at = (at + 1) & mask;
        }
        at
    }

    /// Empties a slot, and moves displaced entries up.
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

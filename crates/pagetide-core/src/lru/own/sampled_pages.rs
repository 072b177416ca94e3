//! The pages of a miniature: resident in a frame, or evicted.
//!
//! Problem: a miniature has no page words. Idea: a hash table by key, and a ring of evicted pages,
//! oldest first, to forget each in time. Both have a fixed size.
//!
//! ```text
//!   places  [key|Here(frame)] [ ] [key|Gone(departure, epoch)] ...    <= 3/4 full
//!   gone    key key key key ...                                       by departure, in a ring
//! ```
//!
//! Invariants: each `Gone(departure)` is in the ring at that departure. Resident pages and the
//! ring's length together are at most three quarters of the slots.
//!
//! Ignored: two pages with the same 32 hash bits count as one, which is rare and costs a wrong hit.

use super::page_clock::Epoch;
use crate::key_table::KeyTable;
use alloc::boxed::Box;
use alloc::vec;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SampledPlace {
    /// Resident in this frame.
    Here(u32),
    /// Evicted with this departure number, last accessed in this epoch.
    Gone(u32, Epoch),
}

/// A key is not 0.
#[derive(Debug)]
pub(super) struct SampledPages {
    places: KeyTable<SampledPlace>,
    /// By departure modulo the length, 0 if unused.
    gone: Box<[u32]>,
    nr_departures: u32,
}

impl SampledPages {
    pub(super) fn new(nr_resident: u32, nr_gone: u32) -> SampledPages {
        let nr_pages = u64::from(nr_resident) + u64::from(nr_gone.max(1));
        let nr_slots = (nr_pages * 4).div_ceil(3).next_power_of_two() as usize;
        SampledPages {
            places: KeyTable::new(nr_slots, SampledPlace::Here(0)),
            gone: vec![0; nr_gone.max(1) as usize].into(),
            nr_departures: 0,
        }
    }

    pub(super) fn find(&self, key: u32) -> Option<SampledPlace> {
        self.places.find(key)
    }

    pub(super) fn nr_departures_since(&self, departure: u32) -> u32 {
        self.nr_departures.wrapping_sub(departure)
    }

    pub(super) fn arrive(&mut self, key: u32, frame: u32) {
        self.places.put(key, SampledPlace::Here(frame));
    }

    /// Forgets the oldest evicted page.
    pub(super) fn depart(&mut self, key: u32, epoch: Epoch) {
        let departure = self.nr_departures;
        let turn = departure as usize % self.gone.len();
        let oldest = core::mem::replace(&mut self.gone[turn], key);
        if oldest != 0 {
            let left = departure.wrapping_sub(self.gone.len() as u32);
            self.places.remove_if(
                oldest,
                |place| matches!(place, SampledPlace::Gone(since, _) if since == left),
            );
        }
        self.places.put(key, SampledPlace::Gone(departure, epoch));
        self.nr_departures = departure.wrapping_add(1);
    }

    /// Panics if an invariant is broken. O(slots).
    pub(super) fn validate(&self) {
        let nr_pages = self.places.validate().count();
        assert!(nr_pages * 4 <= self.places.nr_slots() * 3, "{nr_pages} pages are too many");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::{BTreeMap, VecDeque};
    use proptest::prelude::*;

    proptest! {
        /// Compares with a map and a queue.
        #[test]
        fn pages_agree_with_a_map(keys in prop::collection::vec(1..40u32, 1..800)) {
            const NR_RESIDENT: usize = 5;
            const NR_GONE: usize = 7;
            let mut pages = SampledPages::new(NR_RESIDENT as u32, NR_GONE as u32);
            let mut twin = BTreeMap::new();
            let mut resident = VecDeque::new();
            let mut gone = VecDeque::new();
            for key in keys {
                // Makes keys collide in a table of 16 slots.
                let key = key % 5 * 16 + key;
                prop_assert_eq!(pages.find(key), twin.get(&key).copied());
                if resident.contains(&key) {
                    continue;
                }
                if resident.len() == NR_RESIDENT {
                    let leaves: u32 = resident.pop_front().expect("five pages");
                    let departure = pages.nr_departures;
                    if gone.len() == NR_GONE {
                        let (oldest, left) = gone.pop_front().expect("seven pages");
                        if twin.get(&oldest) == Some(&SampledPlace::Gone(left, 3)) {
                            twin.remove(&oldest);
                        }
                    }
                    pages.depart(leaves, 3);
                    twin.insert(leaves, SampledPlace::Gone(departure, 3));
                    gone.push_back((leaves, departure));
                }
                pages.arrive(key, 9);
                twin.insert(key, SampledPlace::Here(9));
                resident.push_back(key);
                pages.validate();
            }
        }
    }
}

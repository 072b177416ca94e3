//! The guards of this thread. A thread checks them before waiting for a page, to avoid waiting for
//! itself.
//!
//! ```text
//!   shared guards    up to 8 of a thread at a time: the page word's address, in thread-local words
//!   all others       a list on the heap: exclusive guards, and shared guards without a slot
//! ```
//!
//! A guard stays on its thread and stores its slot, so adding costs two stores, and removing one.

use crate::engine::mapping::Mapping;
use pagetide_core::ids::PageIndex;
use std::cell::{Cell, RefCell};

/// Number of slots of a thread.
const NR_SLOTS: usize = 8;

/// The slot of a shared guard, or [`NR_SLOTS`] if listed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Slot(u8);

/// The shared guards in slots.
struct Slots {
    used: Cell<u32>,
    /// The address of each guarded page's word, unique while the guard lives.
    words: [Cell<usize>; NR_SLOTS],
}

/// A guard without a slot.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Listed {
    /// The mapping's address. The mapping outlives the guard.
    mapping: usize,
    index: u64,
    is_exclusive: bool,
}

impl Listed {
    fn new(mapping: &Mapping, index: u64, is_exclusive: bool) -> Listed {
        Listed { mapping: std::ptr::from_ref(mapping).addr(), index, is_exclusive }
    }
}

thread_local! {
    static SLOTS: Slots =
        const { Slots { used: Cell::new(0), words: [const { Cell::new(0) }; NR_SLOTS] } };
    static LISTED: RefCell<Vec<Listed>> = const { RefCell::new(Vec::new()) };
}

/// Records a shared guard of page `index`, with the address of its word.
#[inline]
pub(crate) fn add_shared(mapping: &Mapping, index: u64, word: usize) -> Slot {
    SLOTS.with(|slots| {
        let used = slots.used.get();
        let free = used.trailing_ones() as usize;
        let Some(place) = slots.words.get(free) else {
            add_listed(Listed::new(mapping, index, false));
            return Slot(NR_SLOTS as u8);
        };
        place.set(word);
        slots.used.set(used | 1 << free);
        Slot(free as u8)
    })
}

#[inline]
pub(crate) fn remove_shared(mapping: &Mapping, index: u64, slot: Slot) {
    if usize::from(slot.0) < NR_SLOTS {
        SLOTS.with(|slots| slots.used.set(slots.used.get() & !(1 << slot.0)));
    } else {
        remove_listed(Listed::new(mapping, index, false));
    }
}

pub(crate) fn add_exclusive(mapping: &Mapping, index: u64) {
    add_listed(Listed::new(mapping, index, true));
}

pub(crate) fn remove_exclusive(mapping: &Mapping, index: u64) {
    remove_listed(Listed::new(mapping, index, true));
}

#[cold]
fn add_listed(guard: Listed) {
    // The list of an ending thread may be gone.
    let _ = LISTED.try_with(|listed| listed.borrow_mut().push(guard));
}

#[cold]
fn remove_listed(guard: Listed) {
    // The list of an ending thread may be gone.
    let _ = LISTED.try_with(|listed| {
        let mut listed = listed.borrow_mut();
        if let Some(at) = listed.iter().rposition(|one| *one == guard) {
            listed.swap_remove(at);
        }
    });
}

/// Returns true if this thread has a guard of the page.
pub(crate) fn has(mapping: &Mapping, index: u64) -> bool {
    let has_slot = mapping.table.page(PageIndex(index)).is_some_and(|page| {
        let word = page.word_address();
        SLOTS.with(|slots| {
            let is_used = |slot: usize| slots.used.get() & 1 << slot != 0;
            (0..NR_SLOTS).any(|slot| is_used(slot) && slots.words[slot].get() == word)
        })
    });
    let address = std::ptr::from_ref(mapping).addr();
    let is_it = |guard: &Listed| guard.mapping == address && guard.index == index;
    has_slot || LISTED.try_with(|listed| listed.borrow().iter().any(is_it)).unwrap_or(false)
}

/// Returns the mapping's first page that has an exclusive guard of this thread.
pub(crate) fn first_exclusive(mapping: &Mapping) -> Option<u64> {
    let address = std::ptr::from_ref(mapping).addr();
    let of_it = |guard: &&Listed| guard.mapping == address && guard.is_exclusive;
    let first = |listed: &RefCell<Vec<Listed>>| {
        listed.borrow().iter().filter(of_it).map(|guard| guard.index).min()
    };
    LISTED.try_with(first).ok().flatten()
}

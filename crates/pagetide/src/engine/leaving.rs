//! Pages that are to be dropped, and could not be at once: a guard has them, a request is filling
//! them, or bytes written here are still to be stored.
//!
//! Problem: an open that finds the file changed, and a cut, drop pages; waiting for each would make
//! them wait for guards that other threads hold.
//!
//! Idea: what is in use is put down here, and dropped by the next access, before it is used again.
//!
//! Invariant: a page that is put down here is given out only after its entry was settled under
//! the page's lock; what was cut off of it is never written back.

use crate::memory::locks::lock;
use pagetide_core::units::PAGE_BYTES;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// A file's pages that are to be dropped, by index.
#[derive(Default)]
pub(crate) struct Leaving {
    is_any: AtomicBool,
    /// From which byte on the page was cut off; its length where nothing was.
    pages: Mutex<BTreeMap<u64, usize>>,
}

impl Leaving {
    /// Whether there are any: almost never, and asked at each access.
    #[inline]
    pub(crate) fn is_any(&self) -> bool {
        self.is_any.load(Ordering::Acquire)
    }

    /// The page is no longer what the file has.
    pub(crate) fn insert_changed(&self, index: u64) {
        self.insert_cut(index, PAGE_BYTES);
    }

    /// The page was cut off from byte `from` on.
    pub(crate) fn insert_cut(&self, index: u64, from: usize) {
        let mut pages = lock(&self.pages);
        let cut = pages.entry(index).or_insert(PAGE_BYTES);
        *cut = from.min(*cut);
        self.is_any.store(true, Ordering::Release);
    }

    /// From which byte on the page is cut off, if it is here. The caller has it locked or pinned.
    pub(crate) fn cut_of(&self, index: u64) -> Option<usize> {
        if self.is_any() { lock(&self.pages).get(&index).copied() } else { None }
    }

    /// The page was dropped.
    pub(crate) fn remove(&self, index: u64) {
        let mut pages = lock(&self.pages);
        pages.remove(&index);
        self.is_any.store(!pages.is_empty(), Ordering::Release);
    }

    /// What was cut off of the page was zeroed.
    pub(crate) fn note_zeroed(&self, index: u64) {
        if let Some(cut) = lock(&self.pages).get_mut(&index) {
            *cut = PAGE_BYTES;
        }
    }

    pub(crate) fn collect(&self, range: RangeInclusive<u64>) -> Vec<u64> {
        lock(&self.pages).range(range).map(|(index, _)| *index).collect()
    }
}

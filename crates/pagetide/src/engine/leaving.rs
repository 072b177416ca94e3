//! Retiring pages: to be dropped, but in use by a guard or a read, or with bytes to be stored.
//!
//! Problem: an open that finds the file changed, and a truncation, must not wait for other threads'
//! guards. Idea: a page in use is recorded here, and the next access drops it before use.
//!
//! Invariant: a recorded page is given out only after its entry was handled under the page's lock.
//! Truncated bytes are never written back.

use crate::memory::locks::lock;
use pagetide_core::units::PAGE_BYTES;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

#[derive(Default)]
pub(crate) struct Leaving {
    is_any: AtomicBool,
    /// Truncation offset by page, or the page length without truncation.
    pages: Mutex<BTreeMap<u64, usize>>,
}

impl Leaving {
    /// Returns true if a page is retiring. Rare, but checked on each access.
    #[inline]
    pub(crate) fn is_any(&self) -> bool {
        self.is_any.load(Ordering::Acquire)
    }

    /// Records that the page is stale.
    pub(crate) fn insert_changed(&self, index: u64) {
        self.insert_cut(index, PAGE_BYTES);
    }

    /// Records that the page was truncated at byte `from`.
    pub(crate) fn insert_cut(&self, index: u64, from: usize) {
        let mut pages = lock(&self.pages);
        let cut = pages.entry(index).or_insert(PAGE_BYTES);
        *cut = from.min(*cut);
        self.is_any.store(true, Ordering::Release);
    }

    /// Returns the truncation offset of a retiring page. The caller has the page locked or pinned.
    pub(crate) fn cut_of(&self, index: u64) -> Option<usize> {
        if self.is_any() { lock(&self.pages).get(&index).copied() } else { None }
    }

    pub(crate) fn remove(&self, index: u64) {
        let mut pages = lock(&self.pages);
        pages.remove(&index);
        self.is_any.store(!pages.is_empty(), Ordering::Release);
    }

    pub(crate) fn note_zeroed(&self, index: u64) {
        if let Some(cut) = lock(&self.pages).get_mut(&index) {
            *cut = PAGE_BYTES;
        }
    }

    pub(crate) fn collect(&self, range: RangeInclusive<u64>) -> Vec<u64> {
        lock(&self.pages).range(range).map(|(index, _)| *index).collect()
    }
}

//! A leaf of a page table, for scans: aging and hint scans.
//!
//! A walk clears the leaf's mark before YOUNG of its words. If a word becomes young meanwhile, the
//! leaf is marked again, and the next walk sees the word.

use std::fmt;
use std::ops::Range;

use pagetide_core::ids::PageIndex;

use super::{LEAF_WORDS, Leaf, PageRef, PageTable};
use crate::sync::Ordering;

/// A borrowed leaf of a table.
#[derive(Clone, Copy)]
pub struct LeafRef<'a> {
    pub(super) table: &'a PageTable,
    pub(super) leaf: &'a Leaf,
    pub(super) first: u64,
}

impl<'a> LeafRef<'a> {
    /// Returns the range of the leaf's pages.
    pub fn pages(self) -> Range<PageIndex> {
        PageIndex(self.first)..PageIndex(self.first + LEAF_WORDS as u64)
    }

    /// Clears the touched mark. Call before reading the words, so that a later young word marks the
    /// leaf again.
    pub fn take_touched(self) {
        self.leaf.touched.swap(false, Ordering::SeqCst);
    }

    /// Marks the leaf as touched, because young words remain.
    pub fn mark_touched(self) {
        self.leaf.touched.store(true, Ordering::SeqCst);
    }

    /// Iterates over the leaf's pages.
    #[inline]
    pub(crate) fn each_page(self) -> impl Iterator<Item = PageRef<'a>> {
        let LeafRef { table, leaf, first } = self;
        let last = first + LEAF_WORDS as u64;
        (first..last).map(move |index| PageRef { table, leaf, index: PageIndex(index) })
    }
}

impl fmt::Debug for LeafRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LeafRef({:?})", self.pages())
    }
}

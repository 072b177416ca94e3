//! A leaf of a page table, for looks at many words: aging, hint scans.
//!
//! A walk that takes YOUNG away from words takes the leaf's mark away first: a word that becomes
//! young meanwhile has its leaf marked again, and is seen the next time.

use std::fmt;
use std::ops::Range;

use pagetide_core::ids::PageIndex;

use super::{LEAF_WORDS, Leaf, PageRef, PageTable};
use crate::sync::Ordering;

/// A leaf of a table, borrowed.
#[derive(Clone, Copy)]
pub struct LeafRef<'a> {
    pub(super) table: &'a PageTable,
    pub(super) leaf: &'a Leaf,
    pub(super) first: u64,
}

impl<'a> LeafRef<'a> {
    /// The pages whose words it holds.
    pub fn pages(self) -> Range<PageIndex> {
        PageIndex(self.first)..PageIndex(self.first + LEAF_WORDS as u64)
    }

    /// Takes the leaf's touched mark away, before its words are read: a thread that makes a
    /// word young later marks the leaf again.
    pub fn take_touched(self) {
        self.leaf.touched.swap(false, Ordering::SeqCst);
    }

    /// Marks the leaf as touched: its young words were not all taken.
    pub fn mark_touched(self) {
        self.leaf.touched.store(true, Ordering::SeqCst);
    }

    /// The pages whose words it holds, one by one.
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

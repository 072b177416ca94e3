//! A leaf of a page table, for those who look at many words: aging, hint scans.
//!
//! Who takes YOUNG away from words takes the leaf's mark away first: a word that becomes young
//! meanwhile has its leaf marked again, and is seen the next time.

use std::fmt;
use std::ops::Range;

use pagetide_core::ids::{FrameId, PageIndex};

use super::{LEAF_WORDS, Leaf, PageRef, PageTable, UnmapBatch};
use crate::sync::Ordering;

/// A leaf of a table, borrowed: for those who look at many words.
#[derive(Clone, Copy)]
pub struct LeafRef<'a> {
    pub(super) table: &'a PageTable,
    pub(super) leaf: &'a Leaf,
    pub(super) first: u64,
}

impl LeafRef<'_> {
    /// The pages whose words it holds.
    pub fn pages(self) -> Range<PageIndex> {
        PageIndex(self.first)..PageIndex(self.first + LEAF_WORDS as u64)
    }

    /// Takes the leaf's touched mark away, before its words are read: whoever makes a word young
    /// later marks the leaf again.
    pub fn take_touched(self) {
        self.leaf.touched.swap(false, Ordering::SeqCst);
    }

    /// Marks the leaf as touched: its young words were not all taken.
    pub fn mark_touched(self) {
        self.leaf.touched.store(true, Ordering::SeqCst);
    }

    /// Calls `each` with every resident page of `range`, in order: page, frame, and whether YOUNG
    /// was taken away from it, as happens to young pages in frames that `takes` names.
    pub fn for_each_resident(
        self,
        range: Range<PageIndex>,
        mut takes: impl FnMut(FrameId) -> bool,
        mut each: impl FnMut(PageIndex, FrameId, bool),
    ) {
        let mut unmapped = UnmapBatch::new();
        for (word, index) in self.leaf.words.iter().zip(self.first..) {
            let index = PageIndex(index);
            let seen = word.load();
            let Some(frame) = seen.frame().filter(|_| range.contains(&index)) else { continue };
            let taken = match seen.is_young() && takes(frame) {
                true if self.table.region.is_none() => word.take_young(),
                true => unmapped.take_young(PageRef { table: self.table, leaf: self.leaf, index }),
                false => None,
            };
            each(index, taken.unwrap_or(frame), taken.is_some());
        }
    }
}

impl fmt::Debug for LeafRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LeafRef({:?})", self.pages())
    }
}

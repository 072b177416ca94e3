//! The page tables of a trace: leaf tables over neighbouring pages.
//!
//! A list of ranks in page order, cut at leaf tables, finds neighbours. The first table access
//! makes the list, as most traces have none.
//!
//! ```text
//!   ranks    [ 4 0 9 | 2 | 7 1 3 5 ]     in order of pages
//!   leaves     0..3    3..4  4..8        each with its touched mark
//! ```
//!
//! As in the page cache, a young page marks its leaf, and a walk clears the mark.

use crate::trace::DenseTrace;
use pagetide_core::ids::{MappingId, PageId, PageIndex};
use pagetide_core::lru::page_table::LeafId;
use std::ops::Range;

#[derive(Clone, Debug)]
pub(super) struct Leaf {
    pub(super) id: LeafId,
    pub(super) span: Range<usize>,
    pub(super) is_touched: bool,
}

/// All leaf tables of a trace, empty until needed.
#[derive(Debug, Default)]
pub(super) struct Tables {
    pub(super) leaves: Vec<Leaf>,
    pub(super) ranks: Vec<u32>,
}

impl Tables {
    /// Marks the leaf of a young page.
    ///
    /// # Cost
    /// The first call sorts the trace's pages. Later calls search the leaves.
    pub(super) fn touch(&mut self, trace: &DenseTrace, rank: u32) {
        if self.leaves.is_empty() {
            *self = Tables::of(trace);
        }
        let at = self
            .position_of(LeafId::of(trace.page(rank)))
            .expect("every page of the trace has a leaf");
        self.leaves[at].is_touched = true;
    }

    /// Returns a leaf and its pages, in order, or `None` before any page was young.
    pub(super) fn leaf_and_ranks(&mut self, id: LeafId) -> Option<(&mut Leaf, &[u32])> {
        let at = self.position_of(id)?;
        let leaf = &mut self.leaves[at];
        let ranks = &self.ranks[leaf.span.clone()];
        Some((leaf, ranks))
    }

    /// Returns the pages of a range of a mapping, in order.
    ///
    /// # Cost
    /// As [`Tables::touch`].
    pub(super) fn ranks_of(
        &mut self,
        trace: &DenseTrace,
        mapping: MappingId,
        pages: &Range<u64>,
    ) -> &[u32] {
        if self.leaves.is_empty() {
            *self = Tables::of(trace);
        }
        let from = |index| PageId { mapping, index: PageIndex(index) };
        let nr_before = |page| self.ranks.partition_point(|rank| trace.page(*rank) < page);
        &self.ranks[nr_before(from(pages.start))..nr_before(from(pages.end))]
    }

    fn position_of(&self, id: LeafId) -> Option<usize> {
        self.leaves.binary_search_by_key(&id, |leaf| leaf.id).ok()
    }

    fn of(trace: &DenseTrace) -> Tables {
        let mut ranks: Vec<u32> = (0..trace.nr_pages() as u32).collect();
        ranks.sort_unstable_by_key(|rank| trace.page(*rank));
        let mut leaves: Vec<Leaf> = Vec::new();
        for (at, rank) in ranks.iter().enumerate() {
            let id = LeafId::of(trace.page(*rank));
            match leaves.last_mut().filter(|leaf| leaf.id == id) {
                Some(leaf) => leaf.span.end = at + 1,
                None => leaves.push(Leaf { id, span: at..at + 1, is_touched: false }),
            }
        }
        Tables { leaves, ranks }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_found_whatever_order_they_came_in() {
        let trace = DenseTrace::from_reads([700, 3, 511, 512, 0]);
        let mut tables = Tables::default();
        assert!(tables.leaf_and_ranks(LeafId::of(trace.page(0))).is_none());
        tables.touch(&trace, 3);
        let spans: Vec<_> = tables.leaves.iter().map(|leaf| leaf.span.clone()).collect();
        assert_eq!((spans, &tables.ranks[..]), (vec![0..3, 3..5], &[4, 1, 2, 3, 0][..]));
        let beside =
            tables.leaf_and_ranks(LeafId::of(trace.page(4))).map(|(_, ranks)| ranks.to_vec());
        assert_eq!(beside, Some(vec![4, 1, 2]));
        let touched: Vec<_> = tables.leaves.iter().map(|leaf| leaf.is_touched).collect();
        assert_eq!(touched, [false, true]);
        let mut ranks = |pages| tables.ranks_of(&trace, MappingId(0), &pages).to_vec();
        assert_eq!((ranks(0..4), ranks(4..512)), (vec![4, 1], vec![2]));
        assert_eq!((ranks(512..u64::MAX), ranks(701..900)), (vec![3, 0], vec![]));
    }
}

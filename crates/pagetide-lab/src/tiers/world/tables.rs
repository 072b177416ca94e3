//! The program's page table: which leaf tables were touched, and what their words say.
//!
//! ```text
//!   leaf 0 [ 512 words ]   leaf 1 [ 512 words ]   ...      touched since the last walk, each?
//! ```
//!
//! Problem: aging reads page tables, and a walk of all of them finds little. Idea: as the real
//! world does, mark a leaf when a page of it becomes young. A walk for one node passes over the
//! other's pages and leaves their young bits alone. Source: the multi-gen LRU specification,
//! sections 8 and 9.

use super::World;
use pagetide_core::ids::{FrameId, MappingId, NodeId, PageIndex};
use pagetide_core::lru::page_table::{LEAF_PAGES, LeafId, LeafLook};
use std::ops::Range;

/// Which leaf tables were touched since they were walked.
#[derive(Debug)]
pub(super) struct Tables {
    touched: Vec<bool>,
}

impl Tables {
    pub(super) fn new(nr_pages: u32) -> Tables {
        Tables { touched: vec![false; u64::from(nr_pages).div_ceil(LEAF_PAGES) as usize] }
    }

    pub(super) fn touch(&mut self, page: u32) {
        self.touched[page as usize / LEAF_PAGES as usize] = true;
    }

    /// The leaves touched since their marks were taken, in order.
    pub(super) fn touched(&self) -> impl Iterator<Item = LeafId> {
        let touched = (0..).zip(&self.touched).filter(|(_, is_touched)| **is_touched);
        touched.map(|(number, _)| LeafId { mapping: MappingId(0), number })
    }

    pub(super) fn take_touched(&mut self, leaf: LeafId) {
        self.touched[leaf.number as usize] = false;
    }
}

impl World {
    /// Tells `look` what the words of the node's pages say, and takes the young bits of those
    /// frames that `takes` names.
    pub(super) fn read_words(
        &mut self,
        node: NodeId,
        pages: Range<u64>,
        takes: impl Fn(&World, FrameId) -> bool,
        look: &mut LeafLook<'_>,
    ) {
        let end = pages.end.min(self.access_loop.nr_pages().into());
        for index in pages.start..end {
            let page = index as u32;
            let word = self.access_loop.word(page);
            if !word.is_resident() || word.node().id() != node {
                continue;
            }
            if word.is_young() && takes(self, word.frame()) {
                self.access_loop.take_young(page);
                look.young(PageIndex(index), word.frame());
            } else {
                look.resident(PageIndex(index));
            }
        }
    }
}

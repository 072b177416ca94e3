//! The program's page table: touched leaf tables, and their entries.
//!
//! ```text
//!   leaf 0 [ 512 words ]   leaf 1 [ 512 words ]   ...      each with its touched mark
//! ```
//!
//! Problem: a full page-table walk finds little. Idea: as in the page cache, a young page marks its
//! leaf. A walk for one node skips the second node's pages and young bits. Source:
//! `Documentation/mm/multigen_lru.rst`, "Bloom filters".

use super::World;
use pagetide_core::ids::{FrameId, MappingId, NodeId, PageIndex};
use pagetide_core::lru::page_table::{LEAF_PAGES, LeafId, LeafLook};
use std::ops::Range;

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

    pub(super) fn touched(&self) -> impl Iterator<Item = LeafId> {
        let touched = (0..).zip(&self.touched).filter(|(_, is_touched)| **is_touched);
        touched.map(|(number, _)| LeafId { mapping: MappingId(0), number })
    }

    pub(super) fn take_touched(&mut self, leaf: LeafId) {
        self.touched[leaf.number as usize] = false;
    }
}

impl World {
    /// Reports the node's pages to `look`, and takes the young bits that `takes` selects.
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

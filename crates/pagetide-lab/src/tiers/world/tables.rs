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
use crate::tiers::access_loop::Node;
use pagetide_core::ids::{FrameId, MappingId, PageIndex};
use pagetide_core::lru::page_table::{LEAF_PAGES, LeafId, LeafLook, pages_around, wants_around};
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
}

impl World {
    /// Reads the touched tables that the fast node's lruvec wants.
    pub(super) fn walk_tables(&mut self) {
        let lruvec = Node::Fast as usize;
        let mut walk = self.lruvecs[lruvec].start_walk();
        for number in 0..self.tables.touched.len() {
            let leaf = LeafId { mapping: MappingId(0), number: number as u64 };
            if self.tables.touched[number] && walk.wants(leaf) {
                self.tables.touched[number] = false;
                let look = walk.found().look_at(leaf);
                self.read_words(leaf.pages(), |_, _| true, look).done();
            }
            if walk.is_full() {
                self.lruvecs[lruvec].report_walk(&mut walk);
            }
        }
        self.lruvecs[lruvec].report_walk(&mut walk);
    }

    /// Tells `look` of the pages beside one that was found young.
    pub(super) fn look_around(&mut self, index: PageIndex, mut look: LeafLook<'_>) {
        look.young_victim(index);
        let takes = |world: &World, frame| wants_around(world.folios[frame].flags());
        self.read_words(pages_around(index), takes, look).done();
    }

    /// Tells `look` what the words of the fast node's pages say, and takes the young bits of those
    /// frames that `takes` names.
    fn read_words<'l>(
        &mut self,
        pages: Range<u64>,
        takes: impl Fn(&World, FrameId) -> bool,
        mut look: LeafLook<'l>,
    ) -> LeafLook<'l> {
        let end = pages.end.min(self.access_loop.nr_pages().into());
        for index in pages.start..end {
            let page = index as u32;
            let word = self.access_loop.word(page);
            if !word.is_resident() || word.node() == Node::Slow {
                continue;
            }
            if word.is_young() && takes(self, word.frame()) {
                self.access_loop.take_young(page);
                look.young(PageIndex(index), word.frame());
            } else {
                look.resident(PageIndex(index));
            }
        }
        look
    }
}

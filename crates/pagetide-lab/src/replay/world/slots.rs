//! The slots of pages in their files' trees, for a memory whose limit pays for the nodes.
//!
//! Problem: nodes live while anything is in them, and pages come and go in several places. Idea:
//! each change of a page's word is noted here first.
//!
//! Ignored: anonymous pages, which are in no file's tree.

use super::{Backing, Word, World};
use crate::replay::memory::{Frames, Slot};
use pagetide_core::ids::PageId;

impl<Evicted: FnMut(PageId)> World<'_, Evicted> {
    /// What there is of the page in its file's tree, where anonymous pages have nothing.
    pub(super) fn slot_of(&self, rank: u32) -> Slot {
        let page = &self.pages[rank as usize];
        match page.word() {
            _ if page.backing() != Backing::File => Slot::Empty,
            Word::Absent => Slot::Empty,
            Word::Shadow(_) => Slot::Shadow,
            Word::Resident(_) => Slot::Page,
        }
    }

    /// The page's word is about to say something else.
    #[inline]
    pub(super) fn change_slot(&mut self, rank: u32, after: Slot) {
        let has_trees = matches!(self.nodes[0].frames, Frames::KernelGroup(_));
        if has_trees && self.pages[rank as usize].backing() == Backing::File {
            let before = self.slot_of(rank);
            self.nodes[0].frames.change_slot(rank, before, after);
        }
    }
}

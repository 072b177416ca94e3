//! Slots of pages in the file trees, for a memory that pays for nodes.
//!
//! Problem: pages come and go in several places, and nodes live while occupied. Idea: each change
//! of a page word is recorded here first.
//!
//! Ignored: anonymous pages, which are in no file's tree.

use super::{Backing, Word, World};
use crate::replay::memory::{Frames, Slot};

impl World<'_> {
    /// Returns the content of the page's slot, empty for anonymous pages.
    pub(super) fn slot_of(&self, rank: u32) -> Slot {
        let page = &self.pages[rank as usize];
        match page.word() {
            _ if page.backing() != Backing::File => Slot::Empty,
            Word::Absent => Slot::Empty,
            Word::Shadow(_) => Slot::Shadow,
            Word::Resident(_) => Slot::Page,
        }
    }

    /// Records a coming change of the page's word.
    #[inline]
    pub(super) fn change_slot(&mut self, rank: u32, after: Slot) {
        let has_trees = matches!(self.nodes[0].frames, Frames::KernelGroup(_));
        if has_trees && self.pages[rank as usize].backing() == Backing::File {
            let before = self.slot_of(rank);
            self.nodes[0].frames.change_slot(rank, before, after);
        }
    }
}

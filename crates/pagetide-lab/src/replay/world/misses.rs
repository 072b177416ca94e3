//! Plain misses: the reads that bring in one page of a file, as most misses do.
//!
//! Problem: what a miss can have to do with groups, tiers, swap, guards and locks is asked at each
//! of its steps, and in most replays the answer is always "nothing". Idea: ask it once for a world,
//! and the rest once for a page; then take the steps that are left.
//!
//! ```text
//!   frame (reclaim, where there is none) --> bind --> what its shadow says --> word --> access log
//! ```
//!
//! A world is plain if it is a group's limit over pages of files: nothing there stands in reclaim's
//! way but what is dirty, and what leaves is evicted. A miss of it is plain if it is a read, and
//! the page is not the one read last through the one handle. Everything else is left to
//! `apply_any`, which comes to the same where both can do it.

use super::{AccessKind, Memory, Page, Setup, Word, World};
use pagetide_core::folio::Flags;
use pagetide_core::ids::{PageId, PageType};
use pagetide_core::lru;

/// Whether a world is plain.
pub(super) fn is_plain(setup: &Setup) -> bool {
    matches!(setup.memory, Memory::Group { .. }) && setup.swap_pages.is_none()
}

impl<Evicted: FnMut(PageId)> World<'_, Evicted> {
    /// Plays an entry if it is a plain miss, and says whether it was.
    #[inline]
    pub(super) fn play_miss(&mut self, rank: u32, kind: AccessKind) -> bool {
        let is_plain = self.is_plain
            && kind == AccessKind::Read
            && self.accesses < self.look_at
            && rank != self.last_read
            && self.pages[rank as usize].is_plainly_absent();
        if is_plain {
            self.miss(rank);
        }
        is_plain
    }

    fn miss(&mut self, rank: u32) {
        self.accesses += 1;
        self.misses += 1;
        if self.has_one_handle {
            self.last_read = rank;
        }
        // Read first, so that it arrives while a frame is made free.
        let page = self.trace.page(rank);
        let shadow = self.shadow_of(rank);
        let Some(frame) = self.alloc_in_limit(shadow) else {
            self.bypasses += 1;
            return;
        };
        self.folios[frame].bind(page, PageType::File, Flags::NONE);
        let node = &mut self.nodes[0];
        if let Some(shadow) = shadow {
            node.lists.refault(&mut node.log, frame, shadow, lru::AccessPath::Descriptor);
        }
        self.pages[rank as usize] = Page::of_file(Word::Resident(frame));
        self.rank_in[frame.0 as usize] = rank;
        node.log_add(&self.folios, frame);
        if self.rule.marks_fills() {
            self.mark_fill(frame);
        }
    }
}

//! Plain misses: the fast path for reads that fill one file page.
//!
//! Problem: each step of a miss checks groups, tiers, swap, guards and locks, mostly in vain. Idea:
//! check once per world and once per page.
//!
//! ```text
//!   frame (reclaim if there is none) --> bind --> refault by its shadow --> word --> access log
//! ```
//!
//! A world is plain if it is a group's limit over file pages: only dirty pages resist reclaim. A
//! plain miss is a read of a page other than the last one read through one open file. `apply_any`
//! gives the same result for any entry.

use super::{AccessKind, Memory, Page, Setup, Word, World};
use pagetide_core::folio::Flags;
use pagetide_core::ids::{PageId, PageType};
use pagetide_core::lru;

pub(super) fn is_plain(setup: &Setup) -> bool {
    matches!(setup.memory, Memory::Group { .. }) && setup.swap_pages.is_none()
}

impl<Evicted: FnMut(PageId)> World<'_, Evicted> {
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
        // Read early, to overlap the load with the search for a frame.
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

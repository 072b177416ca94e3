//! Filling: absent pages become resident, one by one or in groups.
//!
//! ```text
//!   frame --> bind --> refault by its shadow --> word --> access log
//!   group     the same for each page of it, and all stay locked until its end
//! ```
//!
//! Pages that a call fills before accessing them are *awaited*: their miss counts at the fill.

use super::{Backing, Mark, Word, World};
use crate::replay::memory::Slot;
use pagetide_core::ids::{FrameId, PageType};
use pagetide_core::lru;

impl World<'_> {
    pub(super) fn read_ahead(&mut self, rank: u32) {
        let filled = self.fill_unasked(rank, lru::AccessPath::Readahead);
        self.join_group(rank, filled);
    }

    /// Evicts nothing, so no pass meets the page's lock.
    pub(super) fn read_around(&mut self, rank: u32) {
        let _ = self.fill_unasked(rank, lru::AccessPath::Around);
    }

    /// Skips the page if no frame comes free.
    fn fill_unasked(&mut self, rank: u32, kind: lru::AccessPath) -> Option<FrameId> {
        if self.frame_of(rank).is_some() {
            return None;
        }
        let filled = self.fill(rank, kind);
        if filled.is_some() {
            self.pages[rank as usize].set(Mark::Ahead);
            self.pages_ahead += 1;
        }
        filled
    }

    /// Fills a page of a call that will access it, and counts the miss. Without a frame, the access
    /// counts.
    pub(super) fn fill_ahead(&mut self, rank: u32) {
        if self.frame_of(rank).is_none() {
            let filled = self.fill(rank, lru::AccessPath::Run);
            if filled.is_some() {
                self.misses += 1;
                self.pages[rank as usize].set(Mark::Awaited);
            }
            self.join_group(rank, filled);
        }
    }

    fn join_group(&mut self, rank: u32, filled: Option<FrameId>) {
        if filled.is_some() && self.memory.locks_fills() {
            self.pages[rank as usize].set(Mark::Filling);
            self.filling.push(rank);
        }
    }

    pub(super) fn end_group(&mut self) {
        for rank in self.filling.drain(..) {
            self.pages[rank as usize].take(Mark::Filling);
        }
    }

    pub(super) fn fill(&mut self, rank: u32, kind: lru::AccessPath) -> Option<FrameId> {
        let payer = self.charge(rank)?;
        let found = match kind {
            lru::AccessPath::Around => self.take_free(rank),
            _ => self.alloc(rank),
        };
        let Some(frame) = found else {
            self.refund(payer);
            return None;
        };
        // Making room may have dropped the shadow.
        let shadow = self.shadow_of(rank);
        let flags = self.rule.flags_on_fill(kind);
        let page_type = match self.leave_swap(rank) {
            Backing::File => PageType::File,
            Backing::Nothing | Backing::Swap => PageType::Anon,
        };
        self.folios[frame].bind(self.trace.page(rank), page_type, flags);
        self.folios[frame].set_group(payer);
        if let Some(shadow) = shadow {
            // Pages leave memory from the slowest node, so its lists judge the refault.
            let judge = self.last_mut();
            judge.lists.refault(&mut judge.log, frame, shadow, kind);
        }
        self.change_slot(rank, Slot::Page);
        self.pages[rank as usize].set_word(Word::Resident(frame));
        self.rank_in[frame.0 as usize] = rank;
        let nth = self.nth_of(frame);
        self.nodes[nth].log_add(&self.folios, frame);
        Some(frame)
    }
}

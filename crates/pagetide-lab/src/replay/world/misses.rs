//! Plain misses: the fast path for reads that fill one file page.
//!
//! Problem: each step of a miss checks groups, tiers, swap, guards and locks, mostly in vain, and
//! dispatches to the policy. Idea: check and dispatch once for a run of misses.
//!
//! ```text
//!   frame (reclaim if there is none) --> bind --> refault by its shadow --> word --> access log
//! ```
//!
//! A world is plain if it is a group's limit over clean file pages that no table has accessed:
//! reclaim can evict every page. A plain miss is a read of a page other than the last one read
//! through one open file. `apply_any` gives the same result for any entry.

use super::clock::{self, Counted, VirtualClock};
use super::node::Node;
use super::{AccessKind, Memory, Page, Setup, Word, World};
use crate::replay::memory::Frames;
use pagetide_core::folio::{Flags, Folios};
use pagetide_core::ids::{FrameId, PageId, PageType};
use pagetide_core::lru::{
    AccessLog, AccessPath, LruPolicy, Marked, PolicyLists, PolicyVisitor, ReclaimBatch, Room,
    ShadowEntry,
};
use std::hint::black_box;
use std::ops::BitXor;

/// Entries to fetch at once.
const NR_FETCHED: usize = 16;

pub(super) fn is_plain(setup: &Setup) -> bool {
    let keeps_nothing = setup.swap_pages.is_none() && setup.flush_every.is_none();
    matches!(setup.memory, Memory::Group { .. }) && keeps_nothing
}

impl World<'_> {
    /// Plays the plain misses at the start of the entries. Returns their number.
    #[inline]
    pub(super) fn play_misses(&mut self, ranks: &[u32], kinds: &[AccessKind]) -> usize {
        let is_absent = |rank: &u32| self.pages[*rank as usize].is_plainly_absent();
        let starts_plainly = self.is_plain && ranks.first().is_some_and(is_absent);
        if starts_plainly { self.play_plain_misses(ranks, kinds) } else { 0 }
    }

    fn play_plain_misses(&mut self, ranks: &[u32], kinds: &[AccessKind]) -> usize {
        let Node { frames: Frames::Group(free), lists, log, .. } = &mut self.nodes[0] else {
            return 0;
        };
        let misses = Misses {
            entries: (ranks, kinds),
            ids: self.trace.pages(),
            folios: &self.folios,
            pages: &mut self.pages,
            rank_in: &mut self.rank_in,
            free,
            log,
            batch: self.batch.get_or_insert_default(),
            evicted: &mut *self.evicted,
            clock: &self.clock,
            counted: Counted { accesses: self.accesses, misses: self.misses },
            look_at: self.look_at,
            last_read: self.last_read,
            has_one_handle: self.has_one_handle,
        };
        let (nr_played, nr_bypassed) = lists.whole_mut().visit(misses);
        self.accesses += nr_played as u64;
        self.misses += nr_played as u64;
        self.bypasses += nr_bypassed;
        if self.has_one_handle && nr_played > 0 {
            self.last_read = ranks[nr_played - 1];
        }
        nr_played
    }
}

/// A run of misses, with the parts of the world beside the lists.
struct Misses<'w> {
    entries: (&'w [u32], &'w [AccessKind]),
    ids: &'w [PageId],
    folios: &'w Folios,
    pages: &'w mut [Page],
    rank_in: &'w mut [u32],
    free: &'w mut Vec<FrameId>,
    log: &'w mut AccessLog,
    batch: &'w mut ReclaimBatch,
    evicted: &'w mut dyn FnMut(PageId),
    clock: &'w VirtualClock,
    counted: Counted,
    look_at: u64,
    last_read: u32,
    has_one_handle: bool,
}

impl PolicyVisitor for Misses<'_> {
    /// The numbers of misses and of bypasses.
    type Output = (usize, u64);

    fn visit<P: LruPolicy>(mut self, mut lists: PolicyLists<'_, P>) -> (usize, u64) {
        let (ranks, kinds) = self.entries;
        let (mut nr_played, mut nr_bypassed) = (0, 0);
        for (&rank, &kind) in ranks.iter().zip(kinds) {
            let page = self.pages[rank as usize];
            let is_plain = kind == AccessKind::Read
                && self.counted.accesses < self.look_at
                && rank != self.last_read
                && page.is_plainly_absent();
            if !is_plain {
                break;
            }
            if nr_played % NR_FETCHED == 0 {
                self.fetch(&ranks[nr_played..]);
            }
            nr_played += 1;
            self.counted.accesses += 1;
            self.counted.misses += 1;
            if self.has_one_handle {
                self.last_read = rank;
            }
            let shadow = match page.word() {
                Word::Shadow(shadow) => Some(shadow),
                Word::Absent | Word::Resident(_) => None,
            };
            match self.alloc(&mut lists, shadow) {
                Some(frame) => self.fill(&mut lists, frame, rank, shadow),
                None => nr_bypassed += 1,
            }
        }
        (nr_played, nr_bypassed)
    }
}

impl Misses<'_> {
    /// Loads the words and the pages of the next entries, so that their cache misses overlap.
    #[inline]
    fn fetch(&self, ranks: &[u32]) {
        let loaded = ranks.iter().take(NR_FETCHED).map(|rank| {
            let rank = *rank as usize;
            self.pages[rank].bits() ^ self.ids[rank].index.0
        });
        black_box(loaded.fold(0, BitXor::bitxor));
    }

    /// Takes a free frame, after reclaim if there is none.
    #[inline]
    fn alloc<P: LruPolicy>(
        &mut self,
        lists: &mut PolicyLists<'_, P>,
        incoming: Option<ShadowEntry>,
    ) -> Option<FrameId> {
        if self.free.is_empty() {
            lists.tell_time(clock::millis(self.clock.now_ns(self.counted)));
            lists.drain(self.log);
            lists.evict(incoming, self.batch, |page, frame, shadow| {
                let rank = self.rank_in[frame.0 as usize];
                self.pages[rank as usize].set_word(shadow.map_or(Word::Absent, Word::Shadow));
                self.free.push(frame);
                (self.evicted)(page);
            });
        }
        self.free.pop()
    }

    #[inline]
    fn fill<P: LruPolicy>(
        &mut self,
        lists: &mut PolicyLists<'_, P>,
        frame: FrameId,
        rank: u32,
        shadow: Option<ShadowEntry>,
    ) {
        self.folios[frame].bind(self.ids[rank as usize], PageType::File, Flags::NONE);
        if let Some(shadow) = shadow {
            lists.refault(self.log, frame, shadow, AccessPath::Descriptor);
        }
        self.pages[rank as usize] = Page::of_file(Word::Resident(frame));
        self.rank_in[frame.0 as usize] = rank;
        if self.log.add(self.folios, frame) == Room::Full {
            lists.drain(self.log);
        }
        if P::ACCESS.mark_fill(self.folios, frame) == Marked::Log
            && self.log.touch(frame) == Room::Full
        {
            lists.drain(self.log);
        }
    }
}

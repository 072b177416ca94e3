//! The virtual machine: page words, frames and a free list, and the loop around core.
//!
//! Each step mirrors one of the real world's, in the same order:
//!
//! ```text
//!   hit       mark the folio; log a touch if the mark says so; a table access sets the young bit
//!   miss      free frame, or reclaim -> bind -> refault -> log the addition -> mark
//!   reclaim   drain the log; publish, try, publish, ... until the pass is done
//! ```

use super::Outcome;
use crate::trace::{AccessKind, DenseTrace};
use pagetide_core::folio::Folios;
use pagetide_core::ids::{FrameId, PageId, PageType};
use pagetide_core::lru::{
    self, AccessLog, AccessRule, Discarded, LruConfig, Lruvec, Marked, PolicyName, Refusal, Room,
    ShadowEntry,
};
use pagetide_core::reclaim::{ReclaimBatch, ReclaimPass, Settled, Step, Verdict};
use pagetide_core::vmstat::Counter;
use std::sync::Arc;

/// What a page word says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Word {
    Absent,
    Shadow(ShadowEntry),
    Resident(FrameId),
}

/// One lruvec over a memory of so many frames, and the pages of one trace.
pub struct World<'a, Evicted> {
    trace: &'a DenseTrace,
    evicted: Evicted,
    folios: Arc<Folios>,
    lruvec: Lruvec,
    rule: AccessRule,
    log: AccessLog,
    batch: ReclaimBatch,
    /// By rank.
    words: Vec<Word>,
    /// By rank: accessed through the table since the last look.
    young: Vec<bool>,
    /// By frame: the rank of the page in it, if it is not free.
    rank_in: Vec<u32>,
    free: Vec<FrameId>,
    accesses: u64,
    misses: u64,
    bypasses: u64,
}

impl<'a, Evicted: FnMut(PageId)> World<'a, Evicted> {
    /// An empty memory of `frames` frames; `evicted` hears of each eviction in order.
    ///
    /// # Panics
    /// When `frames` is 0.
    pub fn new(name: PolicyName, trace: &'a DenseTrace, frames: u32, evicted: Evicted) -> Self {
        assert!(frames > 0, "a memory of no frames holds nothing to replay");
        let folios = Arc::new(Folios::new(frames));
        let lruvec = Lruvec::new(name, &LruConfig::file_only(frames), folios.clone());
        World {
            trace,
            evicted,
            folios,
            rule: lruvec.access_rule(),
            lruvec,
            log: AccessLog::new(),
            batch: ReclaimBatch::new(),
            words: vec![Word::Absent; trace.nr_pages()],
            young: vec![false; trace.nr_pages()],
            rank_in: vec![0; frames as usize],
            free: (0..frames).rev().map(FrameId).collect(),
            accesses: 0,
            misses: 0,
            bypasses: 0,
        }
    }

    /// Applies one entry of the trace.
    ///
    /// # Panics
    /// When `rank` is not of this world's trace.
    pub fn apply(&mut self, rank: u32, kind: AccessKind) {
        match kind {
            AccessKind::Discard => self.discard(rank),
            AccessKind::Readahead => self.read_ahead(rank),
            AccessKind::Fill => self.fill_ahead(rank),
            _ => self.access(rank, kind),
        }
    }

    /// What was counted so far.
    pub fn outcome(&self) -> Outcome {
        let vmstat = *self.lruvec.vmstat();
        let evictions = vmstat.read(Counter::PgstealAnon) + vmstat.read(Counter::PgstealFile);
        let World { accesses, misses, bypasses, .. } = *self;
        Outcome { accesses, misses, bypasses, evictions, vmstat }
    }

    /// Pages resident now, never more than frames.
    pub fn nr_resident(&self) -> u32 {
        self.folios.nr_frames() - self.free.len() as u32
    }

    /// Walks everything and panics where an invariant is broken. O(pages + frames).
    pub fn validate(&self) {
        self.lruvec.validate();
        let mut nr_resident = 0;
        for (rank, word) in (0..).zip(&self.words) {
            if let Word::Resident(frame) = *word {
                nr_resident += 1;
                assert_eq!(self.rank_in[frame.0 as usize], rank, "{frame} holds another page");
                assert_eq!(self.folios[frame].page(), self.trace.page(rank), "{frame}'s folio");
            }
        }
        assert_eq!(nr_resident, self.nr_resident(), "resident pages and used frames");
    }

    fn access(&mut self, rank: u32, kind: AccessKind) {
        self.accesses += 1;
        let is_table = matches!(kind, AccessKind::Table | AccessKind::TableWrite);
        let counts = !is_table && kind != AccessKind::ReadAgain;
        if let Word::Resident(frame) = self.words[rank as usize] {
            if counts {
                self.mark(frame);
            }
        } else {
            self.misses += 1;
            let reached =
                if is_table { lru::AccessKind::Table } else { lru::AccessKind::Descriptor };
            match self.fill(rank, reached) {
                Some(frame) if counts => self.mark_fill(frame),
                Some(_) => {}
                None => {
                    self.bypasses += 1;
                    return;
                }
            }
        }
        self.young[rank as usize] |= is_table;
    }

    fn read_ahead(&mut self, rank: u32) {
        if !matches!(self.words[rank as usize], Word::Resident(_)) {
            // Without a frame there is no readahead, and nobody waits for it.
            let _ = self.fill(rank, lru::AccessKind::Readahead);
        }
    }

    /// A page of a call that will access it: this is its miss.
    fn fill_ahead(&mut self, rank: u32) {
        if !matches!(self.words[rank as usize], Word::Resident(_)) {
            self.misses += 1;
            let filled = self.fill(rank, lru::AccessKind::Descriptor);
            self.bypasses += u64::from(filled.is_none());
        }
    }

    fn discard(&mut self, rank: u32) {
        let word = std::mem::replace(&mut self.words[rank as usize], Word::Absent);
        self.young[rank as usize] = false;
        if let Word::Resident(frame) = word {
            match self.lruvec.discard(frame) {
                Discarded::Freed => self.free.push(frame),
                Discarded::Deferred => unreachable!("no pass is under way between two entries"),
            }
        }
    }

    fn mark(&mut self, frame: FrameId) {
        self.log_touch(self.rule.mark(&self.folios[frame]), frame);
    }

    fn mark_fill(&mut self, frame: FrameId) {
        self.log_touch(self.rule.mark_fill(&self.folios[frame]), frame);
    }

    fn log_touch(&mut self, marked: Marked, frame: FrameId) {
        if marked == Marked::Log && self.log.touch(frame) == Room::Full {
            self.lruvec.drain(&mut self.log);
        }
    }

    /// Makes the page resident, or returns `None` when no frame came free.
    fn fill(&mut self, rank: u32, kind: lru::AccessKind) -> Option<FrameId> {
        if self.free.is_empty() {
            self.reclaim();
        }
        let frame = self.free.pop()?;
        let flags = self.rule.flags_on_fill(kind);
        self.folios[frame].bind(self.trace.page(rank), PageType::File, flags);
        if let Word::Shadow(shadow) = self.words[rank as usize] {
            self.lruvec.refault(&mut self.log, frame, shadow, kind);
        }
        self.words[rank as usize] = Word::Resident(frame);
        self.rank_in[frame.0 as usize] = rank;
        if self.log.add(&self.folios, frame) == Room::Full {
            self.lruvec.drain(&mut self.log);
        }
        Some(frame)
    }

    /// One direct pass.
    fn reclaim(&mut self) {
        self.lruvec.drain(&mut self.log);
        let mut pass = ReclaimPass::direct(&self.lruvec);
        loop {
            let step = self.lruvec.reclaim(&mut pass, &mut self.batch);
            self.publish();
            match step {
                Step::TryEvict => self.try_victims(),
                Step::Look => self.look_at_victims(),
                Step::WalkTables => self.walk_tables(),
                Step::Done => return,
            }
        }
    }

    fn publish(&mut self) {
        for settled in &self.batch.settled {
            let Settled::Evicted { page, frame, shadow } = *settled else {
                unreachable!("nothing is discarded during a pass, so nothing is orphaned")
            };
            let rank = self.rank_in[frame.0 as usize];
            self.words[rank as usize] = shadow.map_or(Word::Absent, Word::Shadow);
            self.free.push(frame);
            (self.evicted)(page);
        }
    }

    fn try_victims(&mut self) {
        for victim in self.batch.victims_mut() {
            let rank = self.rank_in[victim.frame.0 as usize];
            let was_young = std::mem::take(&mut self.young[rank as usize]);
            victim.verdict =
                if was_young { Verdict::Refused(Refusal::Young) } else { Verdict::Claimed };
        }
    }

    /// Reads and clears the victims' young bits; they stay.
    fn look_at_victims(&mut self) {
        for victim in self.batch.victims_mut() {
            let rank = self.rank_in[victim.frame.0 as usize];
            if std::mem::take(&mut self.young[rank as usize]) {
                victim.verdict = Verdict::Refused(Refusal::Young);
            }
        }
    }

    /// Reports and clears every young bit, in the order of pages, as a walk of real tables does.
    fn walk_tables(&mut self) {
        let mut found = Vec::new();
        for (rank, young) in self.young.iter_mut().enumerate() {
            if let (true, Word::Resident(frame)) = (*young, self.words[rank]) {
                *young = false;
                found.push(frame);
            }
        }
        found.sort_by_key(|frame| self.folios[*frame].page());
        self.lruvec.walked(&found);
    }
}

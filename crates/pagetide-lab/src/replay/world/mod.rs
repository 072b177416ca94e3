//! The virtual machine: page words and frames, and the effect of each trace entry.
//!
//! Each step mirrors a step of the `pagetide` crate, in the same order:
//!
//! ```text
//!   hit       mark the folio; log a touch if the mark says so; a table access sets the young bit
//!   miss      allocate a frame -> bind -> refault -> log the addition -> mark
//!   group     the same for each page of it, and all stay locked until its end
//! ```
//!
//! `tiering.rs` handles several nodes.
//!
//! Guards, locks and dirty times apply only in the recorded run's [`Memory`]. Time stands still
//! there, as records have no times.

use super::clock::{self, Counted, VirtualClock};
use super::memory::{Memory, Slot};
use super::{Reader, ReplayClock, ReplayOutcome, Setup, StatisticsFold};
use crate::background::Background;
use crate::trace::{AccessKind, DenseTrace};
use pagetide_core::folio::{Flags, Folios};
use pagetide_core::ids::{FrameId, PageId, PageType};
use pagetide_core::lru::{
    AccessPath, AccessRule, LruConfig, Lruvec, Marked, ReclaimBatch, ShadowEntry, Statistics,
};
use pagetide_core::vmstat::{Counter, VmStat};
use std::sync::Arc;

mod filling;
mod groups;
mod hits;
mod misses;
mod node;
mod play;
mod reclaim;
mod slots;
mod tables;
#[cfg(test)]
mod tests;
mod tiering;
mod time;
mod word;

pub use tiering::TierCounts;

use groups::Payers;
use node::Node;
use tables::Tables;
use tiering::Tiering;
use word::{Backing, Mark, Page, Word};

/// A memory with its lists, and the pages of one trace.
pub struct World<'a> {
    trace: &'a DenseTrace,
    /// Dynamic, so that the policies are compiled once and not for each observer.
    evicted: Box<dyn FnMut(PageId) + 'a>,
    folios: Arc<Folios>,
    /// Nodes, fastest first. Usually one.
    nodes: Vec<Node>,
    /// First frame of slow memory. `nr_frames_max` with one node.
    slow_from: u32,
    tiering: Option<Box<Tiering>>,
    payers: Payers,
    rule: AccessRule,
    /// Victims of a synchronous pass. `None` during the pass.
    batch: Option<Box<ReclaimBatch>>,
    last_claimed: u32,
    memory: Memory,
    pages: Vec<Page>,
    /// Guards of each page, by rank, if the recorded run had any.
    nr_pins: Vec<u32>,
    tables: Tables,
    rank_in: Vec<u32>,
    filling: Vec<u32>,
    background: Background,
    clock: VirtualClock,
    follows_trace: bool,
    /// Reclaim can evict every page: see `misses.rs`.
    is_plain: bool,
    /// One open file for all reads. `last_read` is the rank of the page in which the last read
    /// ended.
    has_one_handle: bool,
    last_read: u32,
    /// Access count at which to read the clock.
    look_at: u64,
    /// Written pages (ranks in `dirty`) stay dirty until the flusher runs.
    has_flusher: bool,
    dirty: Vec<u32>,
    swap_left: u64,
    accesses: u64,
    misses: u64,
    bypasses: u64,
    out_of_memory: u64,
    pages_ahead: u64,
}

impl<'a> World<'a> {
    /// Returns an empty memory. `evicted` gets each eviction in order.
    pub fn new(setup: Setup, trace: &'a DenseTrace, evicted: impl FnMut(PageId) + 'a) -> Self {
        let memory = setup.memory;
        let nr_frames_max = memory.nr_frames_max();
        assert!(nr_frames_max > 0, "a memory of no frames holds nothing to replay");
        let folios = Arc::new(Folios::for_one_thread(nr_frames_max));
        let nodes = Node::all(&setup, lru_config(&setup), &folios, trace);
        let tiering = Tiering::of(&memory).map(Box::new);
        let clock = VirtualClock::new(setup.costs, setup.statistics, setup.flush_every);
        let rule = nodes[0].lists.root().access_rule();
        let nr_fast = memory.nodes()[0];
        World {
            trace,
            evicted: Box::new(evicted),
            folios,
            rule,
            slow_from: if tiering.is_some() { nr_fast } else { nr_frames_max },
            nodes,
            tiering,
            payers: Payers::new(),
            batch: None,
            last_claimed: 0,
            memory,
            pages: pages_of(trace, setup.swap_pages.is_some()),
            nr_pins: vec![0; if memory.repeats_the_run() { trace.nr_pages() } else { 0 }],
            tables: Tables::default(),
            rank_in: vec![0; nr_frames_max as usize],
            filling: Vec::new(),
            background: Background::new(setup.costs.scan_ns),
            clock,
            follows_trace: setup.clock == ReplayClock::Trace && !memory.repeats_the_run(),
            is_plain: misses::is_plain(&setup),
            has_one_handle: setup.reader == Reader::OneHandle && skips_repeats(rule),
            last_read: u32::MAX,
            look_at: if memory.repeats_the_run() { u64::MAX } else { 0 },
            has_flusher: setup.flush_every.is_some(),
            dirty: Vec::new(),
            swap_left: setup.swap_pages.unwrap_or(0),
            accesses: 0,
            misses: 0,
            bypasses: 0,
            out_of_memory: 0,
            pages_ahead: 0,
        }
    }

    /// Applies one entry of the trace.
    pub fn apply(&mut self, rank: u32, kind: AccessKind) {
        self.play_entries(&[rank], &[kind]);
    }

    fn apply_any(&mut self, rank: u32, kind: AccessKind) {
        match kind {
            AccessKind::Discard => self.discard(rank),
            AccessKind::Readahead => self.read_ahead(rank),
            AccessKind::Around => self.read_around(rank),
            AccessKind::Fill => self.fill_ahead(rank),
            AccessKind::Filled => self.end_group(),
            AccessKind::Dirty => self.make_dirty(rank),
            AccessKind::Clean => self.make_clean(rank),
            AccessKind::Unpin => self.unpin(rank),
            AccessKind::Evict | AccessKind::Demote | AccessKind::Promote => {}
            AccessKind::Read
            | AccessKind::ReadAgain
            | AccessKind::Write
            | AccessKind::Table
            | AccessKind::TableWrite
            | AccessKind::Bypass => self.access(rank, kind),
        }
    }

    /// Returns the counts so far.
    pub fn outcome(&self) -> ReplayOutcome {
        let mut vmstat = VmStat::default();
        self.nodes.iter().for_each(|node| vmstat.merge(&node.lists.vmstat()));
        if let Some(tiering) = &self.tiering {
            vmstat.merge(tiering.vmstat());
        }
        let sum =
            |counters: &[Counter]| -> u64 { counters.iter().map(|it| vmstat.read(*it)).sum() };
        let demoted = sum(&DEMOTED);
        let evictions = sum(&[Counter::PgstealAnon, Counter::PgstealFile]) - demoted;
        let World { accesses, misses, bypasses, out_of_memory, pages_ahead, .. } = *self;
        let tiers = self.tier_counts(demoted);
        ReplayOutcome {
            accesses,
            misses,
            bypasses,
            out_of_memory,
            evictions,
            pages_ahead,
            vmstat,
            tiers,
        }
    }

    /// Returns the root lruvec of the fastest node.
    pub fn lruvec(&self) -> &Lruvec {
        self.nodes[0].lists.root()
    }

    /// Returns the number of resident pages.
    pub fn nr_resident(&self) -> u32 {
        self.nodes.iter().map(Node::nr_used).sum()
    }

    /// Returns true if the page is resident.
    pub fn is_resident(&self, rank: u32) -> bool {
        self.frame_of(rank).is_some()
    }

    /// Describes the list position of a resident page. The text marks events still in the access
    /// log.
    pub fn describe_folio(&self, rank: u32) -> Option<String> {
        let frame = self.frame_of(rank)?;
        let mut said = String::new();
        if self.folios[frame].flags().any(Flags::ON_LIST) {
            let lists = &self.nodes[self.nth_of(frame)].lists;
            let lruvec = lists.lruvec_of(self.folios[frame].group());
            lruvec.write_state(frame, &mut said).expect("a string has room");
        } else {
            said.push_str("just in, not listed yet");
        }
        Some(said)
    }

    /// Describes the page's shadow entry. Empty without one.
    pub fn past(&self, rank: u32) -> String {
        let mut said = String::new();
        if let Some(shadow) = self.shadow_of(rank) {
            self.last().lists.root().write_shadow(shadow, &mut said).expect("a string has room");
        }
        said
    }

    /// Panics on a broken invariant. O(pages + frames).
    pub fn validate(&self) {
        for node in &self.nodes {
            node.lists.validate();
            node.frames.validate(|rank| self.slot_of(rank));
        }
        let mut nr_resident = 0;
        for (rank, page) in (0..).zip(&self.pages) {
            if let Word::Resident(frame) = page.word() {
                nr_resident += 1;
                assert_eq!(self.rank_in[frame.0 as usize], rank, "{frame} holds another page");
                assert_eq!(self.folios[frame].page(), self.trace.page(rank), "{frame}'s folio");
            }
        }
        nr_resident += self.background.nr_forgotten();
        assert_eq!(nr_resident, self.nr_resident(), "resident pages and used frames");
    }

    fn access(&mut self, rank: u32, kind: AccessKind) {
        if self.accesses >= self.look_at {
            self.look_at_the_clock();
        }
        self.accesses += 1;
        let is_anonymous = self.pages[rank as usize].backing() != Backing::File;
        let is_table = matches!(kind, AccessKind::Table | AccessKind::TableWrite) || is_anonymous;
        let repeats =
            kind == AccessKind::ReadAgain || (kind == AccessKind::Read && rank == self.last_read);
        let counts = !is_table && !repeats;
        if self.has_one_handle {
            self.last_read = rank;
        }
        let mut is_young = false;
        if let Some(frame) = self.frame_of(rank) {
            let is_fill = self.pages[rank as usize].take(Mark::Awaited);
            match (counts, is_fill) {
                (true, true) => self.mark_fill(frame),
                (true, false) => self.mark(frame),
                (false, _) => {}
            }
            // A guard is taken first. Otherwise the page is locked until the end of the access.
            is_young = kind == AccessKind::Table;
            if is_young {
                self.make_young(rank);
            }
            if !is_fill {
                self.note_hit(rank, frame, kind.is_write());
            }
            // The reclaim of this access may have evicted the page.
            let Some(frame) = self.frame_of(rank) else { return };
            if !kind.is_write() && self.pages[rank as usize].take(Mark::Ahead) {
                self.folios[frame].clear(Flags::PREFETCHED);
            }
        } else {
            self.misses += 1;
            let reached = if is_table { AccessPath::Table } else { AccessPath::Descriptor };
            // A bypassing read comes after its failed attempt.
            let filled = if kind == AccessKind::Bypass { None } else { self.fill(rank, reached) };
            match filled {
                Some(frame) if counts => self.mark_fill(frame),
                Some(_) => {}
                None => {
                    self.bypasses += u64::from(!is_anonymous);
                    self.out_of_memory += u64::from(is_anonymous);
                    return;
                }
            }
        }
        if self.has_flusher && kind.is_write() && !is_anonymous {
            self.write(rank);
        }
        if is_table {
            if !is_young {
                self.make_young(rank);
            }
            if let Some(nr_pins) = self.nr_pins.get_mut(rank as usize) {
                *nr_pins += 1;
                if kind == AccessKind::TableWrite {
                    self.pages[rank as usize].set(Mark::Held);
                }
            }
        }
    }

    fn make_young(&mut self, rank: u32) {
        self.is_plain = false;
        if !self.pages[rank as usize].set(Mark::Young) {
            self.tables.touch(self.trace, rank);
        }
    }

    fn make_dirty(&mut self, rank: u32) {
        if let (true, Some(frame)) = (self.memory.repeats_the_run(), self.frame_of(rank)) {
            self.folios[frame].set(Flags::DIRTY);
        }
    }

    /// Ends a write-back. A folio that reclaim met meanwhile rotates to be evicted soon.
    fn make_clean(&mut self, rank: u32) {
        let Some(frame) = self.frame_of(rank) else { return };
        let before = self.folios[frame].clear(Flags::DIRTY.with(Flags::RECLAIM));
        if before.any(Flags::RECLAIM) {
            self.node_of(frame).log_rotation(frame);
        }
    }

    fn unpin(&mut self, rank: u32) {
        if let Some(nr_pins) = self.nr_pins.get_mut(rank as usize) {
            *nr_pins = nr_pins.saturating_sub(1);
            self.pages[rank as usize].take(Mark::Held);
        }
    }

    fn discard(&mut self, rank: u32) {
        if let Some(frame) = self.frame_of(rank) {
            let is_victim = self.background.forget(frame);
            let node = self.node_of(frame);
            node.lists.discard(frame);
            if !is_victim {
                node.frames.free(frame);
            }
        }
        self.change_slot(rank, Slot::Empty);
        // Discarded before the waiting call reached the page. The call misses again.
        self.misses -= u64::from(self.pages[rank as usize].has(Mark::Awaited));
        self.leave_swap(rank);
        self.pages[rank as usize].set_word(Word::Absent);
        if let Some(nr_pins) = self.nr_pins.get_mut(rank as usize) {
            *nr_pins = 0;
        }
    }

    fn leave_swap(&mut self, rank: u32) -> Backing {
        let page = &mut self.pages[rank as usize];
        if page.backing() == Backing::Swap {
            page.set_backing(Backing::Nothing);
            self.swap_left += 1;
        }
        page.backing()
    }

    fn frame_of(&self, rank: u32) -> Option<FrameId> {
        match self.pages[rank as usize].word() {
            Word::Resident(frame) => Some(frame),
            Word::Absent | Word::Shadow(_) => None,
        }
    }

    fn shadow_of(&self, rank: u32) -> Option<ShadowEntry> {
        match self.pages[rank as usize].word() {
            Word::Shadow(shadow) => Some(shadow),
            Word::Absent | Word::Resident(_) => None,
        }
    }

    fn mark(&mut self, frame: FrameId) {
        let marked = self.rule.mark(&self.folios, frame);
        self.node_of(frame).log_touch(marked, frame);
    }

    fn mark_fill(&mut self, frame: FrameId) {
        let marked = self.rule.mark_fill(&self.folios, frame);
        if marked == Marked::Log {
            self.node_of(frame).log_touch(marked, frame);
        }
    }

    fn last(&self) -> &Node {
        self.nodes.last().expect("a memory has a node")
    }

    fn last_mut(&mut self) -> &mut Node {
        self.nodes.last_mut().expect("a memory has a node")
    }
}

const DEMOTED: [Counter; 3] =
    [Counter::PgdemoteBackground, Counter::PgdemoteDirect, Counter::PgdemoteProactive];

fn lru_config(setup: &Setup) -> LruConfig {
    LruConfig {
        switches: setup.switches,
        swappiness: setup.swappiness,
        min_ttl: setup.min_ttl,
        can_swap: setup.swap_pages.is_some_and(|pages| pages > 0),
        statistics: match setup.statistics {
            StatisticsFold::Live => Statistics::Live,
            StatisticsFold::Every { .. } | StatisticsFold::EveryReads { .. } => Statistics::Folded,
        },
        ..LruConfig::file_only(setup.memory.nr_frames_max())
    }
}

/// Returns true if a repeated read through one open file is no reference under this rule.
const fn skips_repeats(rule: AccessRule) -> bool {
    matches!(rule, AccessRule::CountReferences | AccessRule::TwoTouches)
}

fn pages_of(trace: &DenseTrace, has_anonymous: bool) -> Vec<Page> {
    let mut pages = vec![Page::default(); trace.nr_pages()];
    if has_anonymous {
        for (rank, page) in (0..).zip(&mut pages) {
            if trace.page_type(trace.page(rank)) == PageType::Anon {
                page.set_backing(Backing::Nothing);
            }
        }
    }
    pages
}

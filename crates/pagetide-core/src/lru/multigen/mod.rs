//! The multi-gen LRU, as of Linux 6.18.
//!
//! # Problem
//!
//! Exact LRU needs a list operation at every access, and believes in every page once: one long scan
//! throws everything out. Two lists (active, inactive) fix both only halfway. Recency has two
//! values, and moving pages between the lists means looking at pages that have nothing to say.
//!
//! # Idea
//!
//! Let recency have a few values that age by themselves, and let frequency be judged by results.
//!
//! *Generations.* Pages used at about the same time share a generation, numbered by a counter that
//! only grows. Aging starts a new one: an increment makes every page one generation older. Eviction
//! uses up the oldest one. Between them lies a window of 2 to 4 generations:
//!
//! ```text
//!      eviction                                     aging
//!         |                                           |
//!         v                                           v
//!   +-----------+-----------+-----------+-----------+
//!   |  min_seq  |           |           |  max_seq  |  -> max_seq + 1
//!   +-----------+-----------+-----------+-----------+
//!     ^ cold reads  ^ working    ^ faults   ^ faults that
//!                     set reads               refaulted
//! ```
//!
//! *Tiers.* Inside a generation, pages differ by how often they were read: tier 0 once, tier 1
//! twice, then up to four times, then more. A read only bumps a count in the folio's flags.
//!
//! *Feedback.* Which tiers are worth keeping is measured: a tier whose pages come back clearly more
//! often than those of tier 0 is moved on to the next generation instead of being evicted.
//!
//! *Laziness.* Promotion writes a field; the list follows when eviction gets there. So the cost of
//! aging is proportional to the hot pages, and the cost of eviction to the cold ones.
//!
//! # Data and invariants
//!
//! ```text
//!   window.rs       which sequence numbers are in use
//!   generations.rs  lists and sizes; a folio's generation and the list it is linked on may differ
//!   insertion.rs    which generation a folio enters
//!   tiers.rs        accesses, from flags
//!   controller.rs   which type to evict, which tiers to protect
//!   refault.rs      what an evicted page leaves, and what its return means
//!   aging.rs        when to start a generation (before it, the world walks its page tables)
//!   eviction.rs     sorting and taking the oldest
//! ```
//!
//! Each rule is a function of plain values; this file ties them to the face of policies. Every
//! window has 2 to 4 generations; sizes follow the GEN field; list folios have ACTIVE clear.
//!
//! # What to expect
//!
//! With four generations and cold reads coming in, new folios join the generation under eviction,
//! so it never empties and aging never runs: this is a FIFO with an admission test into a resident
//! set, which stays as it is until the cold traffic ends. That is the mechanism as it is measured
//! on the kernel, not a defect of this one.
//!
//! A direct pass may end without a victim, having sorted and aged only, where nearly everything was
//! accessed often: callers try again, as the kernel's do (up to 16 times).
//!
//! Cost: a folio that eviction looks at is one cache line, found through the one before it; on top
//! of that miss come some 20 ns. Nothing is allocated after construction.
//!
//! # Ignored
//!
//! Large folios, several zones, minimum ages, neighbours of young pages, the Bloom filters that
//! shorten table walks, and fairness between memory groups.
//!
//! An unevictable folio waits on a list of its own; whoever makes it evictable logs a touch or a
//! rotation of it, which brings it back.
//!
//! Source: Linux `Documentation/mm/multigen_lru.rst`; the multi-gen LRU specification, profile B.

mod aging;
mod controller;
mod eviction;
mod generations;
mod insertion;
mod refault;
mod summary;
mod swappiness;
#[cfg(test)]
mod tests;
mod tiers;
mod window;

pub use controller::TierCounts;
pub use summary::{GenerationSummary, MultigenSummary};
pub use tiers::{NR_TIERS, RefTier};
pub use window::MAX_NR_GENS;

use super::{
    AccessKind, AccessRule, Context, LruConfig, LruPolicy, LruvecId, Progress, PutBack, Refusal,
    ShadowEntry, Switches,
};
use crate::folio::{Flags, Folio, Folios};
use crate::ids::FrameId;
use crate::reclaim::{ReclaimKind, Scan, Victims};
use crate::vmstat::Counter;
use aging::Plan;
use controller::Controller;
use generations::{Generations, is_parked};
use insertion::{Entry, entered_seq};
use refault::{Returned, shadow_of};
use swappiness::Swappiness;
use tiers::{Observed, References, observe_young};
use window::MIN_NR_GENS;

/// LINK of an isolated folio that is on its second trial.
const RETRIED_LINK: u32 = 15;
/// Not written to the store yet.
const UNWRITTEN: Flags = Flags::DIRTY.with(Flags::WRITEBACK);

/// The multi-gen LRU. See the module.
#[derive(Debug)]
pub struct Mglru {
    id: LruvecId,
    swappiness: Swappiness,
    switches: Switches,
    generations: Generations,
    controller: Controller,
}

/// What a pass remembers at one priority.
#[derive(Debug, Default)]
pub struct MglruCursor {
    /// Progress so far, in folios; compared with what the priority allows.
    progress: u64,
    /// The table walk was asked for while this was the youngest generation.
    walked_at: Option<u64>,
    /// Nothing more at this priority.
    is_over: bool,
}

impl LruPolicy for Mglru {
    type Cursor = MglruCursor;

    fn new(config: &LruConfig) -> Mglru {
        Mglru {
            id: config.id,
            swappiness: Swappiness::new(config),
            switches: config.switches,
            generations: Generations::new(),
            controller: Controller::default(),
        }
    }

    fn access_rule(&self) -> AccessRule {
        AccessRule::CountReferences
    }

    /// A background pass with a large target starts where that many folios can be found.
    fn initial_priority(&self, scan: &Scan) -> u8 {
        match scan.kind {
            ReclaimKind::Direct => crate::reclaim::DEF_PRIORITY,
            ReclaimKind::Background => {
                let inactive = self.generations.nr_evictable(self.swappiness, MIN_NR_GENS);
                aging::initial_priority(inactive, scan.target)
            }
        }
    }

    fn add(&mut self, cx: &mut Context<'_>, frame: FrameId) {
        self.generations.add(cx.folios, frame, Entry::Added);
    }

    /// Accesses live in the flags; only a folio that became evictable again is put back.
    fn touch(&mut self, cx: &mut Context<'_>, frame: FrameId) {
        let flags = cx.flags(frame);
        if is_parked(flags) && !flags.any(Flags::UNEVICTABLE) {
            self.generations.unlink(cx.folios, frame, |flags| flags);
            self.generations.add(cx.folios, frame, Entry::Added);
        }
    }

    fn rotate(&mut self, cx: &mut Context<'_>, frame: FrameId) {
        self.generations.unlink(cx.folios, frame, |flags| flags);
        self.generations.add(cx.folios, frame, Entry::Rotated);
    }

    fn remove(&mut self, cx: &mut Context<'_>, frame: FrameId) {
        self.generations.unlink(cx.folios, frame, |flags| flags);
    }

    fn refault(
        &mut self,
        cx: &mut Context<'_>,
        frame: FrameId,
        shadow: ShadowEntry,
        kind: AccessKind,
    ) {
        if shadow.lruvec() != self.id {
            return;
        }
        let page_type = cx.flags(frame).page_type();
        let mut count = |anon, file| cx.count_by_type(page_type, anon, file, 1);
        count(Counter::WorkingsetRefaultAnon, Counter::WorkingsetRefaultFile);
        let max_seq = self.generations.window.max_seq;
        let Some(returned) = Returned::recently(shadow, max_seq) else { return };
        self.controller.tier_mut(page_type, returned.tier()).refaulted += 1;
        if kind == AccessKind::Table {
            count(Counter::WorkingsetActivateAnon, Counter::WorkingsetActivateFile);
        }
        let References { count: refs, workingset } = returned.references;
        if workingset {
            count(Counter::WorkingsetRestoreAnon, Counter::WorkingsetRestoreFile);
            cx.folios[frame].set(Flags::WORKINGSET);
        } else {
            cx.folios[frame].update(|flags| Some(flags.with_refs(refs - 1)));
        }
    }

    fn young(&mut self, cx: &mut Context<'_>, frame: FrameId) {
        if is_parked(cx.flags(frame)) || observe_young(&cx.folios[frame]) == Observed::First {
            return;
        }
        if self.generations.promote(cx.folios, frame) {
            cx.vmstat.count(Counter::LruGenWalkPromoted);
        }
    }

    fn isolate(
        &mut self,
        cx: &mut Context<'_>,
        scan: &mut Scan,
        cursor: &mut MglruCursor,
        victims: &mut Victims,
    ) -> Progress {
        if scan.kind == ReclaimKind::Background && scan.is_satisfied() {
            return Progress::Exhausted;
        }
        while !cursor.is_over {
            let budget = match self.plan(scan.priority) {
                Plan::Age => return self.age(cx, cursor),
                Plan::Scan(budget) => budget,
            };
            if budget == 0 {
                break;
            }
            let progress = self.evict(cx, scan, victims, budget);
            cursor.progress += progress;
            cursor.is_over = progress == 0 || cursor.progress >= budget;
            if !victims.is_empty() {
                return Progress::Isolated;
            }
        }
        Progress::Exhausted
    }

    /// The shadow names the oldest generation of now: the batch may have used up that of then.
    fn evicted(
        &mut self,
        cx: &mut Context<'_>,
        _scan: &mut Scan,
        _cursor: &mut MglruCursor,
        frame: FrameId,
    ) -> Option<ShadowEntry> {
        let flags = cx.flags(frame);
        let page_type = flags.page_type();
        let references = References::of(flags);
        self.controller.tier_mut(page_type, references.tier()).evicted += 1;
        Some(shadow_of(self.generations.window.oldest(page_type), references, self.id))
    }

    fn put_back(
        &mut self,
        cx: &mut Context<'_>,
        _scan: &mut Scan,
        _cursor: &mut MglruCursor,
        frame: FrameId,
        refusal: Refusal,
    ) -> PutBack {
        let folio = &cx.folios[frame];
        note_refusal(folio, refusal);
        let flags = folio.flags();
        if deserves_retry(flags, refusal) && flags.link() != RETRIED_LINK {
            folio.update(|flags| Some(flags.with_link(RETRIED_LINK)));
            return PutBack::Retry;
        }
        let window = &self.generations.window;
        if entered_seq(window, flags, Entry::Added) == window.oldest(flags.page_type()) {
            folio.update(|flags| {
                Some(flags.without(Flags::REFERENCED).with_refs(0).with(Flags::ACTIVE))
            });
        }
        self.generations.add(cx.folios, frame, Entry::Added);
        PutBack::Listed
    }

    /// A direct pass may spend itself on sorting, aging and skipping empty generations. The
    /// kernel's caller would come back at once and find all that done; this is the same, unless all
    /// that was found waits for the flusher.
    fn end_pass(&mut self, _cx: &mut Context<'_>, scan: &Scan, _cursor: &mut MglruCursor) -> bool {
        let waits_for_flusher = scan.scanned > 0 && scan.scanned <= scan.dirty;
        scan.kind == ReclaimKind::Direct
            && scan.reclaimed == 0
            && !waits_for_flusher
            && self.generations.nr_evictable(self.swappiness, 0) > 0
    }

    fn nr_folios(&self) -> u64 {
        self.generations.nr_folios()
    }

    fn validate(&self, folios: &Folios) {
        self.generations.validate(folios, self.swappiness);
    }
}

impl Mglru {
    /// Asks for a table walk, then starts a generation, unless another pass did so meanwhile.
    fn age(&mut self, cx: &mut Context<'_>, cursor: &mut MglruCursor) -> Progress {
        let max_seq = self.generations.window.max_seq;
        let Some(walked_at) = cursor.walked_at else {
            cursor.walked_at = Some(max_seq);
            return Progress::WalkTables;
        };
        cursor.is_over = true;
        if walked_at == max_seq {
            self.start_generation(cx);
        }
        Progress::Exhausted
    }
}

/// Records on a refused victim why it was refused.
fn note_refusal(folio: &Folio, refusal: Refusal) {
    match refusal {
        Refusal::Busy => {}
        Refusal::Dirty => {
            // Written meanwhile: no write-back is left to end, so none would rotate it.
            folio.update(|flags| flags.any(UNWRITTEN).then(|| flags.with(Flags::RECLAIM)));
        }
        Refusal::Young => {
            if observe_young(folio) == Observed::Again {
                folio.set(Flags::ACTIVE);
            }
        }
    }
}

/// Whether what stood in the way may be gone already: nothing on the folio says why it was refused.
fn deserves_retry(flags: Flags, refusal: Refusal) -> bool {
    const REASONS: Flags = UNWRITTEN.with(Flags::ACTIVE).with(Flags::UNEVICTABLE);
    refusal != Refusal::Young && !flags.any(REASONS)
}

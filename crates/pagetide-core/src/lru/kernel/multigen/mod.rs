//! The multi-gen LRU of Linux 7.3, 6.18 and 6.1.
//!
//! **Problem.** Exact LRU needs a list operation at every access, and one long scan evicts the
//! whole working set. Two lists give recency only two values.
//!
//! **Idea.** Recency has a few values that age by themselves. Refaults decide how much frequency
//! counts.
//!
//! *Generations.* Pages used at about the same time share a generation. Aging starts a generation:
//! one increment makes every page one generation older. Eviction empties the oldest generation.
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
//! *Tiers.* Within a generation, tiers class pages by access count: tier 0 once, tier 1 twice, tier
//! 2 three or four times, tier 3 more often.
//!
//! *Feedback.* If the pages of a tier refault clearly more often than tier 0, eviction moves them
//! to the next generation.
//!
//! *Laziness.* Promotion writes a field, and eviction moves the folio later.
//!
//! **Data and invariants.**
//!
//! ```text
//!   window.rs       sequence numbers in use
//!   generations.rs  lists and sizes; a folio's generation and its list may differ
//!   tiers.rs        access-count classes
//!   controller.rs   counts of evictions and refaults, and the comparison of ratios
//!   refault.rs      shadow entries, and the outcome of a refault
//!   plan.rs         progress and next step of a pass
//!   aging.rs        starting a generation (the world walks its page tables first)
//!   walks.rs        leaf tables to walk, and the filter of dense leaves
//!   births.rs       start times of generations, and their minimum age
//!   request.rs      aging and eviction on request
//!   eviction.rs     sorting and evicting the oldest generation
//!   capability.rs   optional interfaces of the policy
//!   profile.rs      the rules that differ between kernels
//!   linux618/       rules of 6.18: insertion, access counts, aging, protection
//!   linux61/        rules of 6.1
//!   linux73/        rules of 7.3 that differ from 6.18
//! ```
//!
//! Every window has 2 to 4 generations, sizes follow the GEN field, and listed folios have ACTIVE
//! clear.
//!
//! **Limits.** In 6.18, with four generations and a stream of cold reads, new folios join the
//! generation under eviction, so aging never runs: the policy is a FIFO with an admission test and
//! a fixed resident set. The kernel measures the same.
//!
//! A direct pass may end without a victim if nearly all folios were accessed often. Callers try
//! again, as the kernel does (up to 16 times).
//!
//! Cost: eviction takes one cache miss and about 20 ns per folio. Nothing is allocated after
//! construction.
//!
//! **Ignored.** Large folios, several zones, and fairness between memory groups (see
//! [`group`](crate::group)).
//!
//! Unevictable folios wait on a separate list until a logged touch or rotation.
//!
//! Sources: `Documentation/mm/multigen_lru.rst`, and Linux 6.1, 6.18 and 7.3.

mod aging;
mod births;
mod capability;
mod controller;
mod eviction;
mod generations;
mod linux61;
mod linux618;
mod linux73;
mod plan;
mod profile;
mod refault;
mod request;
mod summary;
mod swappiness;
#[cfg(test)]
mod tests;
mod tiers;
mod walks;
mod window;

pub use controller::RefTierCounts;
pub use summary::{GenerationSummary, MultigenSummary};
pub use tiers::{NR_TIERS, RefTier};
pub use window::MAX_NR_GENS;

use crate::folio::{Flags, Folios};
use crate::ids::FrameId;
use crate::lru::{
    AccessPath, AccessRule, Context, LruConfig, LruPolicy, LruvecId, Mechanism, PassPlan, Progress,
    PutBack, ReclaimKind, Refusal, Scan, ShadowEntry, Switches, Victims,
};
use crate::units::Millis;
use aging::{Aging, Next};
use births::Births;
use controller::Controller;
use generations::{End, Generations, is_parked};
use linux61::Linux61;
use linux73::Linux73;
use linux618::Linux618;
use plan::PassProgress;
use profile::{Entry, Profile, UNWRITTEN};
use refault::{RefaultOutcome, Token, shadow_of};
use swappiness::Swappiness;
use walks::Walks;
use window::MIN_NR_GENS;

/// LINK of an isolated folio on its second trial.
const RETRIED_LINK: u32 = 15;

pub(crate) type Mglru = Multigen<Linux618>;
pub(crate) type Mglru61 = Multigen<Linux61>;
pub(crate) type Mglru73 = Multigen<Linux73>;

/// See the module.
#[derive(Debug)]
pub(crate) struct Multigen<P> {
    profile: P,
    id: LruvecId,
    swappiness: Swappiness,
    can_swap: bool,
    switches: Switches,
    generations: Generations,
    controller: Controller,
    walks: Walks,
    births: Births,
    min_ttl: Millis,
}

#[derive(Debug, Default)]
pub(crate) struct MultigenCursor {
    first_max_seq: Option<u64>,
    done: PassProgress,
    /// The aging that waits for the requested table walk.
    aging: Option<Aging>,
    is_over: bool,
}

impl<P: Profile> LruPolicy for Multigen<P> {
    type Cursor = MultigenCursor;

    const ACCESS: AccessRule = P::ACCESS_RULE;

    fn new(config: &LruConfig) -> Multigen<P> {
        Multigen {
            profile: P::new(config.switches),
            id: config.id,
            swappiness: Swappiness::new(config.can_swap, config.swappiness, P::SWAPPINESS_MAX),
            can_swap: config.can_swap,
            switches: config.switches,
            generations: Generations::new(),
            controller: Controller::default(),
            walks: Walks::new(),
            births: Births::default(),
            min_ttl: config.min_ttl,
        }
    }

    /// Starts a large target at a priority that finds enough folios.
    fn plan_pass(&self, kind: ReclaimKind, target: Option<u64>) -> PassPlan {
        let mut plan = PassPlan::by_priority(target);
        plan.looks_around = self.profile.walks_tables() && self.switches.has(Mechanism::LookAround);
        if kind == ReclaimKind::Background {
            let inactive = self.generations.nr_evictable(self.swappiness, MIN_NR_GENS);
            plan.priority = self.profile.initial_priority(inactive, plan.target);
        }
        plan
    }

    fn add(&mut self, cx: &mut Context<'_>, frame: FrameId) {
        let profile = self.profile;
        cx.folios[frame].update(|flags| profile.arrived(flags));
        self.enter(cx, frame, Entry::Added);
    }

    /// Lists a folio that became evictable again. Accesses are recorded in the flags only.
    fn touch(&mut self, cx: &mut Context<'_>, frame: FrameId) {
        let flags = cx.flags(frame);
        if is_parked(flags) && !flags.any(Flags::UNEVICTABLE) {
            self.generations.unlink(cx.folios, frame, |flags| flags);
            self.enter(cx, frame, Entry::Added);
        }
    }

    fn rotate(&mut self, cx: &mut Context<'_>, frame: FrameId) {
        self.generations.unlink(cx.folios, frame, |flags| flags);
        self.enter(cx, frame, Entry::Rotated);
    }

    fn remove(&mut self, cx: &mut Context<'_>, frame: FrameId) {
        self.generations.unlink(cx.folios, frame, |flags| flags);
    }

    fn refault(
        &mut self,
        cx: &mut Context<'_>,
        frame: FrameId,
        shadow: ShadowEntry,
        kind: AccessPath,
    ) {
        if shadow.lruvec() != self.id {
            return;
        }
        let page_type = cx.flags(frame).page_type();
        let window = &self.generations.window;
        let is_recent = self.profile.is_recent(Token::of(shadow), window, page_type);
        if is_recent || P::COUNTS_OLD_REFAULTS {
            cx.count_refault(page_type);
        }
        if !is_recent || !self.switches.has(Mechanism::RefaultMemory) {
            return;
        }
        let references = self.profile.remembered(shadow);
        self.controller.tier_mut(page_type, references.tier).refaulted += 1;
        let RefaultOutcome { flags, is_activated, is_restored } =
            self.profile.refaulted(references, kind);
        if is_activated {
            cx.count_activation(page_type);
        }
        if is_restored {
            cx.count_restore(page_type);
        }
        cx.folios[frame].set(flags);
    }

    fn isolate(
        &mut self,
        cx: &mut Context<'_>,
        scan: &mut Scan,
        cursor: &mut MultigenCursor,
        victims: &mut Victims,
    ) -> Progress {
        if let Some(command) = scan.command {
            return self.serve(cx, scan, cursor, victims, command);
        }
        if !self.is_old_enough(cx.now) && !scan.ignores_age {
            scan.too_young = true;
            return Progress::Exhausted;
        }
        while !cursor.is_over && !self.profile.is_over(&self.done(cursor), scan) {
            let budget = match self.next(cx, scan, cursor) {
                Next::WalkTables => return Progress::WalkTables,
                Next::Scan(0) => break,
                Next::Scan(budget) => budget,
            };
            cursor.done.budget.get_or_insert(budget);
            let progress = self.evict(cx, scan, &mut cursor.done, victims, budget);
            cursor.done.progress += progress;
            cursor.is_over = progress == 0 || cursor.done.progress >= budget;
            if !victims.is_empty() {
                return Progress::Isolated;
            }
        }
        Progress::Exhausted
    }

    /// Records the oldest generation now: the batch may have retired the one at isolation.
    fn evicted(
        &mut self,
        cx: &mut Context<'_>,
        _scan: &mut Scan,
        _cursor: &mut MultigenCursor,
        frame: FrameId,
    ) -> Option<ShadowEntry> {
        let flags = cx.flags(frame);
        let page_type = flags.page_type();
        let references = self.profile.references(flags);
        self.controller.tier_mut(page_type, references.tier).evicted += 1;
        Some(shadow_of(self.generations.window.oldest(page_type), references, self.id))
    }

    fn put_back(
        &mut self,
        cx: &mut Context<'_>,
        _scan: &mut Scan,
        _cursor: &mut MultigenCursor,
        frame: FrameId,
        refusal: Refusal,
    ) -> PutBack {
        let (profile, folio) = (self.profile, &cx.folios[frame]);
        if refusal == Refusal::Dirty {
            // If the write-back ended meanwhile, no end of write-back will rotate the folio.
            folio.update(|flags| flags.any(UNWRITTEN).then(|| flags.with(Flags::RECLAIM)));
        }
        let flags = folio.flags();
        let may_retry = profile.retries() && flags.link() != RETRIED_LINK;
        if may_retry && deserves_retry(flags, refusal) {
            folio.update(|flags| Some(flags.with_link(RETRIED_LINK)));
            return PutBack::Retry;
        }
        let window = &self.generations.window;
        folio.update(|flags| Some(profile.survivor(window, flags, refusal)));
        self.enter(cx, frame, Entry::Added);
        PutBack::Listed
    }

    /// Repeats a direct pass spent on sorting, aging and empty generations, as the kernel's caller
    /// does. No repeat if all scanned folios wait for the flusher.
    fn end_pass(
        &mut self,
        _cx: &mut Context<'_>,
        scan: &Scan,
        _cursor: &mut MultigenCursor,
    ) -> bool {
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

impl<P: Profile> Multigen<P> {
    fn enter(&mut self, cx: &Context<'_>, frame: FrameId, entry: Entry) {
        let window = &self.generations.window;
        let is_ordered = self.switches.has(Mechanism::Generations);
        let (seq, end) = match entry {
            Entry::Added if !is_ordered => (window.max_seq, End::Head),
            Entry::Added => (self.profile.entered_seq(window, cx.flags(frame), entry), End::Head),
            Entry::Rotated => (self.profile.entered_seq(window, cx.flags(frame), entry), End::Tail),
        };
        self.generations.add(cx.folios, frame, seq, end);
    }

    fn done(&self, cursor: &mut MultigenCursor) -> PassProgress {
        let max_seq = self.generations.window.max_seq;
        let nr_started = max_seq - *cursor.first_max_seq.get_or_insert(max_seq);
        PassProgress { nr_started, ..cursor.done }
    }
}

/// Returns true if no flag gives a reason for the refusal.
fn deserves_retry(flags: Flags, refusal: Refusal) -> bool {
    const REASONS: Flags = UNWRITTEN.with(Flags::ACTIVE).with(Flags::UNEVICTABLE);
    refusal != Refusal::Young && !flags.any(REASONS)
}

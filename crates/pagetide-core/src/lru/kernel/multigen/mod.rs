//! The multi-gen LRU, as of Linux 7.3, of 6.18 and of 6.1.
//!
//! **Problem.** Exact LRU needs a list operation at every access, and believes in every page once:
//! one long scan throws everything out. Two lists (active, inactive) fix both only halfway. Recency
//! has two values, and moving pages between the lists means looking at pages that have nothing to
//! say.
//!
//! **Idea.** Let recency have a few values that age by themselves, and let frequency be judged by
//! results.
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
//! **Data and invariants.**
//!
//! ```text
//!   window.rs       which sequence numbers are in use
//!   generations.rs  lists and sizes; a folio's generation and the list it is linked on may differ
//!   tiers.rs        accesses, in classes
//!   controller.rs   what evictions and refaults count, and how ratios compare
//!   refault.rs      what an evicted page leaves, and what its return brings it
//!   plan.rs         what a pass has done and found, and how it goes on
//!   aging.rs        starting a generation (before it, the world walks its page tables)
//!   walks.rs        which leaf tables a walk reads, and how those worth it are remembered
//!   births.rs       when generations were started, and how long they are kept at least
//!   request.rs      aging and eviction on request
//!   eviction.rs     sorting and taking the oldest
//!   capability.rs   what it offers beyond the base
//!   profile.rs      the questions that each kernel answers its own way
//!   linux618/       its answers in 6.18: insertion, access counts, when to age, what to protect
//!   linux61/        in 6.1
//!   linux73/        and in 7.3, where they are others than in 6.18
//! ```
//!
//! Each rule is a function of plain values; this file ties them to the face of policies. Every
//! window has 2 to 4 generations; sizes follow the GEN field; list folios have ACTIVE clear.
//!
//! **What to expect.** In 6.18, with four generations and cold reads coming in, new folios join the
//! generation under eviction, so it never empties and aging never runs: this is a FIFO with an
//! admission test into a resident set, which stays as it is until the cold traffic ends. That is
//! the mechanism as it is measured on the kernel, not a defect of this one. In 7.3 one read in 31
//! comes in as cold, the oldest generation runs dry, and aging is the normal state.
//!
//! A direct pass may end without a victim, having sorted and aged only, where nearly everything was
//! accessed often: callers try again, as the kernel's do (up to 16 times).
//!
//! Cost: a folio that eviction looks at is one cache line, found through the one before it; on top
//! of that miss come some 20 ns. Nothing is allocated after construction.
//!
//! **Ignored.** Large folios and several zones. Fairness between memory groups is for
//! [`group`](crate::group) to keep.
//!
//! An unevictable folio waits on a list of its own; what makes it evictable logs a touch or a
//! rotation of it, which brings it back.
//!
//! Source: Linux `Documentation/mm/multigen_lru.rst`; the multi-gen LRU specification.

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

/// LINK of an isolated folio that is on its second trial.
const RETRIED_LINK: u32 = 15;

/// The multi-gen LRU of Linux 6.18.
pub(crate) type Mglru = Multigen<Linux618>;
/// The multi-gen LRU of Linux 6.1.
pub(crate) type Mglru61 = Multigen<Linux61>;
/// The multi-gen LRU of Linux 7.3.
pub(crate) type Mglru73 = Multigen<Linux73>;

/// The multi-gen LRU, by the rules of one kernel. See the module.
#[derive(Debug)]
pub(crate) struct Multigen<P> {
    profile: P,
    id: LruvecId,
    swappiness: Swappiness,
    /// Whether anonymous folios have anywhere to go.
    can_swap: bool,
    switches: Switches,
    generations: Generations,
    controller: Controller,
    walks: Walks,
    births: Births,
    min_ttl: Millis,
}

/// What a pass remembers at one priority.
#[derive(Debug, Default)]
pub(crate) struct MultigenCursor {
    /// The youngest generation when the pass first looked.
    first_max_seq: Option<u64>,
    done: PassProgress,
    /// The table walk was asked for.
    aging: Option<Aging>,
    /// Nothing more at this priority.
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

    /// A background pass with a large target starts where that many folios can be found.
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

    /// Accesses live in the flags; only a folio that became evictable again is put back.
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

    /// The shadow names the oldest generation of now: the batch may have used up that of then.
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
            // Written meanwhile: no write-back is left to end, so none would rotate it.
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

    /// A direct pass may spend itself on sorting, aging and skipping empty generations. The
    /// kernel's caller would come back at once and find all that done; this is the same, unless all
    /// that was found waits for the flusher.
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
    /// Puts an unlinked folio where its flags say.
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

    /// What a pass has done at its priority, up to now.
    fn done(&self, cursor: &mut MultigenCursor) -> PassProgress {
        let max_seq = self.generations.window.max_seq;
        let nr_started = max_seq - *cursor.first_max_seq.get_or_insert(max_seq);
        PassProgress { nr_started, ..cursor.done }
    }
}

/// Whether what stood in the way may be gone already: nothing on the folio says why it was refused.
fn deserves_retry(flags: Flags, refusal: Refusal) -> bool {
    const REASONS: Flags = UNWRITTEN.with(Flags::ACTIVE).with(Flags::UNEVICTABLE);
    refusal != Refusal::Young && !flags.any(REASONS)
}

//! The rules of Linux 6.1.
//!
//! *Insertion.* Faulted folios enter the youngest generation. Other folios enter the oldest, or the
//! next one if they must be written first.
//!
//! ```text
//!   min_seq           min_seq + 1                        max_seq
//!   read, readahead   unwritten anon, awaiting flush     faulted; refused by eviction
//! ```
//!
//! *Accesses.* The first access only marks the folio. A table access promotes at once and clears
//! the count, because tiers count descriptor accesses only.
//!
//! ```text
//!   accesses     0   1   2   3   4   5 and more      flags in this order: REFERENCED,
//!   references   0   0   1   2   3   4               WORKINGSET, then REFS 1 to 3
//!   tier         0   0   1   2   2   3
//! ```
//!
//! *Aging.* With three generations, a new one starts if the youngest has too many folios or the
//! oldest too few. A direct pass keeps its budget after aging. The background thread ages before
//! each priority and never during reclaim.
//!
//! *Types.* Anon never has fewer generations than file. The older type is evicted first. At equal
//! age the controller compares tier 0 of both types, then the tiers of the evicted type with tier 0
//! of its rival.
//!
//! *Refaults.* Only the generation under eviction is remembered.
//!
//! [`Mechanism::MinimalPatch`] is the sixth patch of the series: no table walks, no forced aging,
//! no second trial, no fairness.
//!
//! Not modelled: locked folios, folios that the pass may not unmap or write, and marks on isolated
//! folios.
//!
//! Source: Linux 6.1, and Yu Zhao's multi-gen LRU series of 2022.

use super::controller::{Controller, Gains};
use super::eviction::SCAN_MAX;
use super::generations::End;
use super::plan::{EvictableSizes, PassProgress, Plan, Then};
use super::profile::{Choice, Entry, Profile, awaits_flush, has_no_copy};
use super::refault::{RefaultOutcome, Token};
use super::swappiness::Swappiness;
use super::tiers::{RefTier, References};
use super::window::{MAX_NR_GENS, MIN_NR_GENS, Window};
use crate::folio::Flags;
use crate::ids::PageType;
use crate::lru::{
    AccessPath, AccessRule, DEF_PRIORITY, Mechanism, ReclaimKind, Refusal, Scan, ShadowEntry,
    Switches,
};

/// Up to twice the ratio is evicted.
const TIER_GAINS: Gains = Gains { base: 1, compared: 2 };
const ACCESSED: Flags = Flags::REFERENCED.with(Flags::WORKINGSET);

#[derive(Clone, Copy, Debug)]
pub(crate) struct Linux61 {
    switches: Switches,
}

impl Profile for Linux61 {
    const ACCESS_RULE: AccessRule = AccessRule::CountAfterWorkingset;
    const SWAPPINESS_MAX: u8 = Swappiness::MAX;
    const PROTECTED_END: End = End::Tail;
    const PROTECTION_ACTIVATES: bool = true;
    const COUNTS_OLD_REFAULTS: bool = false;

    fn new(switches: Switches) -> Linux61 {
        Linux61 { switches }
    }

    fn references(self, flags: Flags) -> References {
        counted(flags.refs() + u32::from(flags.any(Flags::WORKINGSET)))
    }

    fn promotes_lazily(self, _references: References) -> bool {
        false
    }

    fn walks_tables(self) -> bool {
        !self.is_minimal()
    }

    fn promotes_young(self, _flags: Flags) -> bool {
        !self.is_minimal()
    }

    fn seen_young(self, flags: Flags) -> Flags {
        if self.is_minimal() { flags } else { flags.without(ACCESSED).with_refs(0) }
    }

    fn entered_seq(self, window: &Window, flags: Flags, _entry: Entry) -> u64 {
        let oldest = window.oldest(flags.page_type());
        let is_late = has_no_copy(flags) || awaits_flush(flags);
        if flags.any(Flags::ACTIVE) {
            window.max_seq
        } else if is_late || !self.switches.has(Mechanism::ColdInsertion) {
            oldest + 1
        } else {
            oldest
        }
    }

    fn isolated(self, flags: Flags) -> Flags {
        let was_referenced = flags.any(Flags::REFERENCED);
        let flags = flags.without(Flags::RECLAIM.with(Flags::REFERENCED));
        if was_referenced { flags } else { flags.without(Flags::WORKINGSET).with_refs(0) }
    }

    fn retries(self) -> bool {
        self.switches.has(Mechanism::Retry) && !self.is_minimal()
    }

    /// Activates all but a folio that waits to be written.
    fn survivor(self, _window: &Window, flags: Flags, _refusal: Refusal) -> Flags {
        let remembers = flags.any(Flags::WORKINGSET);
        let flags = if remembers { flags.with(Flags::REFERENCED) } else { flags };
        if awaits_flush(flags) { flags.without(Flags::ACTIVE) } else { flags.with(Flags::ACTIVE) }
    }

    fn moved_on(self, flags: Flags) -> Flags {
        flags.without(ACCESSED).with_refs(0)
    }

    fn coupled(self, window: &Window, candidates: [u64; 2]) -> [u64; 2] {
        lockstep(window, candidates)
    }

    fn plan(self, sizes: &EvictableSizes, done: &PassProgress, scan: &Scan) -> Plan {
        let can_evict = sizes.nr_gens > MIN_NR_GENS;
        let budget = if can_evict { sizes.nr_folios >> scan.priority } else { 0 };
        let is_first_look = scan.priority == DEF_PRIORITY;
        match scan.kind {
            _ if !self.needs_aging(sizes) => Plan::Scan(budget),
            ReclaimKind::Background if !done.has_begun => Plan::Age(Then::PlanAgain),
            _ if is_first_look => Plan::Scan(budget),
            ReclaimKind::Background => Plan::Scan(0),
            ReclaimKind::Direct | ReclaimKind::Proactive => Plan::Age(Then::Scan(budget)),
        }
    }

    /// Ends the priority if enough was aged, swapped out, or freed (fairness between groups).
    fn is_over(self, done: &PassProgress, scan: &Scan) -> bool {
        let has_swapped = done.took_anon && scan.is_satisfied();
        let is_balanced = scan.kind == ReclaimKind::Background
            && scan.priority <= DEF_PRIORITY - 2
            && scan.is_satisfied();
        !self.is_minimal() && (done.nr_started > 1 || has_swapped || is_balanced)
    }

    fn initial_priority(self, _reclaimable: u64, _target: u64) -> u8 {
        DEF_PRIORITY
    }

    fn scan_max(self, _budget: u64, _done: &PassProgress, _scan: &Scan) -> u64 {
        SCAN_MAX
    }

    fn forces_aging(self) -> bool {
        !self.is_minimal()
    }

    fn counts_forced(self) -> bool {
        false
    }

    fn choose(self, controller: &Controller, window: &Window, swappiness: Swappiness) -> Choice {
        let is_anon_older = swappiness.evicts(PageType::Anon)
            && window.oldest(PageType::Anon) < window.oldest(PageType::File);
        let shortcut = if is_anon_older { Some(PageType::Anon) } else { swappiness.forced_type() };
        if let Some(page_type) = shortcut {
            return Choice { page_type, tier_limit: self.tier_limit(controller, page_type) };
        }
        let page_type = controller.type_to_evict(swappiness, 1);
        let other = page_type.other();
        let gains = Gains { base: swappiness.gain(other), compared: swappiness.gain(page_type) };
        Choice { page_type, tier_limit: controller.tier_limit(other, page_type, gains) }
    }

    fn tier_limit(self, controller: &Controller, page_type: PageType) -> RefTier {
        let has_margin = self.switches.has(Mechanism::TierMargin);
        let gains = if has_margin { TIER_GAINS } else { Gains::EVEN };
        controller.tier_limit(page_type, page_type, gains)
    }

    fn is_recent(self, token: Token, window: &Window, page_type: PageType) -> bool {
        was_just_evicted(token, window, page_type)
    }

    fn remembered(self, shadow: ShadowEntry) -> References {
        counted(Token::of(shadow).references + u32::from(shadow.workingset()))
    }

    /// Restores a page that faults, or that had a full count, to the working set.
    fn refaulted(self, references: References, kind: AccessPath) -> RefaultOutcome {
        let is_restored = kind == AccessPath::Table || references.count == REFERENCES_MAX;
        let flags = if is_restored { Flags::WORKINGSET } else { Flags::NONE };
        RefaultOutcome { flags, is_activated: false, is_restored }
    }
}

impl Linux61 {
    fn is_minimal(self) -> bool {
        self.switches.has(Mechanism::MinimalPatch)
    }

    fn needs_aging(self, sizes: &EvictableSizes) -> bool {
        const MAX: u64 = MAX_NR_GENS as u64;
        match sizes.nr_gens {
            ..=MIN_NR_GENS => true,
            MAX.. => false,
            _ if !self.switches.has(Mechanism::AgingBySize) => true,
            _ => sizes.nr_young * 2 > sizes.nr_folios || sizes.nr_old * 4 < sizes.nr_folios,
        }
    }
}

const REFERENCES_MAX: u32 = Flags::REFS_MAX + 1;

fn counted(count: u32) -> References {
    References { count, workingset: count > 0, tier: RefTier::holding(count + 1) }
}

/// Couples the types: neither advances past the slower one, and file never goes back.
pub(super) fn lockstep(window: &Window, [anon, file]: [u64; 2]) -> [u64; 2] {
    let anon = anon.min(file);
    [anon, anon.max(window.oldest(PageType::File))]
}

pub(super) fn was_just_evicted(token: Token, window: &Window, page_type: PageType) -> bool {
    token.distance_to(window.oldest(page_type)) == 0
}

#[cfg(test)]
mod tests;

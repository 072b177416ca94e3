//! The rules of Linux 6.18.
//!
//! *Insertion.* The access path decides the generation of a new folio:
//!
//! ```text
//!   oldest                                                     youngest
//!   max-3             max-2              max-1                 max
//!   read, readahead   read again soon    faulted, unwritten    faulted again soon
//! ```
//!
//! "Again soon" is WORKINGSET, set on a refault of a folio with saturated references. The
//! generation is raised to the type's oldest: with four generations in use a cold folio joins the
//! generation under eviction.
//!
//! *Accesses.* A folio with a full count moves on when eviction reaches it. Table accesses promote
//! a folio at the second observation.
//!
//! ```text
//!   accesses      0   1   2   3   4   5 and more
//!   references    0   1   2   3   4   4 + workingset = saturated
//!   tier          0   0   1   2   2   3
//! ```
//!
//! *Aging.* Only the number of generations counts. A "harder look" is a priority below 12:
//!
//! ```text
//!   generations   4               3                     2
//!   first look    scan size>>12   scan size>>12         nothing
//!   harder look   scan size>>p    start a generation    start a generation
//! ```
//!
//! *Refaults.* A refault is recent within a full window of generations. Types are compared by all
//! their tiers. A tier is evicted up to 1.5 times the ratio of its type's tier 0.
//!
//! Source: Linux 6.18, reworked in 6.14 by commits 798c0330c2ca, 37a260870f2c, b1a71694fb00 and
//! 4d5d14a01e2c.

use super::controller::{Controller, Gains};
use super::generations::End;
use super::linux61::{lockstep, was_just_evicted};
use super::plan::{EvictableSizes, PassProgress, Plan, Then};
use super::profile::{Choice, Entry, Profile, awaits_flush, has_no_copy};
use super::refault::{RefaultOutcome, Token};
use super::swappiness::Swappiness;
use super::tiers::{NR_TIERS, RefTier, References};
use super::window::{MAX_NR_GENS, MIN_NR_GENS, Window};
use crate::folio::Flags;
use crate::ids::PageType;
use crate::lru::{
    AccessPath, AccessRule, DEF_PRIORITY, Mechanism, Refusal, Scan, ShadowEntry, Switches,
};

/// Up to 1.5 times the ratio is evicted.
const TIER_GAINS: Gains = Gains { base: 2, compared: 3 };
/// Found young or read before.
const SEEN: Flags = Flags::REFERENCED.with(Flags::WORKINGSET);

#[derive(Clone, Copy, Debug)]
pub(crate) struct Linux618 {
    switches: Switches,
}

impl Profile for Linux618 {
    const ACCESS_RULE: AccessRule = AccessRule::CountReferences;
    const SWAPPINESS_MAX: u8 = Swappiness::ANON_ONLY;
    const PROTECTED_END: End = End::Head;
    const PROTECTION_ACTIVATES: bool = false;
    const COUNTS_OLD_REFAULTS: bool = true;

    fn new(switches: Switches) -> Linux618 {
        Linux618 { switches }
    }

    fn references(self, flags: Flags) -> References {
        let count = if flags.any(Flags::REFERENCED) { flags.refs() + 1 } else { 0 };
        counted(count, flags.any(Flags::WORKINGSET))
    }

    fn promotes_lazily(self, references: References) -> bool {
        let is_saturated = references.workingset && references.count == Flags::REFS_MAX + 1;
        is_saturated && self.switches.has(Mechanism::LazyPromotion)
    }

    fn walks_tables(self) -> bool {
        true
    }

    /// Returns false for the first observation, which only marks the folio.
    fn promotes_young(self, flags: Flags) -> bool {
        flags.any(SEEN) || !self.switches.has(Mechanism::TwoStepPromotion)
    }

    fn seen_young(self, flags: Flags) -> Flags {
        if self.promotes_young(flags) {
            flags.without(Flags::REFERENCED).with_refs(0).with(Flags::WORKINGSET)
        } else {
            flags.with(Flags::REFERENCED).with_refs(0)
        }
    }

    fn entered_seq(self, window: &Window, flags: Flags, entry: Entry) -> u64 {
        let workingset = flags.any(Flags::WORKINGSET);
        let steps_from_youngest = if flags.any(Flags::ACTIVE) {
            u64::from(!workingset)
        } else if entry == Entry::Rotated {
            3
        } else if has_no_copy(flags) || awaits_flush(flags) {
            1
        } else if workingset || !self.switches.has(Mechanism::ColdInsertion) {
            2
        } else {
            3
        };
        (window.max_seq - steps_from_youngest).max(window.oldest(flags.page_type()))
    }

    fn isolated(self, flags: Flags) -> Flags {
        let flags = flags.without(Flags::RECLAIM);
        if flags.any(Flags::REFERENCED) { flags } else { flags.with_refs(0) }
    }

    fn retries(self) -> bool {
        self.switches.has(Mechanism::Retry)
    }

    /// Keeps a young folio the first time and activates it the second. No folio re-enters the
    /// oldest generation.
    fn survivor(self, window: &Window, flags: Flags, refusal: Refusal) -> Flags {
        let flags = match refusal {
            Refusal::Young if self.promotes_young(flags) => {
                self.seen_young(flags).with(Flags::ACTIVE)
            }
            Refusal::Young => self.seen_young(flags),
            Refusal::Busy | Refusal::Dirty => flags,
        };
        if self.entered_seq(window, flags, Entry::Added) > window.oldest(flags.page_type()) {
            return flags;
        }
        flags.without(Flags::REFERENCED).with_refs(0).with(Flags::ACTIVE)
    }

    fn moved_on(self, flags: Flags) -> Flags {
        let flags = flags.without(Flags::REFERENCED).with_refs(0);
        if self.switches.has(Mechanism::StickyWorkingset) {
            flags
        } else {
            flags.without(Flags::WORKINGSET)
        }
    }

    /// Keeps each type at three generations or more while the other type has four.
    fn coupled(self, window: &Window, candidates: [u64; 2]) -> [u64; 2] {
        if !self.switches.has(Mechanism::IndependentTypes) {
            return lockstep(window, candidates);
        }
        let third_youngest = window.max_seq - MIN_NR_GENS;
        let mut min_seq = candidates;
        for page_type in PageType::ALL {
            if candidates[page_type.other().index()] < third_youngest {
                let leader = &mut min_seq[page_type.index()];
                *leader = (*leader).min(third_youngest).max(window.oldest(page_type));
            }
        }
        min_seq
    }

    fn plan(self, sizes: &EvictableSizes, _course: &PassProgress, scan: &Scan) -> Plan {
        let needs_aging = sizes.nr_gens < MAX_NR_GENS as u64;
        if needs_aging && scan.priority < DEF_PRIORITY {
            Plan::Age(Then::EndPriority)
        } else if sizes.nr_gens <= MIN_NR_GENS {
            Plan::Scan(0)
        } else {
            Plan::Scan(scan.group.share.unprotected(sizes.nr_folios) >> scan.priority)
        }
    }

    /// Stops the background thread at its watermark and global reclaim at its target.
    fn is_over(self, _course: &PassProgress, scan: &Scan) -> bool {
        scan.may_stop()
    }

    fn initial_priority(self, reclaimable: u64, target: u64) -> u8 {
        const LOWEST: u8 = 6;
        const LARGE_TARGET: u64 = 64;
        if target < LARGE_TARGET {
            return DEF_PRIORITY;
        }
        let wanted_log = u64::BITS - (target - 1).leading_zeros();
        let found_log = reclaimable.checked_ilog2().unwrap_or(0);
        found_log.saturating_sub(wanted_log).clamp(LOWEST.into(), DEF_PRIORITY.into()) as u8
    }

    fn scan_max(self, budget: u64, _done: &PassProgress, _scan: &Scan) -> u64 {
        budget
    }

    fn forces_aging(self) -> bool {
        true
    }

    fn counts_forced(self) -> bool {
        true
    }

    fn choose(self, controller: &Controller, window: &Window, swappiness: Swappiness) -> Choice {
        let _ = window;
        let nr_tiers = if self.switches.has(Mechanism::TypeByAllTiers) { NR_TIERS } else { 1 };
        let page_type = swappiness
            .forced_type()
            .unwrap_or_else(|| controller.type_to_evict(swappiness, nr_tiers));
        Choice { page_type, tier_limit: self.tier_limit(controller, page_type) }
    }

    fn tier_limit(self, controller: &Controller, page_type: PageType) -> RefTier {
        let has_margin = self.switches.has(Mechanism::TierMargin);
        let gains = if has_margin { TIER_GAINS } else { Gains::EVEN };
        controller.tier_limit(page_type, page_type, gains)
    }

    fn is_recent(self, token: Token, window: &Window, page_type: PageType) -> bool {
        if self.switches.has(Mechanism::RefaultWindow) {
            token.distance_to(window.max_seq) < MAX_NR_GENS as u64
        } else {
            was_just_evicted(token, window, page_type)
        }
    }

    fn remembered(self, shadow: ShadowEntry) -> References {
        counted(Token::of(shadow).references + 1, shadow.workingset())
    }

    fn refaulted(self, references: References, kind: AccessPath) -> RefaultOutcome {
        let flags = if references.workingset {
            Flags::WORKINGSET
        } else {
            Flags::NONE.with_refs(references.count - 1)
        };
        RefaultOutcome {
            flags,
            is_activated: kind == AccessPath::Table,
            is_restored: references.workingset,
        }
    }
}

fn counted(count: u32, workingset: bool) -> References {
    let tier = if workingset { RefTier::LAST } else { RefTier::holding(count) };
    References { count, workingset, tier }
}

#[cfg(test)]
mod tests;

//! The rules that differ between kernel versions of the multi-gen LRU.
//!
//! Problem: Linux 6.1, 6.18 and 7.3 share lists, window and scan loop, and differ in some thirty
//! rules. Idea: the engine asks a [`Profile`], a set of pure functions chosen at compile time:
//!
//! ```text
//!   engine   generations.rs window.rs controller.rs aging.rs eviction.rs refault.rs mod.rs
//!               |  "which generation?"   "how many to scan?"   "which tier?"
//!               v
//!   profile  linux61/  or  linux618/  or  linux73/
//! ```
//!
//! Invariant: the engine keeps the window and its bounds, whatever the profile answers.
//!
//! Source: the multi-gen LRU of Linux 6.1, 6.18 and 7.3.

use super::controller::Controller;
use super::generations::End;
use super::plan::{EvictableSizes, PassProgress, Plan};
use super::refault::{RefaultOutcome, Token};
use super::swappiness::Swappiness;
use super::tiers::{RefTier, References};
use super::window::Window;
use crate::folio::Flags;
use crate::ids::PageType;
use crate::lru::{AccessPath, AccessRule, Refusal, Scan, ShadowEntry, Switches};

pub(super) const UNWRITTEN: Flags = Flags::DIRTY.with(Flags::WRITEBACK);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Entry {
    Added,
    /// Written back, and wanted by reclaim: evicted next.
    Rotated,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Choice {
    pub(super) page_type: PageType,
    pub(super) tier_limit: RefTier,
}

/// Returns true if the only copy is in memory.
pub(super) fn has_no_copy(flags: Flags) -> bool {
    flags.all(Flags::ANON.with(Flags::DIRTY))
}

/// Returns true if reclaim waits for the write-back.
pub(super) fn awaits_flush(flags: Flags) -> bool {
    flags.any(Flags::RECLAIM) && flags.any(UNWRITTEN)
}

/// The rules of one kernel. See the module.
pub(crate) trait Profile: Copy + core::fmt::Debug {
    /// The way descriptor accesses are recorded.
    const ACCESS_RULE: AccessRule;
    const SWAPPINESS_MAX: u8;
    /// The end of the next generation that protected folios join.
    const PROTECTED_END: End;
    /// True if protecting a folio counts as an activation.
    const PROTECTION_ACTIVATES: bool;
    /// True if refaults outside the refault window are counted too.
    const COUNTS_OLD_REFAULTS: bool;

    fn new(switches: Switches) -> Self;

    fn references(self, flags: Flags) -> References;

    /// Returns true if eviction promotes the folio regardless of the controller.
    fn promotes_lazily(self, references: References) -> bool;

    /// Returns true if aging walks page tables and promotes young pages.
    fn walks_tables(self) -> bool;

    /// Returns true if a folio found young is promoted.
    fn promotes_young(self, flags: Flags) -> bool;

    /// Returns the flags of a folio found young on its list.
    fn seen_young(self, flags: Flags) -> Flags;

    /// Returns the flags of a new folio, if they differ from `flags`.
    fn arrived(self, flags: Flags) -> Option<Flags> {
        let _ = flags;
        None
    }

    fn entered_seq(self, window: &Window, flags: Flags, entry: Entry) -> u64;

    fn isolated(self, flags: Flags) -> Flags;

    /// Returns true if a victim refused for no reason visible in its flags is tried a second time.
    fn retries(self) -> bool;

    fn survivor(self, window: &Window, flags: Flags, refusal: Refusal) -> Flags;

    fn moved_on(self, flags: Flags) -> Flags;

    /// Limits how far the types may run apart. `candidates` are the oldest generations that are not
    /// empty. Called only if both types may be evicted.
    fn coupled(self, window: &Window, candidates: [u64; 2]) -> [u64; 2];

    fn plan(self, sizes: &EvictableSizes, done: &PassProgress, scan: &Scan) -> Plan;

    fn is_over(self, done: &PassProgress, scan: &Scan) -> bool;

    fn initial_priority(self, reclaimable: u64, target: u64) -> u8;

    /// Returns the maximum number of folios one scan reads, out of `budget`.
    fn scan_max(self, budget: u64, done: &PassProgress, scan: &Scan) -> u64;

    /// Returns true if a scan that only sorted counts as progress. Otherwise such a scan counts
    /// only if it spent its budget, and retiring an empty generation counts as progress.
    fn sorting_is_progress(self) -> bool {
        false
    }

    /// Returns true if unwritten folios are victims, for the world to refuse. Otherwise eviction
    /// leaves unwritten folios to the flusher.
    fn takes_unwritten(self) -> bool {
        false
    }

    /// Returns true if an evictable type with four generations can be forced to merge its oldest
    /// generation.
    fn forces_aging(self) -> bool;

    /// Returns true if folios moved on by a forced aging count as protected.
    fn counts_forced(self) -> bool;

    fn choose(self, controller: &Controller, window: &Window, swappiness: Swappiness) -> Choice;

    /// Returns the last unprotected tier of a type, compared with the type's own tier 0.
    fn tier_limit(self, controller: &Controller, page_type: PageType) -> RefTier;

    /// Returns true if the page that left this token refaulted within the refault window.
    fn is_recent(self, token: Token, window: &Window, page_type: PageType) -> bool;

    fn remembered(self, shadow: ShadowEntry) -> References;

    fn refaulted(self, references: References, kind: AccessPath) -> RefaultOutcome;
}

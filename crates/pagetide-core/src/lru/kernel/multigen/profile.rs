//! What differs between the kernels whose multi-gen LRU this is.
//!
//! Problem: the multi-gen LRU that was first measured (Linux 6.1) and those that ship (6.18, 7.3)
//! share lists, window and scan loop, and differ in some thirty rules. A test of the profile at
//! each of them would make both unreadable.
//!
//! Idea: the engine asks a [`Profile`], which is a set of plain functions of flags and numbers. All
//! rules of one kernel stand in one file and are chosen when the program is compiled:
//!
//! ```text
//!   engine   generations.rs window.rs controller.rs aging.rs eviction.rs refault.rs mod.rs
//!               |  "which generation?"   "how many to scan?"   "which tier?"
//!               v
//!   profile  linux61/  or  linux618/  or  linux73/
//! ```
//!
//! Invariant: a profile holds no state but its switches; whatever it answers, the engine stays
//! within the window and its bounds.
//!
//! Source: the multi-gen LRU specification, profiles A (6.1), B (6.18) and C (7.3).

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

/// Newer than the store, or being written to it.
pub(super) const UNWRITTEN: Flags = Flags::DIRTY.with(Flags::WRITEBACK);

/// Why a folio is put on a list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Entry {
    /// It is new, or a reclaim pass gives it back.
    Added,
    /// Its write-back, which reclaim waited for, is done: it goes next.
    Rotated,
}

/// What eviction takes from next, and from which of its tiers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Choice {
    pub(super) page_type: PageType,
    /// The last of its tiers that is not protected.
    pub(super) tier_limit: RefTier,
}

/// Whether a folio is anonymous and its only copy is in memory.
pub(super) fn has_no_copy(flags: Flags) -> bool {
    flags.all(Flags::ANON.with(Flags::DIRTY))
}

/// Whether reclaim wants a folio that is not written yet.
pub(super) fn awaits_flush(flags: Flags) -> bool {
    flags.any(Flags::RECLAIM) && flags.any(UNWRITTEN)
}

/// One kernel's rules. See the module.
pub(crate) trait Profile: Copy + core::fmt::Debug {
    /// How descriptor accesses are noted.
    const ACCESS_RULE: AccessRule;
    /// The largest swappiness there is.
    const SWAPPINESS_MAX: u8;
    /// Where in the next generation a protected folio goes.
    const PROTECTED_END: End;
    /// Whether protecting a folio counts as activating it.
    const PROTECTION_ACTIVATES: bool;
    /// Whether refaults are counted although the page left too long ago to matter.
    const COUNTS_OLD_REFAULTS: bool;

    /// The rules, less those switched off.
    fn new(switches: Switches) -> Self;

    /// What a folio's flags say about its accesses.
    fn references(self, flags: Flags) -> References;

    /// Whether eviction moves such a folio on whatever the controller says.
    fn promotes_lazily(self, references: References) -> bool;

    /// Whether aging walks page tables, and what it finds young moves to the youngest generation.
    fn walks_tables(self) -> bool;

    /// Whether a folio with these flags is promoted, now that it was found young.
    fn promotes_young(self, flags: Flags) -> bool;

    /// The flags of a folio that was found young on its list.
    fn seen_young(self, flags: Flags) -> Flags;

    /// The flags with which a new folio joins a list, if not those it was bound with.
    fn arrived(self, flags: Flags) -> Option<Flags> {
        let _ = flags;
        None
    }

    /// The generation that a folio enters.
    fn entered_seq(self, window: &Window, flags: Flags, entry: Entry) -> u64;

    /// The flags of a folio that is taken off its list to be evicted.
    fn isolated(self, flags: Flags) -> Flags;

    /// Whether a refused victim is tried a second time, if nothing on it says why it was refused.
    fn retries(self) -> bool;

    /// The flags with which a refused victim goes back.
    fn survivor(self, window: &Window, flags: Flags, refusal: Refusal) -> Flags;

    /// The flags of a folio that moves from the oldest generation to the next.
    fn moved_on(self, flags: Flags) -> Flags;

    /// How far the types may run apart: what becomes of `candidates`, the oldest generations that
    /// are not empty. Asked only where both types may be evicted.
    fn coupled(self, window: &Window, candidates: [u64; 2]) -> [u64; 2];

    /// What to do now at the pass's priority.
    fn plan(self, sizes: &EvictableSizes, done: &PassProgress, scan: &Scan) -> Plan;

    /// Whether the pass is over at its priority.
    fn is_over(self, done: &PassProgress, scan: &Scan) -> bool;

    /// The priority a background pass starts at.
    fn initial_priority(self, reclaimable: u64, target: u64) -> u8;

    /// The most folios one scan looks at, of `budget` at this priority.
    fn scan_max(self, budget: u64, done: &PassProgress, scan: &Scan) -> u64;

    /// Whether a scan that only sorted is progress; otherwise it is none, unless its budget is
    /// spent, and what a scan makes of the window is.
    fn sorting_is_progress(self) -> bool {
        false
    }

    /// Whether folios that must be written first are victims as others are, for the world to
    /// refuse; otherwise eviction leaves them to the flusher.
    fn takes_unwritten(self) -> bool {
        false
    }

    /// Whether a type with four generations that may be evicted can be made to give up its oldest.
    fn forces_aging(self) -> bool;

    /// Whether the folios moved on by that count as protected.
    fn counts_forced(self) -> bool;

    /// Which type to evict from, and which of its tiers.
    fn choose(self, controller: &Controller, window: &Window, swappiness: Swappiness) -> Choice;

    /// The last tier of a type that is not protected, judged by the type alone.
    fn tier_limit(self, controller: &Controller, page_type: PageType) -> RefTier;

    /// Whether a page that left this token returned soon enough to matter.
    fn is_recent(self, token: Token, window: &Window, page_type: PageType) -> bool;

    /// What a page's shadow remembers of its accesses.
    fn remembered(self, shadow: ShadowEntry) -> References;

    /// What a page that returned in time is given.
    fn refaulted(self, references: References, kind: AccessPath) -> RefaultOutcome;
}

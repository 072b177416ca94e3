//! The rules of Linux 7.3: the changes of 7.1 to 7.3 against 6.18.
//!
//! *Insertion.* A batch of 31 new folios waits to be listed, and meanwhile the read marks each,
//! which is worth a generation. Only the folio that fills its batch is listed before its mark, so
//! one single read in 31 enters the oldest generation, which therefore runs empty: aging is the
//! normal state.
//!
//! ```text
//!   oldest                                                     youngest
//!   max-3             max-2              max-1                 max
//!   readahead, and    read; faulted;     unwritten; refused    faulted again soon
//!   1 read of 31      read again soon    while dirty
//! ```
//!
//! *Faults* mark their folio, instead of activating it. The first look that finds the folio young
//! promotes it. A victim found young joins the working set at its third observation.
//!
//! *Passes.* Each priority has one budget, spent in scans of 64 folios. A generation is started
//! before a scan if one is due, which does not end the priority. A scan that only sorted counts as
//! progress. A pass for a group also ends as soon as its target is met.
//!
//! *Dirty folios* are victims, and come back active.
//!
//! All else is as in [`Linux618`], also if a mechanism is off.
//!
//! Ignored: folios that readahead brings in during a fault, and a swap cache: a swapped-in page has
//! no copy. A fault's mark is made when its folio is listed, so five reads before that look like a
//! refault of the working set.
//!
//! Source: Linux 7.3, with the series "use folio_mark_accessed to replace folio_set_active" and
//! "improve reclaim loop and dirty folio handling" of 7.2, 2026.

use super::controller::Controller;
use super::generations::End;
use super::linux618::Linux618;
use super::plan::{EvictableSizes, PassProgress, Plan, Then};
use super::profile::{Choice, Entry, Profile, UNWRITTEN};
use super::refault::{RefaultOutcome, Token};
use super::swappiness::Swappiness;
use super::tiers::{RefTier, References};
use super::window::{MAX_NR_GENS, MIN_NR_GENS, Window};
use crate::folio::Flags;
use crate::ids::PageType;
use crate::lru::access::referenced_again;
use crate::lru::{
    AccessPath, AccessRule, DEF_PRIORITY, Mechanism, Refusal, Scan, ShadowEntry, Switches,
    VICTIMS_MAX,
};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Linux73 {
    before: Linux618,
    switches: Switches,
}

/// Rules unchanged from 6.18.
macro_rules! as_before {
    ($(fn $name:ident($($arg:ident: $ty:ty),*) -> $ret:ty;)+) => {
        $(
            fn $name(self $(, $arg: $ty)*) -> $ret {
                self.before.$name($($arg),*)
            }
        )+
    };
}

impl Profile for Linux73 {
    const ACCESS_RULE: AccessRule = Linux618::ACCESS_RULE;
    const SWAPPINESS_MAX: u8 = Linux618::SWAPPINESS_MAX;
    const PROTECTED_END: End = Linux618::PROTECTED_END;
    const PROTECTION_ACTIVATES: bool = Linux618::PROTECTION_ACTIVATES;
    const COUNTS_OLD_REFAULTS: bool = Linux618::COUNTS_OLD_REFAULTS;

    fn new(switches: Switches) -> Linux73 {
        Linux73 { before: Linux618::new(switches), switches }
    }

    as_before! {
        fn references(flags: Flags) -> References;
        fn promotes_lazily(references: References) -> bool;
        fn walks_tables() -> bool;
        fn retries() -> bool;
        fn moved_on(flags: Flags) -> Flags;
        fn coupled(window: &Window, candidates: [u64; 2]) -> [u64; 2];
        fn initial_priority(reclaimable: u64, target: u64) -> u8;
        fn forces_aging() -> bool;
        fn counts_forced() -> bool;
        fn choose(controller: &Controller, window: &Window, swappiness: Swappiness) -> Choice;
        fn tier_limit(controller: &Controller, page_type: PageType) -> RefTier;
        fn is_recent(token: Token, window: &Window, page_type: PageType) -> bool;
        fn remembered(shadow: ShadowEntry) -> References;
    }

    /// Promotes executable file pages at the first observation.
    fn promotes_young(self, flags: Flags) -> bool {
        self.protects_code(flags) || self.before.promotes_young(flags)
    }

    fn seen_young(self, flags: Flags) -> Flags {
        if self.protects_code(flags) {
            flags.without(Flags::REFERENCED).with_refs(0).with(Flags::WORKINGSET)
        } else {
            self.before.seen_young(flags)
        }
    }

    /// Marks a folio brought in by a fault. An anonymous folio stays active and enters max-1.
    fn arrived(self, flags: Flags) -> Option<Flags> {
        let is_plain_fault = flags.any(Flags::ACTIVE) && !flags.any(Flags::WORKINGSET);
        if !is_plain_fault || !self.switches.has(Mechanism::FaultMarks) {
            return None;
        }
        let marked = referenced_again(flags).unwrap_or(flags);
        Some(if flags.any(Flags::ANON) { marked } else { marked.without(Flags::ACTIVE) })
    }

    fn entered_seq(self, window: &Window, flags: Flags, entry: Entry) -> u64 {
        let is_marked = flags.any(Flags::REFERENCED) && !flags.any(Flags::ACTIVE);
        let counts = is_marked && self.switches.has(Mechanism::MarkedInsertion);
        let flags = if counts { flags.with(Flags::WORKINGSET) } else { flags };
        self.before.entered_seq(window, flags, entry)
    }

    fn isolated(self, flags: Flags) -> Flags {
        let keeps = self.takes_unwritten() && flags.any(Flags::RECLAIM);
        let isolated = self.before.isolated(flags);
        if keeps { isolated.with(Flags::RECLAIM) } else { isolated }
    }

    fn survivor(self, window: &Window, flags: Flags, refusal: Refusal) -> Flags {
        let flags = match refusal {
            Refusal::Young => self.tried_young(flags),
            Refusal::Dirty if self.awaits_its_writer(flags) => flags.with(Flags::ACTIVE),
            Refusal::Busy | Refusal::Dirty => flags,
        };
        if self.entered_seq(window, flags, Entry::Added) > window.oldest(flags.page_type()) {
            return flags;
        }
        flags.without(Flags::REFERENCED).with_refs(0).with(Flags::ACTIVE)
    }

    fn plan(self, sizes: &EvictableSizes, done: &PassProgress, scan: &Scan) -> Plan {
        if !self.switches.has(Mechanism::AgingInLoop) {
            return self.before.plan(sizes, done, scan);
        }
        let budget = done
            .budget
            .unwrap_or_else(|| scan.group.share.unprotected(sizes.nr_folios) >> scan.priority);
        let is_due = sizes.nr_gens <= MIN_NR_GENS
            || (sizes.nr_gens < MAX_NR_GENS as u64 && scan.priority < DEF_PRIORITY);
        if is_due && budget > 0 { Plan::Age(Then::Scan(budget)) } else { Plan::Scan(budget) }
    }

    /// Ends a priority between two scans, never before the first.
    fn is_over(self, done: &PassProgress, scan: &Scan) -> bool {
        if !self.switches.has(Mechanism::StopAtTarget) {
            return self.before.is_over(done, scan);
        }
        let has_aged = done.nr_started > 0 && scan.is_global();
        done.progress > 0 && (scan.is_satisfied() || has_aged)
    }

    /// Limits no request.
    fn scan_max(self, budget: u64, done: &PassProgress, scan: &Scan) -> u64 {
        if scan.command.is_some() || !self.switches.has(Mechanism::ShortScans) {
            return budget;
        }
        budget.saturating_sub(done.progress).min(VICTIMS_MAX as u64)
    }

    fn sorting_is_progress(self) -> bool {
        self.switches.has(Mechanism::ShortScans)
    }

    fn takes_unwritten(self) -> bool {
        self.switches.has(Mechanism::DirtyVictims)
    }

    fn refaulted(self, references: References, kind: AccessPath) -> RefaultOutcome {
        let outcome = self.before.refaulted(references, kind);
        let is_marked = !references.workingset && self.switches.has(Mechanism::FaultMarks);
        RefaultOutcome { is_activated: outcome.is_activated && !is_marked, ..outcome }
    }
}

impl Linux73 {
    fn protects_code(self, flags: Flags) -> bool {
        let is_code = flags.any(Flags::EXEC) && !flags.any(Flags::ANON);
        is_code && self.switches.has(Mechanism::ExecProtection)
    }

    /// Returns true if a victim refused as dirty must be written to its file, not to swap.
    fn awaits_its_writer(self, flags: Flags) -> bool {
        let has_writer = flags.any(Flags::WRITEBACK) || flags.is_dirty_file();
        self.takes_unwritten() && flags.any(UNWRITTEN) && has_writer
    }

    /// Returns the flags of a victim found young: ACTIVE from the second observation, WORKINGSET
    /// from the third.
    fn tried_young(self, flags: Flags) -> Flags {
        if !self.promotes_young(flags) {
            return self.seen_young(flags);
        }
        let count = self.references(flags).count;
        if count > 1 || self.protects_code(flags) || !self.switches.has(Mechanism::ThirdLook) {
            return self.seen_young(flags).with(Flags::ACTIVE);
        }
        let refs = if count == 0 { 0 } else { flags.refs() + 1 };
        flags.with(Flags::REFERENCED.with(Flags::ACTIVE)).with_refs(refs)
    }
}

#[cfg(test)]
mod tests;

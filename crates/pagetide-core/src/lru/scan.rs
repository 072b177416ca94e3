//! How far a reclaim pass is: what policies read and add to while they look for victims.
//!
//! ```text
//!   reclaim::ReclaimPass   one lruvec        \
//!                                             }-- Scan --> LruPolicy::{isolate, evicted, put_back}
//!   group::GroupPass       several lruvecs   /     '-- GroupScan: this one's place among them
//! ```

use super::refault_distance::CauseClock;
use super::{GenCommand, ShadowEntry};
use crate::folio::Flags;

/// The priority a pass starts at: it scans `folios >> 12`.
pub const DEF_PRIORITY: u8 = 12;
/// Pages a direct pass wants, and the piece list work is cut into.
pub const RECLAIM_BATCH: u64 = 32;
/// The most victims a batch holds.
pub const VICTIMS_MAX: usize = 64;

/// On whose behalf memory is reclaimed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReclaimKind {
    /// The background thread, between the watermarks: may stop as soon as its target is met.
    Background,
    /// A thread that needs a frame and waits: the memory-group flow, which finishes the lruvec's
    /// round at each priority before it looks at the target.
    Direct,
    /// By request, whatever memory is free.
    Proactive,
}

/// How far a pass is, for policies to read.
#[derive(Clone, Copy, Debug)]
pub struct Scan {
    /// On whose behalf memory is reclaimed.
    pub kind: ReclaimKind,
    /// 12 down to 0: scan `folios >> priority`.
    pub priority: u8,
    /// Pages wanted.
    pub target: u64,
    /// Frames freed so far, by eviction and by demotion.
    pub reclaimed: u64,
    /// Those of them whose pages were demoted.
    pub demoted: u64,
    /// Folios looked at so far.
    pub scanned: u64,
    /// Victims that were dirty so far.
    pub dirty: u64,
    /// What the page that the pass makes room for left when it was evicted, if it is known. Only
    /// policies that judge a page before they choose its victim look at it (ARC).
    pub incoming: Option<ShadowEntry>,
    /// What a request asks for; other passes have none.
    pub command: Option<GenCommand>,
    /// The world tries to demote victims first, which dirty ones need not be written for.
    pub demotes: bool,
    /// Folios are evicted however young their generation is.
    pub ignores_age: bool,
    /// The pass ended because everything is younger than `min_ttl`: out of memory.
    pub too_young: bool,
    /// The second, forced round: protections that may starve reclaim are off.
    pub forced: bool,
    /// A protection was met that a forced round would ignore.
    pub skipped: bool,
    /// What a lruvec among several has to know of its group; nothing where there is one.
    pub group: GroupScan,
}

impl Scan {
    /// Nothing done yet, at the first priority.
    #[inline]
    pub(crate) fn new(kind: ReclaimKind, target: u64) -> Scan {
        Scan {
            kind,
            priority: DEF_PRIORITY,
            target,
            reclaimed: 0,
            demoted: 0,
            scanned: 0,
            dirty: 0,
            incoming: None,
            command: None,
            demotes: false,
            ignores_age: false,
            too_young: false,
            forced: false,
            skipped: false,
            group: GroupScan::default(),
        }
    }

    /// Whether the target is met.
    pub fn is_satisfied(&self) -> bool {
        self.reclaimed >= self.target
    }

    /// Whether memory as a whole is short, or is kept from it by the background thread.
    pub fn is_global(&self) -> bool {
        self.kind == ReclaimKind::Background || self.group.is_global
    }

    /// Whether the pass may end between two folios, rather than finish the lruvec's round.
    pub fn may_stop(&self) -> bool {
        self.is_satisfied() && self.is_global()
    }

    /// Victims that are still wanted, as many as a batch holds at most.
    pub fn nr_victims_wanted(&self) -> usize {
        self.target.saturating_sub(self.reclaimed).min(VICTIMS_MAX as u64) as usize
    }

    /// Whether dirty folios stood in the way more often than clean ones were found: time to write.
    pub fn wants_flusher(&self) -> bool {
        self.dirty > self.reclaimed
    }

    /// What keeps a folio from being a victim until it is written. The multi-gen LRUs of 6.18 and
    /// 6.1 have rules of their own, which are the kernel's: they leave dirty file pages to the
    /// flusher even where they could be demoted.
    pub const fn unclean(&self) -> Flags {
        if self.demotes { Flags::WRITEBACK } else { Flags::DIRTY.with(Flags::WRITEBACK) }
    }

    /// Whether a folio waits to be written, so that nothing else needs to be asked of it: of one
    /// that is [mapped](Flags::MAPPED), the world asks first whether it is young.
    pub const fn waits_for_writing(&self, flags: Flags) -> bool {
        flags.any(self.unclean()) && !flags.any(Flags::MAPPED)
    }

    /// Counts folios looked at.
    pub fn count_scanned(&mut self, nr: u64) {
        self.scanned += nr;
    }
}

/// A lruvec's place among others, during a visit. The default is that of a lruvec alone, whose own
/// limit is the cause.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct GroupScan {
    /// Memory as a whole is short, not a group's.
    pub is_global: bool,
    /// The part of the group's memory that the scan leaves alone.
    pub share: Share,
    /// By whose clock pages are evicted, where the cause is another group's limit.
    pub clock: Option<CauseClock>,
    /// The visit ends once the pass has reclaimed this much: the group is at its protection then.
    pub end: Option<u64>,
}

impl GroupScan {
    /// Whether taking more would reach into what is protected.
    pub fn has_given_enough(&self, scan: &Scan) -> bool {
        self.end.is_some_and(|end| scan.reclaimed >= end)
    }
}

/// The protected part of a group's memory, which shortens every scan of it.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Share {
    /// Protected pages; 0 for none.
    pub protected: u64,
    /// Pages used.
    pub usage: u64,
}

impl Share {
    /// Of `size` folios, those that count for a scan: less the protected share, but at least a
    /// batch, so that a group just above its protection is scanned at all in the end.
    pub fn unprotected(&self, size: u64) -> u64 {
        if self.protected == 0 {
            return size;
        }
        let usage = self.usage.max(self.protected);
        let spared = u128::from(size) * u128::from(self.protected) / (u128::from(usage) + 1);
        (size - spared as u64).max(RECLAIM_BATCH)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// size - size * protected / (usage + 1), at least 32.
    #[test]
    fn what_lies_above_the_protection_is_scanned() {
        let share = |protected, usage| Share { protected, usage };
        assert_eq!(share(0, 1000).unprotected(5), 5, "unprotected groups have no minimum");
        assert_eq!(share(500, 999).unprotected(900), 900 - 450);
        assert_eq!(share(900, 999).unprotected(900), 900 - 810);
        assert_eq!(share(999, 999).unprotected(900), 32, "900 - 899, raised");
        assert_eq!(share(2000, 999).unprotected(900), 32, "protection beyond the usage");
    }
}

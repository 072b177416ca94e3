//! The progress of a reclaim pass, read and updated by policies.
//!
//! ```text
//!   reclaim::ReclaimPass   one lruvec        \
//!                                             }-- Scan --> LruPolicy::{isolate, evicted, put_back}
//!   group::GroupPass       several lruvecs   /     '-- GroupScan: this one's place among them
//! ```

use super::refault_distance::CauseClock;
use super::{GenCommand, ShadowEntry};
use crate::folio::Flags;

/// Start priority of a pass: scans `folios >> 12`.
pub const DEF_PRIORITY: u8 = 12;
/// Default target of a direct pass, and batch size of list work, in pages.
pub const RECLAIM_BATCH: u64 = 32;
/// Maximum number of victims in a batch.
pub const VICTIMS_MAX: usize = 64;

/// The cause of a reclaim.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReclaimKind {
    /// The background thread between the watermarks. May stop as soon as its target is met.
    Background,
    /// A thread that waits for a frame. Finishes the lruvec's round at each priority before the
    /// target is checked.
    Direct,
    /// A request, regardless of free memory.
    Proactive,
}

/// The progress of a pass.
#[derive(Clone, Copy, Debug)]
pub struct Scan {
    /// The cause of the reclaim.
    pub kind: ReclaimKind,
    /// 12 down to 0: scans `folios >> priority`.
    pub priority: u8,
    /// Wanted pages.
    pub target: u64,
    /// Maximum number of victims in a batch, 1 to [`VICTIMS_MAX`].
    pub victims_max: usize,
    /// Frames freed by eviction and demotion.
    pub reclaimed: u64,
    /// Frames freed by demotion.
    pub demoted: u64,
    /// Folios scanned.
    pub scanned: u64,
    /// Dirty victims.
    pub dirty: u64,
    /// Shadow of the page to make room for, if known. Used by ARC, which judges a page before
    /// choosing its victim.
    pub incoming: Option<ShadowEntry>,
    /// The command of a request.
    pub command: Option<GenCommand>,
    /// True if the world demotes victims first. Dirty victims then need no write-back.
    pub demotes: bool,
    /// True if generations younger than `min_ttl` may be evicted.
    pub ignores_age: bool,
    /// True if the pass ended because all is younger than `min_ttl`: out of memory.
    pub too_young: bool,
    /// True in the second round, without the protections that may starve reclaim.
    pub forced: bool,
    /// True if a protection was met that a forced round ignores.
    pub skipped: bool,
    /// Group state of one lruvec among several.
    pub group: GroupScan,
}

impl Scan {
    #[inline]
    pub(crate) fn new(kind: ReclaimKind, target: u64) -> Scan {
        Scan {
            kind,
            priority: DEF_PRIORITY,
            target,
            victims_max: VICTIMS_MAX,
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

    /// Returns true if the target is met.
    pub fn is_satisfied(&self) -> bool {
        self.reclaimed >= self.target
    }

    /// Returns true if memory as a whole is short, or may soon be (background thread).
    pub fn is_global(&self) -> bool {
        self.kind == ReclaimKind::Background || self.group.is_global
    }

    /// Returns true if the pass may end in the middle of a round.
    pub fn may_stop(&self) -> bool {
        self.is_satisfied() && self.is_global()
    }

    /// Returns the number of victims still wanted, at most one batch.
    pub fn nr_victims_wanted(&self) -> usize {
        self.target.saturating_sub(self.reclaimed).min(self.victims_max as u64) as usize
    }

    /// Returns true if more victims were dirty than reclaimed: time to write.
    pub fn wants_flusher(&self) -> bool {
        self.dirty > self.reclaimed
    }

    /// Returns the flags that forbid eviction until written. The multi-gen LRUs of 6.18 and 6.1
    /// have their own rule: dirty file pages go to the flusher even if they could be demoted.
    pub const fn unclean(&self) -> Flags {
        if self.demotes { Flags::WRITEBACK } else { Flags::DIRTY.with(Flags::WRITEBACK) }
    }

    /// Returns true if a folio needs writing and no trial. A [mapped](Flags::MAPPED) folio is tried
    /// for its young bit first.
    pub const fn waits_for_writing(&self, flags: Flags) -> bool {
        flags.any(self.unclean()) && !flags.any(Flags::MAPPED)
    }

    /// Counts scanned folios.
    pub fn count_scanned(&mut self, nr: u64) {
        self.scanned += nr;
    }
}

/// The group state of a lruvec during a visit. Default: a lone lruvec under its own limit.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct GroupScan {
    /// True if memory as a whole is short, not a group's.
    pub is_global: bool,
    /// The protected part of the group's memory.
    pub share: Share,
    /// The eviction clock, if another group's limit is the cause.
    pub clock: Option<CauseClock>,
    /// Reclaimed pages at which the group reaches its protection and the visit ends.
    pub end: Option<u64>,
}

impl GroupScan {
    /// Returns true if more reclaim would reach protected memory.
    pub fn has_given_enough(&self, scan: &Scan) -> bool {
        self.end.is_some_and(|end| scan.reclaimed >= end)
    }
}

/// The protected part of a group's memory. It shortens every scan of the group.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Share {
    /// Protected pages, 0 for none.
    pub protected: u64,
    /// Used pages.
    pub usage: u64,
}

impl Share {
    /// Returns the part of `size` folios to scan, without the protected share. At least one batch,
    /// so that a group just above its protection is still scanned.
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

//! The design proposed in May 2013: a refault challenges an active page.
//!
//! ```text
//!   evicted:    clock += 1; the file's debt decides if a shadow is left
//!   refault:    D <= active file  -->  stays inactive, and shrink_active += 1
//!   a scan:     the active file list is shrunk while shrink_active > 0; n scanned: -= n
//!   an access that activates:  shrink_active -= 1, if it is above 0
//! ```
//!
//! For each page that would have fitted, one active page moves to the inactive list, and both have
//! one trip to be accessed again.
//!
//! Scans by the 50 % rule count too. Under a steady load they keep `shrink_active` far below zero,
//! and the design decides as one without history.
//!
//! Counters: `workingset_stale` counts refaults too far away, `workingset_balance` challenges, and
//! `workingset_balance_force` challenges while the inactive list was not low.
//!
//! Ignored: several zones, anonymous pages (ignored by the original too), and the exception for
//! zones with many free pages. All frames are dirtyable pages.
//!
//! Source: the second posting of "thrash detection-based file cache sizing", 30 May 2013.

use super::{
    DeactivationCheck, Design, FileDebts, FolioState, RefaultVerdict, ShadowShrinker,
    is_low_before_ratio,
};
use crate::ids::PageType;
use crate::lru::refault_distance::{ListPages, NonresidentAge};
use crate::lru::{Context, LruConfig, LruvecId, Mechanism, ShadowEntry, Switches};
use crate::vmstat::Counter;

const FILE: usize = PageType::File.index();

/// Refault distance as proposed in 2013.
#[derive(Debug)]
pub struct Challenge {
    id: LruvecId,
    switches: Switches,
    clock: NonresidentAge,
    dirtyable: u64,
    debts: FileDebts,
    shrinker: ShadowShrinker,
    /// Active file folios still to challenge. Scans take whole pieces, so it may be negative.
    shrink_active: i64,
}

impl Challenge {
    #[cfg(test)]
    pub(in crate::lru::kernel::active_inactive) fn shrink_active(&self) -> i64 {
        self.shrink_active
    }
}

impl Design for Challenge {
    const DEACTIVATION_CHECK: DeactivationCheck = DeactivationCheck::EachPiece;
    const FORCES: bool = false;

    fn new(config: &LruConfig) -> Challenge {
        Challenge {
            id: config.id,
            switches: config.switches,
            clock: NonresidentAge::default(),
            dirtyable: u64::from(config.nr_frames),
            debts: FileDebts::new(config.nr_frames),
            shrinker: ShadowShrinker::new(config.nr_frames),
            shrink_active: 0,
        }
    }

    fn evicted(&mut self, subject: FolioState) -> Option<ShadowEntry> {
        if subject.flags.page_type() == PageType::Anon {
            return None;
        }
        self.clock.advance(1);
        if self.switches.has(Mechanism::ShadowThrottle)
            && !self.debts.plants(subject.mapping, self.clock.read())
        {
            return None;
        }
        self.shrinker.planted();
        Some(self.clock.shadow(self.id, false))
    }

    fn refault(
        &mut self,
        cx: &mut Context<'_>,
        subject: FolioState,
        shadow: ShadowEntry,
        sizes: ListPages,
    ) -> RefaultVerdict {
        if shadow.lruvec() != self.id {
            return RefaultVerdict::Stays;
        }
        if self.shrinker.take(shadow) {
            return RefaultVerdict::Forgotten;
        }
        if self.switches.has(Mechanism::ShadowThrottle) {
            self.debts.repay(subject.mapping);
        }
        let is_longer_than_memory = !self.clock.is_recent(shadow, self.dirtyable);
        if is_longer_than_memory || !self.clock.is_recent(shadow, sizes.active[FILE]) {
            cx.vmstat.count(Counter::WorkingsetStale);
            return RefaultVerdict::Stays;
        }
        if !self.switches.has(Mechanism::Challenge) {
            self.clock.advance(1);
            return RefaultVerdict::Activates;
        }
        cx.vmstat.count(Counter::WorkingsetBalance);
        if !is_low_before_ratio(&sizes, PageType::File) {
            cx.vmstat.count(Counter::WorkingsetBalanceForce);
        }
        self.shrink_active += 1;
        RefaultVerdict::Stays
    }

    fn activated(&mut self, page_type: PageType) {
        if page_type == PageType::File {
            self.clock.advance(1);
            if self.shrink_active > 0 {
                self.shrink_active -= 1;
            }
        }
    }

    fn is_low(&self, read: &ListPages, page_type: PageType) -> bool {
        (page_type == PageType::File && self.shrink_active > 0)
            || is_low_before_ratio(read, page_type)
    }

    fn shrank_active(&mut self, page_type: PageType, nr: u64) {
        if page_type == PageType::File {
            self.shrink_active = self.shrink_active.saturating_sub_unsigned(nr);
        }
    }

    fn pass_ended(&mut self, _cx: &Context<'_>, _sizes: ListPages) {
        if self.switches.has(Mechanism::ShadowShrinker) {
            self.shrinker.shrink(self.clock);
        }
    }
}

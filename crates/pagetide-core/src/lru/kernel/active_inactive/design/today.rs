//! The design of Linux 6.18: both types, a ratio by memory size, permission by refaults.
//!
//! ```text
//!   evicted:  shadow = age, age += 1            (so an immediate refault is 1 place away)
//!   refault:  D <= W     -->  active at once; if it was active before: restored, and charged
//!   permission:  inactive list low by the ratio, or refaults were activated since the last pass
//! ```
//!
//! 7.3 differs in one mechanism, off by default: `counted-costs`. In nested memory groups,
//! [`Groups`](crate::group::Groups) carries ages and refaults between lruvecs. Source: Linux 6.18's
//! workingset detection and reclaim.

use super::{DeactivationCheck, Design, FolioState, RefaultVerdict};
use crate::folio::Flags;
use crate::ids::PageType;
use crate::lru::kernel::active_inactive::balance::{active_is_longer, inactive_is_low};
use crate::lru::kernel::active_inactive::cost::ReclaimCost;
use crate::lru::kernel::active_inactive::statistics::SummarySource;
use crate::lru::refault_distance::{ListPages, NonresidentAge, refault_threshold};
use crate::lru::{Context, LruConfig, LruvecId, Mechanism, ShadowEntry, Switches};

/// Refault distance and permissions as of 6.18.
#[derive(Debug)]
pub struct Today {
    id: LruvecId,
    can_swap: bool,
    switches: Switches,
    frames_stand_for: u64,
    age: NonresidentAge,
    statistics: SummarySource,
    /// At the end of the last pass.
    activated_then: [u64; 2],
}

impl Today {
    /// Models a machine with `frames_stand_for` frames per frame.
    pub(in crate::lru::kernel::active_inactive) fn scaled(
        config: &LruConfig,
        frames_stand_for: u32,
    ) -> Today {
        Today { frames_stand_for: frames_stand_for.into(), ..Today::new(config) }
    }

    #[cfg(test)]
    pub(in crate::lru::kernel::active_inactive) fn age_mut(&mut self) -> &mut NonresidentAge {
        &mut self.age
    }
}

impl Design for Today {
    const DEACTIVATION_CHECK: DeactivationCheck = DeactivationCheck::EachRound;
    const FORCES: bool = true;

    fn new(config: &LruConfig) -> Today {
        Today {
            id: config.id,
            can_swap: config.can_swap,
            switches: config.switches,
            frames_stand_for: 1,
            age: NonresidentAge::default(),
            statistics: SummarySource::new(config.statistics),
            activated_then: [0; 2],
        }
    }

    fn costs(config: &LruConfig) -> ReclaimCost {
        if config.switches.has(Mechanism::CountedCosts) {
            ReclaimCost::counted(config.statistics)
        } else {
            ReclaimCost::default()
        }
    }

    fn evicted(&mut self, subject: FolioState) -> Option<ShadowEntry> {
        Some(self.age.evict(self.id, subject.flags.any(Flags::WORKINGSET)))
    }

    fn refault(
        &mut self,
        cx: &mut Context<'_>,
        subject: FolioState,
        shadow: ShadowEntry,
        sizes: ListPages,
    ) -> RefaultVerdict {
        let read = self.read(cx, sizes);
        let is_recent = self.is_recent(shadow, subject.flags.page_type(), &read) == Some(true);
        self.refault_judged(shadow, is_recent && shadow.lruvec() == self.id)
    }

    fn refault_judged(&mut self, shadow: ShadowEntry, is_recent: bool) -> RefaultVerdict {
        if !is_recent {
            return RefaultVerdict::Stays;
        }
        self.age.advance(1);
        if shadow.workingset() { RefaultVerdict::Restores } else { RefaultVerdict::Activates }
    }

    fn is_recent(
        &self,
        shadow: ShadowEntry,
        page_type: PageType,
        sizes: &ListPages,
    ) -> Option<bool> {
        let threshold = refault_threshold(sizes, page_type, self.can_swap);
        Some(self.age.is_recent(shadow, threshold))
    }

    fn clock(&self) -> Option<NonresidentAge> {
        Some(self.age)
    }

    fn clock_mut(&mut self) -> Option<&mut NonresidentAge> {
        Some(&mut self.age)
    }

    fn activated(&mut self, _page_type: PageType) {
        self.age.advance(1);
    }

    fn put_back_active(&mut self) {
        self.age.advance(1);
    }

    fn read(&self, cx: &Context<'_>, sizes: ListPages) -> ListPages {
        self.statistics.read(cx, sizes).sizes
    }

    fn fold(&mut self, cx: &Context<'_>, sizes: ListPages) {
        self.statistics.fold(cx, sizes);
    }

    fn is_low(&self, read: &ListPages, page_type: PageType) -> bool {
        let (inactive, active) = (read.inactive[page_type.index()], read.active[page_type.index()]);
        if self.switches.has(Mechanism::SqrtRatio) {
            inactive_is_low(inactive * self.frames_stand_for, active * self.frames_stand_for)
        } else {
            active_is_longer(inactive, active)
        }
    }

    /// Permits deactivation if the list is low, or if refaults were activated since the last pass:
    /// then pages that would fit are evicted. Tests for inequality, not growth.
    fn may_deactivate(&self, cx: &Context<'_>, read: &ListPages, page_type: PageType) -> bool {
        let at = page_type.index();
        let activated_now = self.statistics.read(cx, *read).activated[at];
        let has_refaulted = activated_now != self.activated_then[at];
        (has_refaulted && self.switches.has(Mechanism::RefaultDeactivation))
            || self.is_low(read, page_type)
    }

    fn pass_ended(&mut self, cx: &Context<'_>, sizes: ListPages) {
        self.activated_then = self.statistics.read(cx, sizes).activated;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folio::Folios;
    use crate::units::Millis;
    use crate::vmstat::{Counter, VmStat};

    fn may_deactivate(switches: Switches, sizes: &ListPages, nr_activated: u64) -> [bool; 2] {
        let mut today = Today::new(&LruConfig { switches, ..LruConfig::file_only(8) });
        let (folios, mut vmstat) = (Folios::new(1), VmStat::default());
        vmstat.add(Counter::WorkingsetActivateFile, 7);
        let cx = Context { folios: &folios, vmstat: &mut vmstat, now: Millis::default() };
        today.pass_ended(&cx, *sizes);
        vmstat.add(Counter::WorkingsetActivateFile, nr_activated);
        let cx = Context { folios: &folios, vmstat: &mut vmstat, now: Millis::default() };
        PageType::ALL.map(|page_type| today.may_deactivate(&cx, sizes, page_type))
    }

    #[test]
    fn activated_refault_permits_deactivation_unless_switched_off() {
        let sizes = ListPages { inactive: [10, 100], active: [100, 100] };
        let all = Switches::default();
        assert_eq!(may_deactivate(all, &sizes, 0), [true, false], "anon is low, without refaults");
        assert_eq!(may_deactivate(all, &sizes, 1), [true, true]);
        let off = all.without(Mechanism::RefaultDeactivation);
        assert_eq!(may_deactivate(off, &sizes, 1), [true, false]);
    }

    /// 4 GiB, a quarter inactive: not low at ratio 6, low at ratio 1.
    #[test]
    fn without_the_ratio_half_of_a_large_memory_stays_inactive() {
        let sizes = ListPages { inactive: [0, 262_144], active: [0, 786_432] };
        let all = Switches::default();
        assert_eq!(may_deactivate(all, &sizes, 0), [false, false]);
        assert_eq!(may_deactivate(all.without(Mechanism::SqrtRatio), &sizes, 0), [false, true]);
    }
}

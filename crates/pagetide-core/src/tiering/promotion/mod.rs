//! Hot-page selection: decides promotion after a hint fault.
//!
//! **Problem.** Promoting every touched page promotes the *last* touched ones, a weak signal after
//! a scan period of a minute, and moves more pages than pay.
//!
//! **Idea.** The time from scan to fault approximates the reuse interval: short means hot. The
//! threshold adapts until the number of hot pages matches a rate limit.
//!
//! ```text
//!   hint fault --> free space? --yes----------------------------------------+
//!                     | no                                                  |
//!                     v                                                     v
//!                  adjust the threshold (once a period)              movable? room at HIGH?
//!                     v                                                     ^
//!                  latency < threshold? --> C += 1 --> C of this window < R-+
//!                     | no: too cold                      | no: rate limited
//! ```
//!
//! **Data and invariants.** One [`Promotion`] per fast node. `C` counts all candidates, rejected
//! ones included, so that the threshold can fall. Windows are lazy: the first fault after the end
//! starts the next, uncounted. The order of steps is the kernel's: the free-space test changes
//! neither `C` nor the stamp.
//!
//! **Ignored.** Promotion without faults (of the kernel's page cache), and several zones per node.
//!
//! **Source.** Linux 6.18's NUMA balancing. "memory tiering: hot page selection", Huang Ying, 2022.
//! The switches, and a rate window other than a second, are original.

use super::auto::{Auto, TierCosts, Worth};
use super::decision::{Decision, HintFaultAction, PromotionReason, Refusals};
use super::hint_stamp::{hint_latency, hint_stamp};
use super::knobs::TieringKnobs;
use super::{EntryFacts, Migration, TieringSwitches};
use crate::folio::{Flags, Folio};
use crate::ids::PageIndex;
use crate::page_alloc::{WatermarkLevel, Zone};
use crate::units::Millis;
use crate::vmstat::{Counter, VmStat};

/// Steps of the threshold from 0 to twice the default.
const THRESHOLD_STEPS: u64 = 16;

/// A fault on an armed page of a slow node.
#[derive(Clone, Copy)]
pub struct HintFault<'a> {
    /// Folio of the page. The stamp is renewed.
    pub folio: &'a Folio,
    /// Frames of the folio.
    pub nr_frames: u64,
}

/// Free memory of the fast node, in frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Headroom {
    /// Frames of the node. 0 makes it no target.
    pub nr_frames: u64,
    /// Free frames.
    pub nr_free: u64,
    /// HIGH watermark.
    pub high: u64,
    /// PROMO watermark.
    pub promo: u64,
}

impl Headroom {
    /// Returns the headroom of a one-zone node.
    pub fn of(zone: &Zone) -> Headroom {
        let marks = zone.watermarks();
        Headroom {
            nr_frames: u64::from(zone.nr_managed()),
            nr_free: zone.nr_free(),
            high: marks.mark(WatermarkLevel::High),
            promo: marks.mark(WatermarkLevel::Promo),
        }
    }

    /// Returns true if so many frames fit above HIGH. Equality fails.
    pub const fn admits(&self, nr_frames: u64) -> bool {
        self.nr_free > self.high + nr_frames
    }

    /// Returns true if half of the frames between HIGH and PROMO are used: the world then wakes
    /// background reclaim.
    pub const fn is_short(&self) -> bool {
        self.nr_free <= self.high + (self.promo - self.high) / 2
    }

    /// Returns true if free memory makes selection unnecessary.
    const fn is_ample(&self, free_space_frames: u64) -> bool {
        let sixteenth = self.nr_frames / 16;
        let enough = if sixteenth > free_space_frames { sixteenth } else { free_space_frames };
        self.nr_free > self.promo + enough
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct Window {
    start: Millis,
    nr_candidates: u64,
}

impl Window {
    fn is_over(&self, now: Millis, length: Millis) -> bool {
        now.0.saturating_sub(self.start.0) > length.0
    }
}

/// Promotion to one fast node.
///
/// # Concurrency
/// Protected by a leaf lock of the world. If time goes back, no window ends.
#[derive(Clone, Debug)]
pub struct Promotion {
    knobs: TieringKnobs,
    switches: TieringSwitches,
    /// 0 is the default.
    threshold: u64,
    adjusting: Window,
    limiting: Window,
    /// Replaces threshold and limit.
    auto: Option<Auto>,
    vmstat: VmStat,
    refusals: Refusals,
}

impl Promotion {
    /// Creates the state without history.
    pub fn new(knobs: &TieringKnobs, switches: TieringSwitches) -> Promotion {
        knobs.check().expect("knobs were checked where they came from");
        Promotion {
            knobs: *knobs,
            switches,
            threshold: 0,
            adjusting: Window::default(),
            limiting: Window::default(),
            auto: None,
            vmstat: VmStat::default(),
            refusals: Refusals::default(),
        }
    }

    /// Resets the threshold when tiering is turned on.
    pub fn restart(&mut self, now: Millis) {
        self.threshold = 0;
        self.adjusting = Window { start: now, nr_candidates: self.nr_candidates() };
    }

    /// Decides on a fault on an armed page of a slow node, by a CPU of this node.
    ///
    /// The caller has taken the page's hint. Counts candidates and refusals, not moves.
    ///
    /// # Cost
    /// O(1).
    pub fn decide(&mut self, now: Millis, fault: &HintFault<'_>, room: &Headroom) -> Decision {
        let decision = self.judge(now, fault, room);
        self.refusals.note(decision);
        decision
    }

    fn judge(&mut self, now: Millis, fault: &HintFault<'_>, room: &Headroom) -> Decision {
        if room.nr_frames == 0 {
            return Decision::NoTarget;
        }
        let because = match self.select(now, fault, room) {
            Ok(because) => because,
            Err(refusal) => return refusal,
        };
        if is_unmovable(fault.folio.flags()) {
            Decision::Unmovable
        } else if room.admits(fault.nr_frames) {
            Decision::Promote(because)
        } else {
            Decision::NoRoom
        }
    }

    fn select(
        &mut self,
        now: Millis,
        fault: &HintFault<'_>,
        room: &Headroom,
    ) -> Result<PromotionReason, Decision> {
        if self.switches.is_base() {
            return Ok(PromotionReason::Touched);
        }
        if self.switches.auto {
            return self.select_by_cost(now, fault, room);
        }
        if room.is_ample(self.knobs.free_space_frames) {
            self.threshold = 0;
            self.vmstat.add(Counter::PgpromoteCandidateNrl, fault.nr_frames);
            return Ok(PromotionReason::FreeSpace);
        }
        if self.switches.auto_threshold {
            self.adjust_threshold(now);
        }
        if self.switches.hot_selection
            && self.take_latency(now, fault.folio) >= self.hot_threshold()
        {
            return Err(Decision::TooCold);
        }
        self.vmstat.add(Counter::PgpromoteCandidate, fault.nr_frames);
        if self.switches.rate_limit && !self.is_within_rate(now) {
            return Err(Decision::RateLimited);
        }
        Ok(PromotionReason::Hot)
    }

    fn select_by_cost(
        &mut self,
        now: Millis,
        fault: &HintFault<'_>,
        room: &Headroom,
    ) -> Result<PromotionReason, Decision> {
        let latency = self.take_latency(now, fault.folio);
        let auto = self.auto.get_or_insert_with(|| Auto::new(room.nr_frames));
        auto.tell_time(now);
        let worth = auto.judge(latency, fault.folio);
        if room.nr_free > room.promo + room.nr_frames / 16 {
            return Ok(PromotionReason::FreeSpace);
        }
        match worth {
            Worth::Cold => return Err(Decision::TooCold),
            Worth::Unsure => return Err(Decision::Unsure),
            Worth::Hot => {}
        }
        self.vmstat.add(Counter::PgpromoteCandidate, fault.nr_frames);
        if auto.is_affordable() { Ok(PromotionReason::Hot) } else { Err(Decision::RateLimited) }
    }

    /// Records the current costs, a few times a second. No effect with knobs.
    pub fn tell_costs(&mut self, now: Millis, room: &Headroom, costs: &TierCosts) {
        if self.switches.auto {
            let auto = self.auto.get_or_insert_with(|| Auto::new(room.nr_frames));
            auto.tell_costs(now, costs);
        }
    }

    /// Returns the cost-based policy, if active.
    pub fn auto(&self) -> Option<&Auto> {
        self.auto.as_ref()
    }

    /// Records a move to `folio`. Returns true to arm the page now. The stamp is already set.
    #[must_use]
    pub fn arms_moved(&mut self, now: Millis, folio: &Folio, migration: Migration) -> bool {
        let Some(auto) = &mut self.auto else { return false };
        auto.tell_time(now);
        match migration {
            Migration::Promotion => auto.note_promoted(folio),
            Migration::Demotion => auto.note_demoted(folio),
        }
        folio.swap_hint_stamp(hint_stamp(now));
        true
    }

    /// Returns true if a scan arms the page's word: pages of slow nodes, and without knobs a sample
    /// of fast pages. Stamps the folio first.
    #[must_use]
    pub fn arms(
        &mut self,
        now: Millis,
        page: PageIndex,
        folio: &Folio,
        entry: &EntryFacts,
    ) -> bool {
        let may_be_sample = entry.is_top_tier && !entry.is_armed;
        let auto = self.auto.as_mut().filter(|_| may_be_sample);
        let is_sample = auto.is_some_and(|auto| auto.wants_fast(page.0));
        let is_armed = is_sample || entry.wants_hint();
        if is_armed {
            folio.swap_hint_stamp(hint_stamp(now));
        }
        is_armed
    }

    /// Returns the time to the next scan run by cost. `None` with knobs.
    pub fn run_period(&self, nr_pages: u64) -> Option<Millis> {
        let nr_runs = nr_pages.div_ceil(self.knobs.scan_pages).max(1);
        self.auto.as_ref().map(|auto| Millis((auto.pass().0 / nr_runs).max(1)))
    }

    /// Handles a fault on an armed fast page.
    pub fn note_fast_fault(&mut self, now: Millis, folio: &Folio) -> HintFaultAction {
        let latency = self.take_latency(now, folio);
        let Some(auto) = &mut self.auto else { return HintFaultAction::Stay };
        auto.tell_time(now);
        if auto.note_fast(latency, folio) { HintFaultAction::Arm } else { HintFaultAction::Stay }
    }

    /// Returns true if a victim is too hot to demote: refuse it as young.
    #[must_use]
    pub fn spares(&mut self, now: Millis, folio: &Folio, is_armed: bool) -> bool {
        let waited = is_armed.then(|| hint_latency(now, folio.hint_stamp()));
        self.auto.as_mut().is_some_and(|auto| auto.spares(folio, waited))
    }

    /// Moves the threshold by a step per period.
    fn adjust_threshold(&mut self, now: Millis) {
        let period = self.knobs.scan_period_max;
        if !self.adjusting.is_over(now, period) {
            return;
        }
        let nr_wanted = self.knobs.promote_rate_frames * period.0 / 1000;
        let nr_found = self.nr_candidates() - self.adjusting.nr_candidates;
        let highest = 2 * self.knobs.hot_threshold.0;
        let step = highest / THRESHOLD_STEPS;
        let threshold = self.hot_threshold().0;
        self.threshold = if nr_found > nr_wanted * 11 / 10 {
            threshold.saturating_sub(step).max(step)
        } else if nr_found < nr_wanted * 9 / 10 {
            (threshold + step).min(highest)
        } else {
            threshold
        };
        self.adjusting = Window { start: now, nr_candidates: self.nr_candidates() };
    }

    fn is_within_rate(&mut self, now: Millis) -> bool {
        let length = self.knobs.rate_window;
        if self.limiting.is_over(now, length) {
            self.limiting = Window { start: now, nr_candidates: self.nr_candidates() };
        }
        let nr_allowed = self.knobs.promote_rate_frames * length.0 / 1000;
        self.nr_candidates() - self.limiting.nr_candidates < nr_allowed
    }

    /// Returns the time since arming, and renews the stamp.
    fn take_latency(&self, now: Millis, folio: &Folio) -> Millis {
        let stored = folio.swap_hint_stamp(hint_stamp(now));
        hint_latency(now, stored)
    }

    /// Returns the latency below which a page is hot.
    pub fn hot_threshold(&self) -> Millis {
        match (&self.auto, self.threshold) {
            (Some(auto), _) => auto.threshold(),
            (None, 0) => self.knobs.hot_threshold,
            (None, adjusted) => Millis(adjusted),
        }
    }

    /// Returns the candidates `C` so far, in frames.
    pub fn nr_candidates(&self) -> u64 {
        self.vmstat.read(Counter::PgpromoteCandidate)
    }

    /// Counts a fault on an armed page of any node.
    pub fn count_hint_fault(&mut self, is_local: bool) {
        self.vmstat.count(Counter::NumaHintFaults);
        self.vmstat.add(Counter::NumaHintFaultsLocal, is_local.into());
    }

    /// Counts frames armed by a hint scan.
    pub fn count_armed(&mut self, nr_words: u64) {
        self.vmstat.add(Counter::NumaPteUpdates, nr_words);
    }

    /// Counts promoted frames.
    pub fn count_promoted(&mut self, nr_frames: u64) {
        self.vmstat.add(Counter::NumaPagesMigrated, nr_frames);
        self.vmstat.add(Counter::PgpromoteSuccess, nr_frames);
    }

    /// Returns the node's tiering counters.
    pub fn vmstat(&self) -> &VmStat {
        &self.vmstat
    }

    /// Returns the counts of faults without a move.
    pub fn refusals(&self) -> &Refusals {
        &self.refusals
    }
}

/// Moves wait for no write, and leave no file page newer than its store.
fn is_unmovable(flags: Flags) -> bool {
    flags.is_dirty_file() || flags.any(Flags::WRITEBACK)
}

#[cfg(test)]
mod tests;

//! Whether a page that faulted is promoted: hot-page selection.
//!
//! **Problem.** A page was touched after the scan armed it. Promoting all such pages promotes what
//! was touched *last*, which after a scan period of a minute says little, and moves pages at a rate
//! that costs more than it gains.
//!
//! **Idea.** The time from scan to fault is about the page's reuse interval: short means hot. Hot
//! pages pass a rate limit. And as it is not known which interval is hot, the threshold moves until
//! there are as many hot pages as the limit lets pass.
//!
//! ```text
//!   hint fault --> room to spare? --yes-------------------------------------+
//!                     | no                                                  |
//!                     v                                                     v
//!                  adjust the threshold (once a period)              movable? room at HIGH?
//!                     v                                                     ^
//!                  latency < threshold? --> C += 1 --> C of this window < R-+
//!                     | no: too cold                      | no: rate limited
//! ```
//!
//! **Data and invariants.** One [`Promotion`] for each fast node. `C`, the candidates, counts every
//! hot page, also those that the limit turns away: that is how the threshold sees that it lets too
//! many in. Windows are lazy: one starts with the first fault after the last is over, and the
//! candidate that starts it is not in its count. The order of the steps matters and is the
//! kernel's: room to spare touches neither `C` nor the page's stamp.
//!
//! **Deliberately ignored.** Promotion of pages without faults (the page cache of system
//! calls, in the kernel), and more than one zone a node.
//!
//! Source: the tiering specification, sections 4, 5 and 7 (Linux 6.1 and 6.18). Switching parts of
//! it off, and a rate window other than a second, are our own.

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

/// The threshold moves in this many steps from nothing to twice its default.
const THRESHOLD_STEPS: u64 = 16;

/// A fault on an armed page of a slow node.
#[derive(Clone, Copy)]
pub struct HintFault<'a> {
    /// The page's folio: its stamp is read and renewed, its flags are read.
    pub folio: &'a Folio,
    /// How many frames it has.
    pub nr_frames: u64,
}

/// How much room the fast node has. In frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Headroom {
    /// Frames the node has; none, and it is no page's destination.
    pub nr_frames: u64,
    /// Those that are free.
    pub nr_free: u64,
    /// Its HIGH watermark.
    pub high: u64,
    /// Its PROMO watermark.
    pub promo: u64,
}

impl Headroom {
    /// The room of a node that is one zone.
    pub fn of(zone: &Zone) -> Headroom {
        let marks = zone.watermarks();
        Headroom {
            nr_frames: u64::from(zone.nr_managed()),
            nr_free: zone.nr_free(),
            high: marks.mark(WatermarkLevel::High),
            promo: marks.mark(WatermarkLevel::Promo),
        }
    }

    /// Whether so many frames may be moved there: what reclaim keeps free stays so. Equality fails,
    /// as in every watermark check.
    pub const fn admits(&self, nr_frames: u64) -> bool {
        self.nr_free > self.high + nr_frames
    }

    /// Whether half of what promotions live on is used up, so that the world wakes background
    /// reclaim of the node: after a promotion, so that the next need not be refused.
    pub const fn is_short(&self) -> bool {
        self.nr_free <= self.high + (self.promo - self.high) / 2
    }

    /// Whether there is so much that nothing need be chosen.
    const fn is_ample(&self, free_space_frames: u64) -> bool {
        let sixteenth = self.nr_frames / 16;
        let enough = if sixteenth > free_space_frames { sixteenth } else { free_space_frames };
        self.nr_free > self.promo + enough
    }
}

/// When a window began, and how many candidates there had been.
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

/// The promotions to one fast node.
///
/// # Concurrency
/// Behind a lock of the world's, which needs no other. The time it is told never goes back; where
/// it does, no window ends.
#[derive(Clone, Debug)]
pub struct Promotion {
    knobs: TieringKnobs,
    switches: TieringSwitches,
    /// 0 stands for the default.
    threshold: u64,
    adjusting: Window,
    limiting: Window,
    /// In charge instead of all that, once it is known how large the node is.
    auto: Option<Auto>,
    vmstat: VmStat,
    refusals: Refusals,
}

impl Promotion {
    /// Nothing promoted yet.
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

    /// Forgets what it found out about the threshold: tiering is turned on, now.
    pub fn restart(&mut self, now: Millis) {
        self.threshold = 0;
        self.adjusting = Window { start: now, nr_candidates: self.nr_candidates() };
    }

    /// Judges a fault on an armed page of a slow node, by a CPU of this fast one.
    ///
    /// The page's hint was taken by the caller, so that no other thread judges the same fault.
    /// Counts candidates and refusals; the world counts what it then does.
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

    /// Whether the page should be promoted, as far as that follows from its heat.
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

    /// Whether promoting the page is expected to pay.
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

    /// Notes what accesses, faults and moves cost now, a few times a second. Without knobs, all
    /// follows from it; otherwise it does nothing.
    pub fn tell_costs(&mut self, now: Millis, room: &Headroom, costs: &TierCosts) {
        if self.switches.auto {
            let auto = self.auto.get_or_insert_with(|| Auto::new(room.nr_frames));
            auto.tell_costs(now, costs);
        }
    }

    /// The judge of costs and benefits, if it is in charge and has been told any.
    pub fn auto(&self) -> Option<&Auto> {
        self.auto.as_ref()
    }

    /// A page was moved, and `folio` is its new one. `true`: the world arms it now, wherever it is;
    /// the stamp says so already.
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

    /// Whether a scan arms a page's word: those of slow nodes, and without knobs a sample of
    /// the fast node's pages. Its folio is stamped then: before the word is armed, so that a fault
    /// between the two finds it.
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

    /// How long until the scan's next run of a world with so many pages to scan; without knobs a
    /// round takes as long as is worth it. `None`: as [`HintScan`](super::HintScan) has it.
    pub fn run_period(&self, nr_pages: u64) -> Option<Millis> {
        let nr_runs = nr_pages.div_ceil(self.knobs.scan_pages).max(1);
        self.auto.as_ref().map(|auto| Millis((auto.pass().0 / nr_runs).max(1)))
    }

    /// A page of the fast node, armed when it was moved there or as a sample, was touched.
    pub fn note_fast_fault(&mut self, now: Millis, folio: &Folio) -> HintFaultAction {
        let latency = self.take_latency(now, folio);
        let Some(auto) = &mut self.auto else { return HintFaultAction::Stay };
        auto.tell_time(now);
        if auto.note_fast(latency, folio) { HintFaultAction::Arm } else { HintFaultAction::Stay }
    }

    /// Whether a victim that reclaim would demote is too hot for that, as far as is known. `true`:
    /// it is refused as young.
    #[must_use]
    pub fn spares(&mut self, now: Millis, folio: &Folio, is_armed: bool) -> bool {
        let waited = is_armed.then(|| hint_latency(now, folio.hint_stamp()));
        self.auto.as_mut().is_some_and(|auto| auto.spares(folio, waited))
    }

    /// Once a period, moves the threshold by a step if the candidates were not about as many as the
    /// rate limit lets pass.
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

    /// Whether the candidate that was just counted is within the window's share of the rate.
    fn is_within_rate(&mut self, now: Millis) -> bool {
        let length = self.knobs.rate_window;
        if self.limiting.is_over(now, length) {
            self.limiting = Window { start: now, nr_candidates: self.nr_candidates() };
        }
        let nr_allowed = self.knobs.promote_rate_frames * length.0 / 1000;
        self.nr_candidates() - self.limiting.nr_candidates < nr_allowed
    }

    /// How long ago the page was armed. Its stamp says now, afterwards.
    fn take_latency(&self, now: Millis, folio: &Folio) -> Millis {
        let stored = folio.swap_hint_stamp(hint_stamp(now));
        hint_latency(now, stored)
    }

    /// The latency below which a page is hot.
    pub fn hot_threshold(&self) -> Millis {
        match (&self.auto, self.threshold) {
            (Some(auto), _) => auto.threshold(),
            (None, 0) => self.knobs.hot_threshold,
            (None, adjusted) => Millis(adjusted),
        }
    }

    /// Hot pages so far, in frames: `C`.
    pub fn nr_candidates(&self) -> u64 {
        self.vmstat.read(Counter::PgpromoteCandidate)
    }

    /// Counts a fault on an armed page, wherever the page is.
    pub fn count_hint_fault(&mut self, is_local: bool) {
        self.vmstat.count(Counter::NumaHintFaults);
        self.vmstat.add(Counter::NumaHintFaultsLocal, is_local.into());
    }

    /// Counts frames that a hint scan armed.
    pub fn count_armed(&mut self, nr_words: u64) {
        self.vmstat.add(Counter::NumaPteUpdates, nr_words);
    }

    /// Counts a promotion that succeeded.
    pub fn count_promoted(&mut self, nr_frames: u64) {
        self.vmstat.add(Counter::NumaPagesMigrated, nr_frames);
        self.vmstat.add(Counter::PgpromoteSuccess, nr_frames);
    }

    /// The node's counters of tiering; add them to the report of its lruvec.
    pub fn vmstat(&self) -> &VmStat {
        &self.vmstat
    }

    /// Faults that moved nothing, so far.
    pub fn refusals(&self) -> &Refusals {
        &self.refusals
    }
}

/// Moving waits for no write, and makes no file page newer than its store meanwhile.
fn is_unmovable(flags: Flags) -> bool {
    flags.is_dirty_file() || flags.any(Flags::WRITEBACK)
}

#[cfg(test)]
mod tests;

//! The judgement: may a page displace main's oldest?
//!
//! **Problem.** Main's oldest may be worth more than the page that displaces it.
//!
//! **Idea.** Compare *instants*: the candidate's last access in epoch `e`, and the last access `v`
//! of the victim at main's old end, which has no credits left.
//!
//! ```text
//!            v            e                    now
//!   ---------|------------|---------------------|--->   v < e: the candidate was accessed after
//!            |            |<-- reuse distance ->|       the victim: the LIRS test, without
//!            |<------ victim's recency -------->|       a stack
//! ```
//!
//! This is enough for a page hit on probation. A refaulted page has missed, so it must also fit or
//! win clearly:
//!
//! - its reuse distance is at most memory. It then displaces a folio of main's older half
//!   ([`Ages`](super::Ages)).
//! - or the victim's recency exceeds it by a quarter. In a loop longer than memory both equal the
//!   loop's length, so an idle set is kept as long as its last access is known.
//!
//! A folio with credits pays one and goes to the young end. So a judgement is O(1) amortised,
//! bounded by the setting's `turns`.
//!
//! One device request brings sixteen streamed pages, so a streamed page weighs a sixteenth in the
//! clock and among evictions. Distances are compared in pages of the candidate's weight. So a scan
//! does not push out the history of random reads.
//!
//! ```text
//!   since a page was read:   16 of a scan, 1 alone     for a page read alone    2 pages
//!                                                      for a scanned page      32
//! ```
//!
//! **Data and invariants.** No page enters a main without a share
//! ([`Expansion`](super::Expansion)). Such a main is drained before probation, so the page would go
//! before all older ones.

use super::{Engine, Folios, PARTS_A_PAGE, Past, Place, Stamp};

/// Folios without credit that a judgement may pass at main's old end.
const YOUNG_PASSED: u32 = 1;

impl Engine {
    /// Returns true if the page is still remembered.
    pub(in crate::lru::own) fn is_history(&self, past: Past, parts: u64) -> bool {
        let horizon = self.memory() * u64::from(self.tuning.horizon_percent) / 100;
        self.judges_refaults && past.evicted * parts <= horizon
    }

    /// Returns true if a refaulted page goes to main.
    pub(in crate::lru::own) fn judge_return(&mut self, folios: &Folios, page: Stamp) -> bool {
        let Some(distance) = self.distance(page) else {
            return !self.compares_distances && self.judge(folios, page, None);
        };
        if self.setting.moves_hits() {
            self.note_distance(distance, Place::Probation);
        }
        let is_far = distance > self.memory();
        if is_far && self.setting.moves_hits() {
            return !self.is_main_full();
        }
        self.judge(folios, page, is_far.then_some(distance))
    }

    /// Returns an upper bound on the reuse distance, in parts of a page of the same weight.
    pub(super) fn distance(&self, page: Stamp) -> Option<u64> {
        self.clock.at_most(page.epoch).map(|weight| weight * page.parts())
    }

    pub(super) fn memory(&self) -> u64 {
        u64::from(self.capacity) * u64::from(PARTS_A_PAGE)
    }

    /// Compares with the margin.
    fn is_nearer(&self, distance: u64, victim: Stamp) -> bool {
        if !self.compares_distances {
            return true;
        }
        // The victim may be the first access of its own epoch.
        let recency = self.clock.at_least(victim.epoch.wrapping_add(1));
        let margin = u64::from(self.tuning.margin_percent);
        recency.is_none_or(|recency| margin * distance < 100 * recency * victim.parts())
    }

    /// Returns true also for a heavier page that wins by distance.
    fn was_seen_since(&self, page: Stamp, victim: Stamp) -> bool {
        if self.clock.age(victim.epoch) > self.clock.age(page.epoch) {
            return true;
        }
        victim.parts() > page.parts()
            && self.distance(page).is_some_and(|distance| self.is_nearer(distance, victim))
    }

    /// Returns true if the page goes to main. `far` is the distance of a page beyond memory, in
    /// parts of a page, which must win by the margin. If main is full, the victim is then at main's
    /// old end, without credits.
    pub(super) fn judge(&mut self, folios: &Folios, page: Stamp, far: Option<u64>) -> bool {
        if !self.is_main_full() {
            return true;
        }
        if self.main_max == 0 {
            return false;
        }
        let [mut turns, mut young] = [self.setting.turns, YOUNG_PASSED];
        while let Some(tail) = self.main.tail() {
            let folio = &folios[tail];
            let has_credit = folio.hits().count() > 0;
            let victim = Stamp::of(folio);
            if !has_credit && self.was_seen_since(page, victim) {
                match far {
                    Some(distance) => return self.is_nearer(distance, victim),
                    None if self.ages.is_old(&self.clock, victim.epoch) => return true,
                    None => {}
                }
            }
            let left = if has_credit { &mut turns } else { &mut young };
            let Some(fewer) = left.checked_sub(1) else { return false };
            *left = fewer;
            self.use_credit(folio);
            self.main.turn(folios);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::FrameId;
    use crate::lru::Switches;
    use crate::lru::own::tuning::Tuning;

    const CAPACITY: u32 = 160;

    fn full(setting: usize) -> (Engine, Folios) {
        let tuning = Tuning::default();
        let mut engine = Engine::new(CAPACITY, &tuning, Switches::default());
        engine.set_setting(tuning.settings[setting]);
        let folios = Folios::for_one_thread(CAPACITY);
        for frame in (0..engine.main_max).map(FrameId) {
            engine.enter(&folios, frame, Place::Main, None);
        }
        (engine, folios)
    }

    fn access_strangers(engine: &mut Engine, nr: u32) {
        (0..nr).for_each(|_| {
            engine.touch(None, PARTS_A_PAGE);
        });
    }

    #[test]
    fn a_page_that_fits_enters_main_unless_probation_has_its_share() {
        let (mut engine, folios) = full(2);
        access_strangers(&mut engine, CAPACITY / 8);
        let seen_since =
            Stamp { epoch: engine.clock.now(), place: Place::Main, is_streamed: false };
        access_strangers(&mut engine, CAPACITY / 2);
        assert!(engine.judge_return(&folios, seen_since));
        for _ in 0..10 {
            engine.note_distance(engine.memory(), Place::Probation);
        }
        access_strangers(&mut engine, CAPACITY / 16);
        assert!(engine.expansion.is_on());
        assert!(!engine.judge_return(&folios, seen_since));
    }
}

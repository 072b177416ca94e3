//! The judgement: may a page take the place of main's oldest?
//!
//! **Problem.** A page that was hit on probation, or that comes back, wants into a full main. What
//! it displaces may be worth more.
//!
//! **Idea.** Compare *instants*. The page that wants in was accessed before, in epoch `e`. The page
//! at main's old end, once its credits are used up, was last accessed in epoch `v`.
//!
//! ```text
//!            v            e                    now
//!   ---------|------------|---------------------|--->   v < e: the candidate was seen since the
//!            |            |<-- reuse distance ->|       victim was: it is the LIRS test, without
//!            |<------ victim's recency -------->|       a stack
//! ```
//!
//! For a page that was seen again while on probation that is enough. A page that comes back after
//! eviction has missed by definition, so it must also fit, or win clearly:
//!
//! - its reuse distance is at most memory: a working set that fits gets in at its second pass, and
//!   displaces one of main's older half ([`Ages`](super::Ages));
//! - or the victim's recency is a quarter longer than it. In a loop longer than memory both are the
//!   loop's length, so an idle set is kept, until it is not known how long ago it was used.
//!
//! Credits come first: a page with hits is not compared, it pays one and goes round. Each step uses
//! up an earlier hit, so a judgement is O(1) amortised, and the setting's `turns` bound it.
//!
//! One request of the device brings sixteen pages of a stream. So each weighs a sixteenth of
//! another in the clock and among evictions; what is compared with memory, or with a victim, is in
//! pages like the one that is judged. A scan beside random reads gets what these do not need, and
//! these are not forgotten for it.
//!
//! ```text
//!   since a page was read:   16 of a scan, 1 alone     to one read alone    2 pages
//!                                                      to one of the scan  32
//! ```
//!
//! **Data and invariants.** No page enters a main without a share
//! ([`Expansion`](super::Expansion)): it is drained before probation gives any, so the last to come
//! back would go before all that is older.

use super::{Engine, Folios, PARTS_A_PAGE, Past, Place, Stamp};

/// Young pages that a judgement passes at main's old end: one must not hide what is behind it.
const YOUNG_PASSED: u32 = 1;

impl Engine {
    /// Whether a page that comes back was away for so short that it may be worth a place in main.
    pub(in crate::lru::own) fn is_history(&self, past: Past, parts: u64) -> bool {
        let horizon = self.memory() * u64::from(self.tuning.horizon_percent) / 100;
        self.judges_refaults && past.evicted * parts <= horizon
    }

    /// Whether such a page goes to main.
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

    /// The most that was accessed since a page was, in parts of a page like it.
    pub(super) fn distance(&self, page: Stamp) -> Option<u64> {
        self.clock.at_most(page.epoch).map(|weight| weight * page.parts())
    }

    /// Memory, in parts of a page.
    pub(super) fn memory(&self) -> u64 {
        u64::from(self.capacity) * u64::from(PARTS_A_PAGE)
    }

    /// Whether a reuse distance is clearly less than the recency of a victim.
    fn is_nearer(&self, distance: u64, victim: Stamp) -> bool {
        if !self.compares_distances {
            return true;
        }
        // What the victim shares its epoch with may have come before it.
        let recency = self.clock.at_least(victim.epoch.wrapping_add(1));
        let margin = u64::from(self.tuning.margin_percent);
        recency.is_none_or(|recency| margin * distance < 100 * recency * victim.parts())
    }

    /// Whether a page was seen since the victim was, or is worth so much more that it counts as if.
    fn was_seen_since(&self, page: Stamp, victim: Stamp) -> bool {
        if self.clock.age(victim.epoch) > self.clock.age(page.epoch) {
            return true;
        }
        victim.parts() > page.parts()
            && self.distance(page).is_some_and(|distance| self.is_nearer(distance, victim))
    }

    /// Whether a page goes to main; one that comes back after more than memory, `far` parts of a
    /// page, must win by the margin. If main is full and the answer is yes, the victim is at its
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

    /// An engine whose main is full of pages that were accessed one after the other.
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

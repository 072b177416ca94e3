//! The judgement: may a page take the place of main's oldest?
//!
//! # Problem
//!
//! A page that was hit on probation, or that comes back, wants into a full main. Whom it displaces
//! may be worth more.
//!
//! # Idea
//!
//! Compare *instants*. The page that wants in was accessed before, in epoch `e`. The page at main's
//! old end, once its credits are used up, was last accessed in epoch `v`.
//!
//! ```text
//!            v            e                    now
//!   ---------|------------|---------------------|--->   v < e: the candidate was seen since the
//!            |            |<-- reuse distance ->|       victim was: it is the LIRS test, without
//!            |<------ victim's recency -------->|       a stack
//! ```
//!
//! For a page seen again while on probation that is enough. A page that comes back after eviction
//! has missed by definition, so it must also fit, or win clearly:
//!
//! - its reuse distance is at most memory: a working set that fits gets in at its second pass;
//! - or the victim's recency is a quarter longer than it. In a loop longer than memory both are the
//!   loop's length, so an idle set is kept, until nobody knows how long ago it was used.
//!
//! Credits come first: a page with hits to its name is not compared, it pays one and goes round.
//! Each step uses up an earlier hit, so a judgement is O(1) amortised, and `turns` bounds it.
//!
//! A page that fits and is denied all the same has met credits of the past. One such page proves
//! nothing; a row of them, and nobody let in between, is a working set that changed. So the row
//! insists: each time it has grown by a part of memory, a judgement may take twice as many steps.
//!
//! ```text
//!   denied in a row    1/64 of memory   2/64   3/64   4/64        one let in: 4 again
//!   steps      4             8           16     32     64  (most)
//! ```
//!
//! And who makes room for it is of main's older half ([`Ages`](super::Ages)): others are passed, as
//! young pages are. A clock's hand comes to them only because of where they are. Who does not fit
//! has the margin to win by, and needs no other.
//!
//! What is streamed costs nobody a wait of its own: one request of the device brings sixteen such
//! pages. So each weighs a sixteenth of another in the clock and among evictions; what is compared
//! with memory, or with a victim, is in pages like the one that is judged. A hit that came later
//! than memory is long leaves such a page no credit. A scan beside random reads gets what these do
//! not need, and these are not forgotten for it.
//!
//! ```text
//!   since a page was read:   16 of a scan, 1 alone     to one read alone    2 pages
//!                                                      to one of the scan  32
//! ```
//!
//! # Data and invariants
//!
//! Nobody enters a main that has no share, as it is lent ([`Loan`](super::Loan)): it is drained
//! before probation gives any, so who came back last would go before all that is older.
//!
//! Deliberately ignored: who else will ask for the same victim.
//!
//! Sources: those of the engine.

use super::{Engine, Folios, PARTS_A_PAGE, Past, Place, Stamp};

/// Steps that a judgement takes at most, however it is insisted on.
const STEPS_MAX: u32 = 64;

/// Why a page wants into main.
#[derive(Clone, Copy)]
pub(super) enum Claim {
    /// It was hit on probation, or came back and fits: one of main's older half is to go. The steps
    /// are doubled `insistence` times.
    Fits { insistence: u32 },
    /// It came back after more than memory, `distance` parts of a page: it must win by the margin.
    Far { distance: u64 },
}

impl Claim {
    pub(super) const FITS: Claim = Claim::Fits { insistence: 0 };

    fn insistence(self) -> u32 {
        match self {
            Claim::Fits { insistence } => insistence,
            Claim::Far { .. } => 0,
        }
    }
}

impl Engine {
    /// Whether a page that comes back was away for so short that it may be worth a place in main.
    pub(in crate::lru::pagetide) fn is_history(&self, past: Past, parts: u64) -> bool {
        let horizon = self.memory() * u64::from(self.tuning.horizon_percent) / 100;
        self.judges_refaults && past.evicted * parts <= horizon
    }

    /// Whether such a page goes to main.
    pub(in crate::lru::pagetide) fn judge_return(&mut self, folios: &Folios, page: Stamp) -> bool {
        let Some(distance) = self.distance(page) else {
            return !self.compares_distances && self.judge(folios, page, Claim::FITS);
        };
        if self.arm.moves_hits() {
            self.note_distance(distance, Place::Probation);
        }
        if distance > self.memory() && self.arm.moves_hits() {
            return !self.is_main_full();
        }
        if distance > self.memory() {
            return self.judge(folios, page, Claim::Far { distance });
        }
        let is_main = self.judge(folios, page, Claim::Fits { insistence: self.insistence() });
        self.nr_denied = if is_main { 0 } else { self.nr_denied.saturating_add(1) };
        is_main
    }

    /// The most that was accessed since a page was, in parts of a page like it.
    pub(super) fn distance(&self, page: Stamp) -> Option<u64> {
        self.clock.at_most(page.epoch).map(|weight| weight * page.parts())
    }

    /// Memory, in parts of a page.
    pub(super) fn memory(&self) -> u64 {
        u64::from(self.capacity) * u64::from(PARTS_A_PAGE)
    }

    /// Whether a page would still be in a memory that goes by recency.
    pub(super) fn fits(&self, page: Stamp) -> bool {
        self.distance(page).is_some_and(|distance| distance <= self.memory())
    }

    /// How often the steps of a judgement are doubled, as pages that fit were denied in a row.
    fn insistence(&self) -> u32 {
        let part = (self.capacity / self.tuning.insist_parts).max(1);
        (self.nr_denied / part).min(STEPS_MAX.ilog2())
    }

    /// Whether a reuse distance is clearly less than the recency of a victim.
    fn is_nearer(&self, distance: u64, victim: Stamp) -> bool {
        if !self.compares_distances {
            return true;
        }
        // What the victim shares its epoch with may have come before it.
        match self.clock.at_least(victim.epoch.wrapping_add(1)) {
            Some(recency) => {
                let margin = u64::from(self.tuning.margin_percent);
                margin * distance < 100 * recency * victim.parts()
            }
            None => true,
        }
    }

    /// Whether a page displaces a victim that was accessed before it; `None`: ask another.
    fn answer(&self, claim: Claim, victim: Stamp) -> Option<bool> {
        match claim {
            Claim::Fits { .. } => self.ages.is_old(&self.clock, victim.epoch).then_some(true),
            Claim::Far { distance } => Some(self.is_nearer(distance, victim)),
        }
    }

    /// Whether a page was seen since the victim was, or is worth so much more that it counts as if.
    fn was_seen_since(&self, page: Stamp, victim: Stamp) -> bool {
        if self.clock.age(victim.epoch) > self.clock.age(page.epoch) {
            return true;
        }
        victim.parts() > page.parts()
            && self.distance(page).is_some_and(|distance| self.is_nearer(distance, victim))
    }

    /// Whether a page goes to main. If main is full and the answer is yes, the victim is at its old
    /// end, without credits.
    pub(super) fn judge(&mut self, folios: &Folios, page: Stamp, claim: Claim) -> bool {
        if !self.is_main_full() {
            return true;
        }
        if self.main_max == 0 {
            return false;
        }
        let [mut turns, mut young_moves] = [self.arm.turns, self.tuning.young_moves]
            .map(|steps| (steps << claim.insistence()).min(STEPS_MAX.max(steps)));
        while let Some(tail) = self.main.tail() {
            let folio = &folios[tail];
            if folio.hits().count() > 0 {
                let Some(left) = turns.checked_sub(1) else { return false };
                turns = left;
                self.use_credit(folio);
            } else {
                let victim = Stamp::of(folio);
                if self.was_seen_since(page, victim)
                    && let Some(answer) = self.answer(claim, victim)
                {
                    return answer;
                }
                let Some(left) = young_moves.checked_sub(1) else { return false };
                young_moves = left;
            }
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
    use crate::lru::pagetide::page_clock::NR_EPOCHS;
    use crate::lru::pagetide::tuning::Tuning;

    const CAPACITY: u32 = 160;

    /// An engine whose main is full of pages that were accessed one after the other.
    fn full(arm: usize) -> (Engine, Folios) {
        let tuning = Tuning::default();
        let mut engine = Engine::new(CAPACITY, &tuning, Switches::default());
        engine.set_arm(tuning.arms[arm]);
        let folios = Folios::for_one_thread(CAPACITY);
        for frame in (0..engine.main_max).map(FrameId) {
            engine.enter(&folios, frame, Place::Main, None);
        }
        (engine, folios)
    }

    fn access_strangers(engine: &mut Engine, folios: &Folios, nr: u32) {
        (0..nr).for_each(|_| {
            engine.touch(folios, None, PARTS_A_PAGE);
        });
    }

    #[test]
    fn who_fits_enters_main_unless_it_is_lent() {
        let (mut engine, folios) = full(2);
        access_strangers(&mut engine, &folios, CAPACITY / 8);
        let seen_since =
            Stamp { epoch: engine.clock.now(), place: Place::Main, is_streamed: false };
        access_strangers(&mut engine, &folios, CAPACITY / 2);
        assert!(engine.judge_return(&folios, seen_since));
        for _ in 0..10 {
            engine.note_distance(engine.memory(), Place::Probation);
        }
        access_strangers(&mut engine, &folios, CAPACITY / 16);
        assert!(engine.loan.is_on());
        assert!(!engine.judge_return(&folios, seen_since));
    }

    #[test]
    fn what_nobody_knows_the_last_access_of_leaves_main() {
        let (mut engine, folios) = full(0);
        let (len, epoch_pages) = (engine.len(), CAPACITY / 16);
        access_strangers(&mut engine, &folios, (NR_EPOCHS as u32 - 1) * epoch_pages - len);
        assert_eq!(engine.len_of(Place::Main), len);
        access_strangers(&mut engine, &folios, epoch_pages);
        assert_eq!(engine.len_of(Place::Probation), epoch_pages);
        let oldest = engine.look(&folios, Place::Probation);
        assert_eq!(oldest, Some(FrameId(epoch_pages - 1)), "the last that left goes first");
        access_strangers(&mut engine, &folios, len);
        assert_eq!(engine.len_of(Place::Main), 0);
    }
}

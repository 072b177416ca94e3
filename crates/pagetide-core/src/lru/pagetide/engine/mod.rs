//! The engine: two lists, a credit for each hit, and one question, [`Engine::judge`].
//!
//! # Problem
//!
//! What enters main memory must be worth more than what it displaces there. Policies differ in how
//! they compare: by order of return (ARC), by a frequency sketch (W-TinyLFU), by position in a
//! stack (LIRS). A stack must be kept in order at each hit; a sketch forgets when things happened.
//!
//! # Idea
//!
//! ```text
//!   new ---> PROBATION (FIFO) ---> out            a page leaves its stamp and the hour it left
//!                |  hits: judged                                |
//!                v                                              v
//!              MAIN (CLOCK, 0..3 credits) <--- judged --- comes back in time
//! ```
//!
//! What makes room for whom is the `judge`'s to say. An idle set is kept while it is known how long
//! ago it was used. Then it must go: pages that come back later than history reaches ask nobody,
//! and would stay out for ever. So at the end of each epoch main gives up what is at its old end
//! and was accessed longer ago than the clock knows. Credits are looked at on probation.
//!
//! ```text
//!   old end of main   [ ? ][ ? ][ ? ][ 250 ][ 248 ] ...     epochs since the last access
//!                       |    |    |
//!                       v    v    v
//!                     next to go from probation
//! ```
//!
//! An arm may also move a page to probation's young end when it is hit. Probation is LRU then, and
//! main what was hit three times and grew old: the one order in which going to and fro is kept. Who
//! comes back and does not fit displaces nobody there: pages near the turning point were seen last,
//! so main would lose those of the other end to them at each turn, just before they are hit. Where
//! all of memory goes by recency, as main was lent ([`Loan`]), who grows old goes, hits or not.
//!
//! Or only first arrivals count: hits earn nothing, and who comes back is the next to go. So a log
//! that is read far behind its end stays as a whole: pages that are read for the last time take no
//! frames of those that are still to be read. And of what is longer than memory, a part stays.
//!
//! # Data and invariants
//!
//! A folio's stamp is the epoch of its last access, and its list; its hits are counted beside it,
//! without the lock. Every listed folio's stamp names the list it is on.
//! `main_max + probation's share = held <= capacity`: what is held is counted whenever memory must
//! give, as a zone keeps frames free; what readahead brought and nobody read is not counted.
//!
//! The same engine runs memory itself and, with descriptors of their own, the miniatures.
//!
//! Deliberately ignored: page types; whether a folio may be evicted (its user looks at that).
//!
//! Sources: CLOCK, Corbato 1968; LIRS, Jiang and Zhang 2002; S3-FIFO, Yang et al. 2023, for
//! probation by FIFO. The combination, and the comparison in distinct pages, are our own.

mod judge;

use super::ages::Ages;
use super::held::Held;
use super::loan::Loan;
use super::page_clock::{Epoch, PageClock};
use super::tuning::{Arm, Order, Tuning};
use crate::folio::{Folio, Folios, Hits};
use crate::ids::FrameId;
use crate::list::FolioList;
use crate::lru::{Mechanism, Switches};
use judge::Claim;

pub(super) use super::stamp::{PARTS_A_PAGE, Place, Stamp};

/// What is remembered of an evicted page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Past {
    /// What was evicted since, in parts of a page.
    pub(super) evicted: u64,
    /// When it was accessed last.
    pub(super) epoch: Epoch,
}

/// Two lists and the judgement between them.
#[derive(Debug)]
pub(super) struct Engine {
    probation: FolioList,
    main: FolioList,
    ages: Ages,
    pub(super) clock: PageClock,
    arm: Arm,
    capacity: u32,
    /// Folios that memory holds when it must give: some of its frames may have to stay free.
    held: Held,
    main_max: u32,
    tuning: Tuning,
    judges_refaults: bool,
    compares_distances: bool,
    keeps_credits: bool,
    /// Pages in a row that fit, came back, and were denied.
    nr_denied: u32,
    /// Whether main's share is recency's for now, where the arm has the order of accesses.
    loan: Loan,
}

impl Engine {
    pub(super) fn new(capacity: u32, tuning: &Tuning, switches: Switches) -> Engine {
        let mut engine = Engine {
            probation: FolioList::new(),
            main: FolioList::new(),
            ages: Ages::new(tuning.displaced_percent),
            clock: PageClock::new(0),
            arm: tuning.arms[0],
            capacity: 0,
            held: Held::new(capacity),
            main_max: 0,
            tuning: *tuning,
            judges_refaults: switches.has(Mechanism::RefaultAdmission),
            compares_distances: switches.has(Mechanism::DistanceMargin),
            keeps_credits: switches.has(Mechanism::HitCredit),
            nr_denied: 0,
            loan: Loan::default(),
        };
        engine.set_capacity(capacity);
        engine
    }

    /// Memory is so many frames from now on. The lists drift to their shares by themselves.
    pub(super) fn set_capacity(&mut self, capacity: u32) {
        self.capacity = capacity.max(1);
        self.clock.set_epoch_pages(self.capacity / self.tuning.epochs_a_memory);
        self.held = Held::new(self.capacity);
        self.set_arm(self.arm);
    }

    /// So many folios are all there is room for now.
    pub(super) fn note_held(&mut self, held: u32) {
        if self.held.note(held) {
            self.set_arm(self.arm);
        }
    }

    /// A turn is over: see [`Held`].
    pub(super) fn end_turn(&mut self) {
        if self.held.end_turn() {
            self.set_arm(self.arm);
        }
    }

    /// Works by another arm from now on. Nothing moves at once.
    pub(super) fn set_arm(&mut self, arm: Arm) {
        self.arm = arm;
        let is_lent = arm.moves_hits() && self.loan.is_on();
        self.main_max = if is_lent { 0 } else { self.held.get() - self.probation_share() };
    }

    fn note_distance(&mut self, distance: u64, place: Place) {
        let share = u64::from(self.probation_share()) * u64::from(PARTS_A_PAGE);
        let memory = self.memory();
        self.loan.note(distance, place == Place::Main, share, memory);
    }

    /// Probation's share of what is held, loans aside.
    fn probation_share(&self) -> u32 {
        let share = u64::from(self.held.get()) * u64::from(self.arm.probation_percent) / 100;
        (share as u32).max(1)
    }

    /// A page is accessed: the clock goes on. Returns its stamp.
    #[inline]
    pub(super) fn touch(&mut self, folios: &Folios, last: Option<Epoch>, weight: u32) -> Epoch {
        let epoch = self.clock.touch(last, weight);
        if self.clock.now() != epoch {
            self.begin_epoch(folios);
        }
        epoch
    }

    #[cold]
    fn begin_epoch(&mut self, folios: &Folios) {
        self.ages.begin_epoch(&self.clock, self.main.len());
        self.give_up_forgotten(folios);
        self.loan.end_epoch(&self.tuning);
        self.set_arm(self.arm);
    }

    /// What nobody knows the last access of leaves main's old end.
    fn give_up_forgotten(&mut self, folios: &Folios) {
        while let Some(tail) = self.main.tail()
            && self.clock.is_forgotten(Stamp::of(&folios[tail]).epoch)
        {
            self.give_up_oldest(folios);
        }
    }

    /// Main's oldest is the next to go from probation.
    fn give_up_oldest(&mut self, folios: &Folios) {
        if let Some(victim) = self.main.pop_tail(folios) {
            let folio = &folios[victim];
            let stamp = Stamp::of(folio);
            self.ages.remove(&self.clock, stamp.epoch);
            Stamp { place: Place::Probation, ..stamp }.put(folio);
            self.probation.push_tail(folios, victim);
        }
    }

    /// The arm it works by.
    pub(super) fn arm(&self) -> &Arm {
        &self.arm
    }

    pub(super) fn capacity(&self) -> u32 {
        self.capacity
    }

    /// Frames that probation is to have.
    pub(super) fn probation_max(&self) -> u32 {
        self.capacity - self.main_max
    }

    /// Folios on the lists.
    pub(super) fn len(&self) -> u32 {
        self.probation.len() + self.main.len()
    }

    pub(super) fn len_of(&self, place: Place) -> u32 {
        self.list(place).len()
    }

    pub(super) fn is_main_full(&self) -> bool {
        self.main.len() >= self.main_max
    }

    fn list(&self, place: Place) -> &FolioList {
        match place {
            Place::Probation => &self.probation,
            Place::Main => &self.main,
        }
    }

    fn list_mut(&mut self, place: Place) -> &mut FolioList {
        match place {
            Place::Probation => &mut self.probation,
            Place::Main => &mut self.main,
        }
    }

    /// A folio that is on no list is accessed, and goes to a list's young end. `last`: the epoch of
    /// its page's last access, if that is known.
    pub(super) fn enter(
        &mut self,
        folios: &Folios,
        frame: FrameId,
        place: Place,
        last: Option<Epoch>,
    ) {
        let folio = &folios[frame];
        let stamp = Stamp::of(folio);
        let epoch = self.touch(folios, last, stamp.weight());
        self.push(folios, frame, Stamp { epoch, place, ..stamp });
        if last.is_some() {
            self.seat_returned(folios, frame);
        }
    }

    /// A listed folio's page came back: it is the next to go, where only first arrivals count.
    pub(super) fn seat_returned(&mut self, folios: &Folios, frame: FrameId) {
        if self.arm.order == Order::FirstArrival {
            self.move_to_old_end(folios, frame);
        }
    }

    /// Notes when a folio is accessed, and says whether an epoch ended with that. Its hits are
    /// counted by whoever accesses it.
    #[inline(always)]
    pub(super) fn hit(&mut self, folios: &Folios, folio: &Folio) -> bool {
        let flags = folio.flags();
        let stamp = Stamp::of_flagged(folio, flags);
        let age = self.clock.age(stamp.epoch);
        if age == 0 {
            return false;
        }
        if stamp.is_streamed || self.arm.moves_hits() {
            self.note_reuse(folio, stamp);
        }
        // Before the clock goes on, which may move who was not accessed for long.
        Stamp { epoch: self.clock.now(), ..stamp }.put(folio);
        if stamp.place == Place::Main && flags.link() == 0 {
            self.ages.renew(&self.clock, stamp.epoch);
        }
        let has_ended = self.clock.go_on(age, stamp.weight());
        if has_ended {
            self.begin_epoch(folios);
        }
        has_ended
    }

    /// A folio with this stamp is accessed, and how long that took matters.
    fn note_reuse(&mut self, folio: &Folio, stamp: Stamp) {
        if stamp.is_streamed && !self.fits(stamp) {
            self.use_credit(folio);
        }
        if self.arm.moves_hits() {
            let distance = self.distance(stamp);
            self.note_distance(distance.unwrap_or(u64::MAX), stamp.place);
        }
    }

    /// Moves a listed folio that is hit, where the arm wants the order of accesses.
    #[inline]
    pub(super) fn move_hit(&mut self, folios: &Folios, frame: FrameId) {
        if self.arm.moves_hits() {
            self.remove(folios, frame);
            let stamp = Stamp::of(&folios[frame]);
            self.push(folios, frame, Stamp { place: Place::Probation, ..stamp });
        }
    }

    /// Puts a folio that is on no list, stamped like this, at its list's young end.
    #[inline]
    pub(super) fn push(&mut self, folios: &Folios, frame: FrameId, stamp: Stamp) {
        stamp.put(&folios[frame]);
        if stamp.place == Place::Main {
            self.ages.add(&self.clock, stamp.epoch);
        }
        self.list_mut(stamp.place).push_head(folios, frame);
    }

    /// Puts a folio that is on no list at probation's old end.
    pub(super) fn push_old(&mut self, folios: &Folios, frame: FrameId) {
        let folio = &folios[frame];
        Stamp { place: Place::Probation, ..Stamp::of(folio) }.put(folio);
        folio.update(|flags| Some(flags.with_link(0)));
        self.probation.push_tail(folios, frame);
    }

    /// Puts a listed folio at the old end of its list.
    pub(super) fn move_to_old_end(&mut self, folios: &Folios, frame: FrameId) {
        let list = self.list_mut(Stamp::of(&folios[frame]).place);
        list.remove(folios, frame);
        list.push_tail(folios, frame);
    }

    /// Takes a listed folio off its list.
    pub(super) fn remove(&mut self, folios: &Folios, frame: FrameId) {
        let stamp = Stamp::of(&folios[frame]);
        if stamp.place == Place::Main {
            self.ages.remove(&self.clock, stamp.epoch);
        }
        self.list_mut(stamp.place).remove(folios, frame);
    }

    /// Makes room in main for one more: the folio at its old end is the next to go from probation.
    pub(super) fn make_room_in_main(&mut self, folios: &Folios) {
        if self.is_main_full() {
            self.give_up_oldest(folios);
        }
    }

    /// Takes one of a folio's credits, if it has any.
    #[inline]
    fn use_credit(&self, folio: &Folio) {
        let hits = folio.hits();
        if hits.count() > 0 {
            let left = if self.keeps_credits { hits.count() - 1 } else { 0 };
            folio.set_hits(hits.with_count(left));
        }
    }

    /// The list that gives up its oldest folio, when `nr_incoming` pages are about to enter main.
    pub(super) fn victim_from(&self, nr_incoming: u32) -> Place {
        let is_main_over = self.main.len() + nr_incoming > self.main_max;
        if self.main.is_empty() || !self.probation.is_empty() && !is_main_over {
            Place::Probation
        } else {
            Place::Main
        }
    }

    /// Whether a page that grew old on probation is worth a judgement.
    fn may_stay(&self, hits: Hits) -> bool {
        hits.count() >= self.arm.hits_to_main && self.arm.order != Order::FirstArrival
    }

    /// Looks at the oldest folio of a list, and takes it off unless it is worth another trip.
    #[inline]
    pub(super) fn look(&mut self, folios: &Folios, place: Place) -> Option<FrameId> {
        let frame = self.list_mut(place).pop_tail(folios)?;
        let hits = folios[frame].hits();
        let may_stay = match place {
            Place::Main => hits.count() > 0,
            Place::Probation => self.may_stay(hits),
        };
        if may_stay {
            return self.look_again(folios, place, frame);
        }
        if place == Place::Main {
            self.ages.remove(&self.clock, Stamp::of(&folios[frame]).epoch);
        }
        Some(frame)
    }

    /// The folio, just taken off a list, has hits. Returns it if these do not help it.
    fn look_again(&mut self, folios: &Folios, place: Place, frame: FrameId) -> Option<FrameId> {
        let folio = &folios[frame];
        if place == Place::Main {
            self.use_credit(folio);
            self.main.push_head(folios, frame);
            return None;
        }
        folio.set_hits(folio.hits().with_count(0));
        let stamp = Stamp::of(folio);
        let is_main = self.judge(folios, stamp, Claim::FITS);
        // Where main is lent, only recency counts, and who is old is old.
        if !is_main && self.main_max == 0 {
            return Some(frame);
        }
        let place = if is_main { Place::Main } else { Place::Probation };
        self.push(folios, frame, Stamp { place, ..stamp });
        None
    }

    /// Counts and panics if an invariant is broken. O(folios).
    pub(super) fn validate(&self, folios: &Folios) {
        for place in [Place::Probation, Place::Main] {
            self.list(place).validate(folios);
            for frame in self.list(place).iter(folios) {
                assert_eq!(Stamp::of(&folios[frame]).place, place, "{frame} is on another list");
            }
        }
        let epochs = self.main.iter(folios).map(|frame| Stamp::of(&folios[frame]).epoch);
        self.ages.validate(&self.clock, epochs);
        assert!(self.main_max < self.capacity, "no room for probation");
    }

    /// The folios on both lists.
    pub(super) fn iter<'a>(&'a self, folios: &'a Folios) -> impl Iterator<Item = FrameId> + 'a {
        self.probation.iter(folios).chain(self.main.iter(folios))
    }

    /// A new folio's flags say where it goes while there is room for all.
    pub(super) fn place_of_stranger(&self, is_cold: bool) -> Place {
        if is_cold && !self.is_main_full() { Place::Main } else { Place::Probation }
    }
}

/// A folio's hit counts as one, as a miniature accesses it.
pub(super) fn count_hit(folio: &Folio) {
    folio.set_hits(folio.hits().with_another());
}

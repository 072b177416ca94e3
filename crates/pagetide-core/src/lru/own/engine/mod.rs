//! The engine: two lists, hit credits, and one judgement ([`Engine::judge`]). It runs memory and
//! the miniatures.
//!
//! **Idea.**
//!
//! ```text
//!   new ---> PROBATION (FIFO) ---> out            leaves its stamp and the eviction count
//!                |  hits: judged                                |
//!                v                                              v
//!              MAIN (CLOCK, 0..3 credits) <--- judged --- refault in time
//! ```
//!
//! A setting may move a page to probation's young end at each hit. Then probation is LRU, and main
//! holds old pages with three hits, which keeps a zigzag. While probation has main's share too
//! ([`Expansion`]), an old page is evicted regardless of hits.
//!
//! Or only first arrivals count: a refaulted page is the next victim. This keeps a log read far
//! behind its end, and a part of a loop longer than memory.
//!
//! **Data and invariants.** A folio's stamp holds the epoch of its last access, and its list.
//! `main_max + probation's share = held <= capacity`. `held` is measured at each reclaim, without
//! frames kept free by a zone: a main that is never full admits every refault. `held` shrinks at
//! once, and grows after a memory of distinct pages.
//!
//! Ignored: page types, and evictability of a folio (checked by the caller).
//!
//! Sources: CLOCK, Corbato 1968; LIRS, Jiang and Zhang 2002; S3-FIFO, Yang et al. 2023, for
//! probation by FIFO. The combination, and the comparison in distinct pages, are our own.

mod judge;

use super::ages::Ages;
use super::expansion::Expansion;
use super::page_clock::{Epoch, PageClock};
use super::tuning::{Setting, Tuning};
use crate::folio::{Folio, Folios};
use crate::ids::FrameId;
use crate::list::FolioList;
use crate::lru::{Mechanism, Switches};

pub(super) use super::stamp::{PARTS_A_PAGE, Place, Stamp};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Past {
    /// Weight evicted since, in parts of a page.
    pub(super) evicted: u64,
    pub(super) epoch: Epoch,
}

/// Part of main that a fitting page may displace, in percent: the oldest folios.
const OLD_PERCENT: u32 = 50;

#[derive(Debug)]
pub(super) struct Engine {
    probation: FolioList,
    main: FolioList,
    ages: Ages,
    pub(super) clock: PageClock,
    setting: Setting,
    capacity: u32,
    /// Folios held at reclaim, as far as main may count on them.
    held: u32,
    /// Minimum held since the last memory of epochs began.
    held_least: u32,
    main_max: u32,
    tuning: Tuning,
    judges_refaults: bool,
    compares_distances: bool,
    keeps_credits: bool,
    expansion: Expansion,
}

impl Engine {
    pub(super) fn new(capacity: u32, tuning: &Tuning, switches: Switches) -> Engine {
        let mut engine = Engine {
            probation: FolioList::new(),
            main: FolioList::new(),
            ages: Ages::new(OLD_PERCENT),
            clock: PageClock::new(0),
            setting: tuning.settings[0],
            capacity: 0,
            held: 0,
            held_least: 0,
            main_max: 0,
            tuning: *tuning,
            judges_refaults: switches.has(Mechanism::RefaultAdmission),
            compares_distances: switches.has(Mechanism::DistanceMargin),
            keeps_credits: switches.has(Mechanism::HitCredit),
            expansion: Expansion::default(),
        };
        engine.set_capacity(capacity);
        engine
    }

    /// Lets the lists drift to their shares.
    pub(super) fn set_capacity(&mut self, capacity: u32) {
        self.capacity = capacity.max(1);
        self.clock.set_epoch_pages(self.capacity / self.tuning.epochs_a_memory);
        (self.held, self.held_least) = (self.capacity, self.capacity);
        self.share_out();
    }

    pub(super) fn note_held(&mut self, held: u32) {
        self.held_least = self.held_least.min(held.max(1));
        if self.held_least < self.held {
            self.held = self.held_least;
            self.share_out();
        }
    }

    /// Changes the setting. No folio moves at once.
    pub(super) fn set_setting(&mut self, setting: Setting) {
        self.setting = setting;
        self.share_out();
    }

    fn share_out(&mut self) {
        let is_expanded = self.setting.moves_hits() && self.expansion.is_on();
        self.main_max = if is_expanded { 0 } else { self.held - self.probation_share() };
    }

    fn probation_share(&self) -> u32 {
        let share = u64::from(self.held) * u64::from(self.setting.probation_percent) / 100;
        (share as u32).max(1)
    }

    fn note_distance(&mut self, distance: u64, place: Place) {
        let share = u64::from(self.probation_share()) * u64::from(PARTS_A_PAGE);
        let memory = self.memory();
        self.expansion.note(distance, place == Place::Main, share, memory);
    }

    /// Returns the page's stamp.
    #[inline]
    pub(super) fn touch(&mut self, last: Option<Epoch>, weight: u32) -> Epoch {
        let epoch = self.clock.touch(last, weight);
        if self.clock.now() != epoch {
            self.begin_epoch();
        }
        epoch
    }

    #[cold]
    fn begin_epoch(&mut self) {
        self.ages.begin_epoch(&self.clock, self.main.len());
        self.expansion.end_epoch(&self.tuning);
        if u32::from(self.clock.now()).is_multiple_of(self.tuning.epochs_a_memory) {
            (self.held, self.held_least) = (self.held_least, self.capacity);
        }
        self.share_out();
    }

    pub(super) fn setting(&self) -> &Setting {
        &self.setting
    }

    pub(super) fn capacity(&self) -> u32 {
        self.capacity
    }

    pub(super) fn probation_max(&self) -> u32 {
        self.capacity - self.main_max
    }

    pub(super) fn len(&self) -> u32 {
        self.probation.len() + self.main.len()
    }

    pub(super) fn len_of(&self, place: Place) -> u32 {
        match place {
            Place::Probation => self.probation.len(),
            Place::Main => self.main.len(),
        }
    }

    pub(super) fn is_main_full(&self) -> bool {
        self.main.len() >= self.main_max
    }

    fn list_mut(&mut self, place: Place) -> &mut FolioList {
        match place {
            Place::Probation => &mut self.probation,
            Place::Main => &mut self.main,
        }
    }

    /// Takes the page's last access as `last`, if known.
    pub(super) fn enter(
        &mut self,
        folios: &Folios,
        frame: FrameId,
        place: Place,
        last: Option<Epoch>,
    ) {
        let stamp = Stamp::of(&folios[frame]);
        let epoch = self.touch(last, stamp.weight());
        self.push(folios, frame, Stamp { epoch, place, ..stamp });
        if last.is_some() {
            self.seat_returned(folios, frame);
        }
    }

    pub(super) fn seat_returned(&mut self, folios: &Folios, frame: FrameId) {
        if self.setting.keeps_no_set() {
            self.move_to_old_end(folios, frame);
        }
    }

    /// Records the epoch of an access. Returns true if the epoch ended. The access itself counts
    /// the hit.
    #[inline(always)]
    pub(super) fn hit(&mut self, folio: &Folio) -> bool {
        let flags = folio.flags();
        let stamp = Stamp::of_flagged(folio, flags);
        let age = self.clock.age(stamp.epoch);
        if age == 0 {
            return false;
        }
        if stamp.is_streamed || self.setting.moves_hits() {
            self.note_reuse(folio, stamp);
        }
        Stamp { epoch: self.clock.now(), ..stamp }.put(folio);
        if stamp.place == Place::Main && flags.link() == 0 {
            self.ages.renew(&self.clock, stamp.epoch);
        }
        let has_ended = self.clock.go_on(age, stamp.weight());
        if has_ended {
            self.begin_epoch();
        }
        has_ended
    }

    fn note_reuse(&mut self, folio: &Folio, stamp: Stamp) {
        let distance = self.distance(stamp).unwrap_or(u64::MAX);
        if stamp.is_streamed && distance > self.memory() {
            self.use_credit(folio);
        }
        if self.setting.moves_hits() {
            self.note_distance(distance, stamp.place);
        }
    }

    #[inline]
    pub(super) fn move_hit(&mut self, folios: &Folios, frame: FrameId) {
        if self.setting.moves_hits() {
            self.remove(folios, frame);
            let stamp = Stamp::of(&folios[frame]);
            self.push(folios, frame, Stamp { place: Place::Probation, ..stamp });
        }
    }

    #[inline]
    pub(super) fn push(&mut self, folios: &Folios, frame: FrameId, stamp: Stamp) {
        stamp.put(&folios[frame]);
        if stamp.place == Place::Main {
            self.ages.add(&self.clock, stamp.epoch);
        }
        self.list_mut(stamp.place).push_head(folios, frame);
    }

    pub(super) fn push_old(&mut self, folios: &Folios, frame: FrameId) {
        let folio = &folios[frame];
        Stamp { place: Place::Probation, ..Stamp::of(folio) }.put(folio);
        folio.update(|flags| Some(flags.with_link(0)));
        self.probation.push_tail(folios, frame);
    }

    pub(super) fn move_to_old_end(&mut self, folios: &Folios, frame: FrameId) {
        let list = self.list_mut(Stamp::of(&folios[frame]).place);
        list.remove(folios, frame);
        list.push_tail(folios, frame);
    }

    pub(super) fn remove(&mut self, folios: &Folios, frame: FrameId) {
        let stamp = Stamp::of(&folios[frame]);
        if stamp.place == Place::Main {
            self.ages.remove(&self.clock, stamp.epoch);
        }
        self.list_mut(stamp.place).remove(folios, frame);
    }

    /// Moves main's oldest folio to probation's old end, if main is full.
    pub(super) fn make_room_in_main(&mut self, folios: &Folios) {
        if self.is_main_full()
            && let Some(victim) = self.main.pop_tail(folios)
        {
            let folio = &folios[victim];
            let stamp = Stamp::of(folio);
            self.ages.remove(&self.clock, stamp.epoch);
            Stamp { place: Place::Probation, ..stamp }.put(folio);
            self.probation.push_tail(folios, victim);
        }
    }

    #[inline]
    fn use_credit(&self, folio: &Folio) {
        let hits = folio.hits();
        if hits.count() > 0 {
            let left = if self.keeps_credits { hits.count() - 1 } else { 0 };
            folio.set_hits(hits.with_count(left));
        }
    }

    /// Expects `nr_incoming` pages to enter main.
    pub(super) fn victim_from(&self, nr_incoming: u32) -> Place {
        let is_main_over = self.main.len() + nr_incoming > self.main_max;
        if self.main.is_empty() || !self.probation.is_empty() && !is_main_over {
            Place::Probation
        } else {
            Place::Main
        }
    }

    /// Returns `None` if the folio stays for another trip.
    #[inline]
    pub(super) fn look(&mut self, folios: &Folios, place: Place) -> Option<FrameId> {
        let frame = self.list_mut(place).pop_tail(folios)?;
        let folio = &folios[frame];
        let hits = folio.hits();
        let may_stay = match place {
            Place::Main => hits.count() > 0,
            Place::Probation => {
                hits.count() >= self.setting.hits_to_main && !self.setting.keeps_no_set()
            }
        };
        if may_stay {
            return self.look_again(folios, place, frame);
        }
        if place == Place::Main {
            self.ages.remove(&self.clock, Stamp::of(folio).epoch);
        }
        Some(frame)
    }

    /// Returns the folio if hits do not keep it.
    fn look_again(&mut self, folios: &Folios, place: Place, frame: FrameId) -> Option<FrameId> {
        let folio = &folios[frame];
        let stamp = Stamp::of(folio);
        if place == Place::Main {
            self.use_credit(folio);
            self.main.push_head(folios, frame);
            return None;
        }
        folio.set_hits(folio.hits().with_count(0));
        let is_main = self.judge(folios, stamp, None);
        // If main has no share, an old page is evicted.
        if !is_main && self.main_max == 0 {
            return Some(frame);
        }
        let place = if is_main { Place::Main } else { Place::Probation };
        self.push(folios, frame, Stamp { place, ..stamp });
        None
    }

    /// Takes true if memory has free room.
    pub(super) fn place_of_new(&self, is_cold: bool) -> Place {
        if is_cold && !self.is_main_full() { Place::Main } else { Place::Probation }
    }

    pub(super) fn iter<'a>(&'a self, folios: &'a Folios) -> impl Iterator<Item = FrameId> + 'a {
        self.probation.iter(folios).chain(self.main.iter(folios))
    }

    /// Panics if an invariant is broken. O(folios).
    pub(super) fn validate(&self, folios: &Folios) {
        for (place, list) in [(Place::Probation, &self.probation), (Place::Main, &self.main)] {
            list.validate(folios);
            for frame in list.iter(folios) {
                assert_eq!(Stamp::of(&folios[frame]).place, place, "{frame} is on another list");
            }
        }
        let epochs = self.main.iter(folios).map(|frame| Stamp::of(&folios[frame]).epoch);
        self.ages.validate(&self.clock, epochs);
        assert!(self.main_max < self.capacity, "no room for probation");
    }
}

pub(super) fn count_hit(folio: &Folio) {
    folio.set_hits(folio.hits().with_another());
}

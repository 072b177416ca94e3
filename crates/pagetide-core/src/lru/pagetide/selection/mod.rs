//! The selection: which arm would have hit more often, lately?
//!
//! # Problem
//!
//! How much of memory is on probation decides more than anything else, and no one share is right:
//! loops want next to none, recency wants nearly all. Feedback from the refaults of the design in
//! charge says little of the others.
//!
//! # Idea
//!
//! Try all of them, in miniature. Of each block of C/m pages one is sampled, and the block's hash
//! says which; a miniature of m frames sees the accesses to those, so it hits about as often as C
//! frames would under all. There is one for each arm, and it never stops, so each is always warm.
//!
//! A sample of single pages drawn by chance has 512 of a file's 4096 pages give or take 21, and
//! whether a stream a little longer than memory fits is then luck. One page a block leaves no luck
//! where neighbours share a fate, and is no worse a sample where they do not.
//!
//! ```text
//!   accesses --hash--> sampled --+--> miniature: tight    hit . hit  .  .  hit
//!                                +--> miniature: loose    hit .  .  hit hit hit
//!                                +--> miniature: recency   .  .  .   .  .  hit
//!                                +--> miniature: queue     .  .  .   .  .   .
//!                                                               ^   ^
//!                         arms that disagree: lead[tight][loose] +1 -1, seen[tight][loose] +2
//! ```
//!
//! A lead must be more than chance ([`Duel`]). z = 3, and a lead is looked at often: what a wrong
//! change costs is in the price. Halving L and V every few memories of samples keeps the question
//! to "lately".
//!
//! Changing costs: of an arm with a larger probation, a part of main must go, and if the lead was
//! luck it must all be learnt again. As with skis, rent until the rent paid is the price: three
//! quarters of the frames that would move. Moving the first fifth is free, and so is the way back,
//! which loses nothing that probation would have kept.
//!
//! Rent is what the arm in charge lost to another since the last change, and it is not forgotten
//! because time passes, only as it is won back. Were it halved like a lead, an arm that is better
//! by two points for ever would never be worth its price.
//!
//! ```text
//!   hits more than the arm in charge, by access   + + - + . . + + + -
//!   rent                                          1 2 1 2 2 2 3 4 5 4     never below 0
//!                                                             ^ the price is 3: if the lead is
//!                                                               more than chance, change
//! ```
//!
//! The queue keeps nothing that was there before, idle or not. So it must have been better for as
//! long as is known how long ago an idle set was used, without a break, and by two memories of
//! hits: in a loop, two arms that keep different parts of it lead each other by one, by turns.
//!
//! # Data and invariants
//!
//! Bounded: four miniatures, each with descriptors for its frames and a table of twice as many
//! pages gone. Deterministic: the hash has a seed, and there is no other chance.
//!
//! # What it deliberately ignores
//!
//! Refused evictions, dropped pages and page types: a miniature is an idea of memory, not memory.
//!
//! Sources: miniature simulation, Waldspurger et al., "Cache modeling and optimization using
//! miniature simulations", ATC 2017; ski rental, Karlin et al. 1988.

mod summary;

pub use summary::{ArmChange, ArmSummary, SelectionSummary};

use super::duel::Duel;
use super::engine::{Engine, PARTS_A_PAGE, Past, Place, Stamp, count_hit};
use super::page_clock::NR_EPOCHS;
use super::sampled_pages::{SampledPages, Whereabouts};
use super::tuning::{NR_ARMS, Order, Tuning};
use crate::folio::{Flags, Folios};
use crate::ids::{FrameId, PageId, PageIndex, PageType};
use crate::lru::Switches;

/// A policy in miniature: one arm's engine over frames of its own, which hold nothing.
struct Miniature {
    seed: u64,
    engine: Engine,
    folios: Folios,
    pages: SampledPages,
    nr_used: u32,
}

impl Miniature {
    fn new(nr_frames: u32, arm: usize, tuning: &Tuning, switches: Switches) -> Miniature {
        let mut engine = Engine::new(nr_frames, tuning, switches);
        engine.set_arm(tuning.arms[arm]);
        let nr_gone = u64::from(nr_frames) * u64::from(tuning.horizon_percent) / 100;
        Miniature {
            seed: tuning.seed,
            engine,
            folios: Folios::for_one_thread(nr_frames),
            pages: SampledPages::new(nr_frames, nr_gone as u32),
            nr_used: 0,
        }
    }

    /// Where a page is that is about to be accessed; if it is here, its hit is counted.
    fn find(&self, key: u32) -> Option<Whereabouts> {
        let found = self.pages.find(key);
        if let Some(Whereabouts::Here(frame)) = found {
            count_hit(&self.folios[FrameId(frame)]);
        }
        found
    }

    /// Accesses a page that was found like this. Returns whether it hit.
    fn access(&mut self, key: u32, page: PageId, found: Option<Whereabouts>) -> bool {
        let past = match found {
            Some(Whereabouts::Here(frame)) => {
                self.engine.hit(&self.folios, &self.folios[FrameId(frame)]);
                self.engine.move_hit(&self.folios, FrameId(frame));
                return true;
            }
            Some(Whereabouts::Gone(departure, epoch)) => {
                let nr_evictions = u64::from(self.pages.nr_departures_since(departure));
                Some(Past { evicted: nr_evictions * u64::from(PARTS_A_PAGE), epoch })
            }
            None => None,
        };
        let is_main = past.is_some_and(|past| {
            let stamp = Stamp { epoch: past.epoch, place: Place::Main, is_streamed: false };
            self.engine.is_history(past, stamp.parts())
                && self.engine.judge_return(&self.folios, stamp)
        });
        let is_cold = self.nr_used < self.folios.nr_frames();
        let frame = if is_cold { self.next_unused() } else { self.evict(is_main) };
        let place = if is_main { Place::Main } else { self.engine.place_of_stranger(is_cold) };
        self.folios[frame].bind(page, PageType::File, Flags::NONE);
        self.engine.enter(&self.folios, frame, place, past.map(|past| past.epoch));
        self.pages.arrive(key, frame.0);
        false
    }

    fn next_unused(&mut self) -> FrameId {
        self.nr_used += 1;
        FrameId(self.nr_used - 1)
    }

    fn evict(&mut self, is_main: bool) -> FrameId {
        loop {
            let place = self.engine.victim_from(u32::from(is_main));
            if let Some(frame) = self.engine.look(&self.folios, place) {
                let key = key_of(hash(self.folios[frame].page(), self.seed));
                self.pages.depart(key, Stamp::of(&self.folios[frame]).epoch);
                return frame;
            }
        }
    }
}

/// All arms in miniature, and the one in charge.
pub(super) struct Selection {
    miniatures: [Miniature; NR_ARMS],
    /// Row: the challenger; column: the other.
    duels: [[Duel; NR_ARMS]; NR_ARMS],
    tuning: Tuning,
    /// One page is sampled of each block of so many, as a power of two.
    shift: u32,
    /// Frames of a miniature.
    nr_frames: u32,
    nr_samples: u64,
    chosen: usize,
    /// For explanations: changes of the arm in charge, and the last, after so many samples.
    nr_changes: u64,
    last_change: Option<ArmChange>,
    changed_at: u64,
}

impl Selection {
    /// Miniatures of a memory of `capacity` frames; `chosen` is in charge so far.
    pub(super) fn new(
        capacity: u32,
        chosen: usize,
        tuning: &Tuning,
        switches: Switches,
    ) -> Selection {
        let wanted = tuning.sample_frames_min.max(capacity / tuning.sample_parts);
        let shift = (0..32).take_while(|shift| capacity >> shift >= wanted).last().unwrap_or(0);
        let nr_frames = (capacity >> shift).max(1);
        Selection {
            miniatures: core::array::from_fn(|arm| {
                Miniature::new(nr_frames, arm, tuning, switches)
            }),
            duels: [[Duel::default(); NR_ARMS]; NR_ARMS],
            tuning: *tuning,
            shift,
            nr_frames,
            nr_samples: 0,
            chosen,
            nr_changes: 0,
            last_change: None,
            changed_at: 0,
        }
    }

    /// The arm in charge.
    pub(super) fn chosen(&self) -> usize {
        self.chosen
    }

    /// Whether accesses to a page are to be told: one of each block is.
    pub(super) fn samples(&self, page: PageId) -> bool {
        let in_block = (1 << self.shift) - 1;
        hash(self.block_of(page), self.tuning.seed) & in_block == page.index.0 & in_block
    }

    /// The block of a page, which stands for its one sampled page in the miniatures.
    fn block_of(&self, page: PageId) -> PageId {
        PageId { index: PageIndex(page.index.0 >> self.shift), ..page }
    }

    /// Hears of an access to a sampled page. Returns another arm to be in charge, if one is better.
    pub(super) fn access(&mut self, page: PageId) -> Option<usize> {
        let block = self.block_of(page);
        let key = key_of(hash(block, self.tuning.seed));
        // All before any goes on: the processor waits for their tables and folios at once.
        let found = self.miniatures.each_ref().map(|one| one.find(key));
        let hits: [bool; NR_ARMS] =
            core::array::from_fn(|arm| self.miniatures[arm].access(key, block, found[arm]));
        for (first, row) in self.duels.iter_mut().enumerate() {
            for (second, duel) in row.iter_mut().enumerate() {
                duel.note(i64::from(hits[first]) - i64::from(hits[second]));
            }
        }
        self.nr_samples += 1;
        // However small memory is, less would be too few to tell chance by.
        let nr_least = self.nr_frames.max(self.tuning.sample_frames_min);
        let period = u64::from(nr_least) * u64::from(self.tuning.halve_after);
        if self.nr_samples.is_multiple_of(period) {
            self.halve();
        }
        let between_looks = (period / u64::from(self.tuning.looks)).max(1);
        if self.nr_samples.is_multiple_of(between_looks) { self.choose() } else { None }
    }

    fn halve(&mut self) {
        for duel in self.duels.as_flattened_mut() {
            duel.halve();
        }
    }

    fn choose(&mut self) -> Option<usize> {
        let better = (0..NR_ARMS)
            .filter(|arm| *arm != self.chosen && self.wins(*arm))
            .max_by_key(|arm| self.duels[*arm][self.chosen].lead)?;
        self.note_change(better);
        self.chosen = better;
        self.duels.as_flattened_mut().iter_mut().for_each(Duel::forget_rent);
        Some(better)
    }

    /// Whether an arm leads by more than chance, and enough was lost to it to pay for the change.
    fn wins(&self, arm: usize) -> bool {
        let duel = &self.duels[arm][self.chosen];
        duel.is_sure(self.tuning.sigmas)
            && duel.rent > self.price(arm)
            && (!self.takes_all(arm) || duel.nr_owed >= self.patience())
    }

    /// Whether an arm leaves nothing to who was there before.
    fn takes_all(&self, arm: usize) -> bool {
        self.tuning.arms[arm].order == Order::FirstArrival
    }

    /// Accesses after which nobody knows how long an idle set has been idle.
    fn patience(&self) -> u64 {
        let epochs = NR_EPOCHS as u64 / u64::from(self.tuning.epochs_a_memory);
        u64::from(self.nr_frames) * epochs
    }

    /// The miniature's frames that would move to probation, but for those that are free.
    fn price(&self, arm: usize) -> i64 {
        let Tuning { arms, price_percent, free_percent, whole_price_percent, .. } = self.tuning;
        if self.takes_all(arm) {
            return i64::from(self.nr_frames) * i64::from(whole_price_percent) / 100;
        }
        let grows = arms[arm]
            .probation_percent
            .saturating_sub(arms[self.chosen].probation_percent)
            .saturating_sub(free_percent);
        let frames = u64::from(self.nr_frames) * u64::from(grows) / 100;
        (frames * u64::from(price_percent) / 100) as i64
    }

    /// Walks everything and panics where an invariant is broken.
    pub(super) fn validate(&self) {
        for miniature in &self.miniatures {
            miniature.engine.validate(&miniature.folios);
            miniature.pages.validate();
            assert_eq!(miniature.engine.len(), miniature.nr_used, "frames of a miniature");
        }
    }
}

/// Mixes a page's identity and the seed (the finalizer of SplitMix64).
fn hash(page: PageId, seed: u64) -> u64 {
    let mut mixed = page.index.0 ^ u64::from(page.mapping.0).rotate_left(40);
    mixed = mixed.wrapping_add(seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// The half of a hash that decides nothing about sampling; never 0.
fn key_of(hash: u64) -> u32 {
    ((hash >> 32) as u32).max(1)
}

//! The selection: which setting would have hit more often, lately?
//!
//! **Problem.** How much of memory is on probation decides more than anything else, and no one
//! share is right: loops want next to none, recency wants nearly all. Feedback from the refaults of
//! the setting in charge says little of the others.
//!
//! **Idea.** Try all of them, in miniature. Of each block of C/m pages one is sampled, and the
//! block's hash says which; a miniature of m frames sees the accesses to those, so it hits about as
//! often as C frames would under all. There is one for each setting, and it never stops, so each is
//! warm.
//!
//! ```text
//!   accesses --hash--> sampled --+--> miniature: tight    hit . hit  .  .  hit
//!                                +--> miniature: loose    hit .  .  hit hit hit
//!                                +--> miniature: recency   .  .  .   .  .  hit
//!                                +--> miniature: queue     .  .  .   .  .   .
//!                                                               ^   ^
//!                   settings that disagree: lead[tight][loose] +1 -1, seen[tight][loose] +2
//! ```
//!
//! A sample of single pages drawn by chance has 512 of a file's 4096 pages give or take 21, and
//! whether a stream a little longer than memory fits is then luck; one page a block leaves none.
//!
//! To take charge a setting must
//!
//! - lead by more than chance ([`Contest`]), lately: leads are halved every few memories;
//! - have saved what the change costs. Of a setting with a larger probation a part of main must go,
//!   and if the lead was luck it must all be learnt again. As skis are rented until the rent paid
//!   is their price, the hits that the setting in charge has lost to the other since the last
//!   change must exceed three quarters of the frames that would move. The first fifth is free, and
//!   so is the way back. These losses are not halved, only won back: else a setting that is better
//!   by two points for ever would never be worth its price;
//! - where it keeps no idle set (the queue), have been better without a break for as long as it is
//!   known how long ago a set was used, and by two memories of hits: two settings that keep
//!   different parts of a loop lead each other by one, by turns.
//!
//! **Data and invariants.** Bounded: four miniatures, each with descriptors for its frames and a
//! table of twice as many pages gone. Deterministic: the hash has a seed, and there is no other
//! chance.
//!
//! Sources: miniature simulation, Waldspurger et al., "Cache modeling and optimization using
//! miniature simulations", ATC 2017; ski rental, Karlin et al. 1988.

mod miniature;
mod summary;

pub use summary::{SelectionSummary, SettingChange, SettingSummary};

use super::contest::Contest;
use super::page_clock::NR_EPOCHS;
use super::tuning::{NR_SETTINGS, Tuning};
use crate::ids::{PageId, PageIndex};
use crate::lru::Switches;
use miniature::{Miniature, hash, key_of};

/// Leads are halved every so many miniature memories of samples.
const HALVE_AFTER: u64 = 3;
/// Looks for a better setting between two halvings: a look at each sample takes chance for a lead.
const LOOKS: u64 = 64;
/// The hits that moving main's frames to probation costs, in percent of what moves.
const PRICE_PERCENT: u64 = 75;
/// The part of memory that may move for nothing, in percent.
const FREE_PERCENT: u32 = 20;
/// The hits that a setting which keeps no set must have saved, in memories.
const PRICE_OF_ALL: u64 = 2;

/// All settings in miniature, and the one in charge.
pub(super) struct Selection {
    miniatures: [Miniature; NR_SETTINGS],
    /// Row: the challenger; column: the other.
    contests: [[Contest; NR_SETTINGS]; NR_SETTINGS],
    tuning: Tuning,
    /// One page is sampled of each block of so many, as a power of two.
    shift: u32,
    /// Frames of a miniature.
    nr_frames: u32,
    nr_samples: u64,
    chosen: usize,
    /// For explanations: changes of the setting in charge, and the last, after so many samples.
    nr_changes: u64,
    last_change: Option<SettingChange>,
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
            miniatures: core::array::from_fn(|setting| {
                Miniature::new(nr_frames, setting, tuning, switches)
            }),
            contests: Default::default(),
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

    /// The setting in charge.
    pub(super) fn chosen(&self) -> usize {
        self.chosen
    }

    /// Whether a page is one of the sample: one of each block is.
    pub(super) fn samples(&self, page: PageId) -> bool {
        let in_block = (1 << self.shift) - 1;
        hash(self.block_of(page), self.tuning.seed) & in_block == page.index.0 & in_block
    }

    /// The block of a page, which stands for its one sampled page in the miniatures.
    fn block_of(&self, page: PageId) -> PageId {
        PageId { index: PageIndex(page.index.0 >> self.shift), ..page }
    }

    /// A sampled page is accessed. Returns another setting to be in charge, if one is better.
    pub(super) fn access(&mut self, page: PageId) -> Option<usize> {
        let block = self.block_of(page);
        let key = key_of(hash(block, self.tuning.seed));
        // All before any goes on: the processor waits for their tables and folios at once.
        let found = self.miniatures.each_ref().map(|one| one.find(key));
        let hits: [bool; NR_SETTINGS] =
            core::array::from_fn(|nth| self.miniatures[nth].access(key, block, found[nth]));
        for (first, row) in self.contests.iter_mut().enumerate() {
            for (second, contest) in row.iter_mut().enumerate() {
                contest.note(i64::from(hits[first]) - i64::from(hits[second]));
            }
        }
        self.nr_samples += 1;
        // However small memory is, less would be too few to tell chance by.
        let nr_least = self.nr_frames.max(self.tuning.sample_frames_min);
        let period = u64::from(nr_least) * HALVE_AFTER;
        if self.nr_samples.is_multiple_of(period) {
            self.contests.as_flattened_mut().iter_mut().for_each(Contest::halve);
        }
        let between_looks = (period / LOOKS).max(1);
        if self.nr_samples.is_multiple_of(between_looks) { self.choose() } else { None }
    }

    fn choose(&mut self) -> Option<usize> {
        let better = (0..NR_SETTINGS)
            .filter(|setting| self.wins(*setting))
            .max_by_key(|setting| self.contests[*setting][self.chosen].lead)?;
        self.note_change(better);
        self.chosen = better;
        self.contests.as_flattened_mut().iter_mut().for_each(Contest::forget_losses);
        Some(better)
    }

    /// Whether a setting leads by more than chance, and enough was lost to it to pay for a change.
    fn wins(&self, setting: usize) -> bool {
        let contest = &self.contests[setting][self.chosen];
        contest.lost > self.price(setting)
            && contest.is_sure(self.tuning.sigmas)
            && (!self.tuning.settings[setting].keeps_no_set()
                || contest.nr_since >= self.accesses_known())
    }

    /// Accesses after which it is not known any more how long a set has been idle.
    fn accesses_known(&self) -> u64 {
        let epochs = NR_EPOCHS as u64 / u64::from(self.tuning.epochs_a_memory);
        u64::from(self.nr_frames) * epochs
    }

    /// The hits of a miniature that must have been lost to a setting before it takes charge.
    fn price(&self, setting: usize) -> u64 {
        let nr_frames = u64::from(self.nr_frames);
        let settings = &self.tuning.settings;
        if settings[setting].keeps_no_set() {
            return nr_frames * PRICE_OF_ALL;
        }
        let grows = settings[setting]
            .probation_percent
            .saturating_sub(settings[self.chosen].probation_percent)
            .saturating_sub(FREE_PERCENT);
        nr_frames * u64::from(grows) / 100 * PRICE_PERCENT / 100
    }

    /// Walks everything and panics where an invariant is broken.
    pub(super) fn validate(&self) {
        self.miniatures.iter().for_each(Miniature::validate);
    }
}

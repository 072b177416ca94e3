//! The selection: finds the setting with the most hits.
//!
//! **Problem.** No fixed share of probation is right: a loop needs almost none, recency almost all.
//!
//! **Idea.** Run all settings in miniature. The hash of each block of C/m pages selects one sampled
//! page. A miniature of m frames sees only sampled pages, and hits about as often as C frames
//! would.
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
//! One page per block is sampled: a random sample has 512 +- 21 of a file's 4096 pages, which
//! decides by chance if a slightly longer stream fits.
//!
//! To take charge a setting must
//!
//! - lead significantly ([`Contest`]). Leads are halved every few memories.
//! - have repaid the cost of a change, as in ski rental: the hits lost to the new setting since the
//!   last change exceed three quarters of main's frames to move. The first fifth is free, and so is
//!   a smaller probation. Losses are not halved.
//! - if it keeps no idle set (the queue), also have led without a break for as long as an idle set
//!   is remembered, and by two memories of hits.
//!
//! **Data and invariants.** Bounded: four miniatures, each with descriptors for its frames and a
//! table of twice as many evicted pages. Deterministic, but for the seed of the hash.
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

/// Halving period, in miniature memories of samples.
const HALVE_AFTER: u64 = 3;
/// Tests per halving period. A test at each sample would take chance for a lead.
const LOOKS: u64 = 64;
/// Price of moving main's frames to probation, in percent of the frames.
const PRICE_PERCENT: u64 = 75;
/// Part of memory that moves for free, in percent.
const FREE_PERCENT: u32 = 20;
/// Price of a setting that keeps no set, in memories of hits.
const PRICE_OF_ALL: u64 = 2;

pub(super) struct Selection {
    miniatures: [Miniature; NR_SETTINGS],
    /// Row: the challenger. Column: its opponent.
    contests: [[Contest; NR_SETTINGS]; NR_SETTINGS],
    tuning: Tuning,
    /// Pages per block, as a power of two.
    shift: u32,
    nr_frames: u32,
    nr_samples: u64,
    chosen: usize,
    nr_changes: u64,
    last_change: Option<SettingChange>,
    changed_at: u64,
}

impl Selection {
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

    pub(super) fn chosen(&self) -> usize {
        self.chosen
    }

    pub(super) fn samples(&self, page: PageId) -> bool {
        let in_block = (1 << self.shift) - 1;
        hash(self.block_of(page), self.tuning.seed) & in_block == page.index.0 & in_block
    }

    /// Identifies the sampled page in the miniatures.
    fn block_of(&self, page: PageId) -> PageId {
        PageId { index: PageIndex(page.index.0 >> self.shift), ..page }
    }

    /// Returns the setting that takes charge, if any.
    pub(super) fn access(&mut self, page: PageId) -> Option<usize> {
        let block = self.block_of(page);
        let key = key_of(hash(block, self.tuning.seed));
        // Looks up all first, so that their cache misses overlap.
        let found = self.miniatures.each_ref().map(|one| one.find(key));
        let hits: [bool; NR_SETTINGS] =
            core::array::from_fn(|nth| self.miniatures[nth].access(key, block, found[nth]));
        for (first, row) in self.contests.iter_mut().enumerate() {
            for (second, contest) in row.iter_mut().enumerate() {
                contest.note(i64::from(hits[first]) - i64::from(hits[second]));
            }
        }
        self.nr_samples += 1;
        // A tiny memory needs a minimum period for significance.
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

    fn wins(&self, setting: usize) -> bool {
        let contest = &self.contests[setting][self.chosen];
        contest.lost > self.price(setting)
            && contest.is_sure(self.tuning.sigmas)
            && (!self.tuning.settings[setting].keeps_no_set()
                || contest.nr_since >= self.accesses_known())
    }

    fn accesses_known(&self) -> u64 {
        let epochs = NR_EPOCHS as u64 / u64::from(self.tuning.epochs_a_memory);
        u64::from(self.nr_frames) * epochs
    }

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

    pub(super) fn validate(&self) {
        self.miniatures.iter().for_each(Miniature::validate);
    }
}

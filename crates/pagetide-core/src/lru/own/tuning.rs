//! The constants of [`Pagetide`](super::Pagetide) with the largest effect.
//!
//! They are not user settings: they were chosen once over many traces. They are a value rather than
//! `const` items so that `pagetide-tune` can measure each, and can check a later choice. Minor
//! constants are `const` items where used.

use crate::folio::Hits;

/// The order in which pages leave probation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProbationOrder {
    /// FIFO. A page with enough hits is judged for main at the old end.
    Arrival,
    /// LRU, exact to an epoch, as hits are logged once per epoch.
    Recency,
    /// FIFO by first arrival: a refaulted page is the next victim, and hits are ignored.
    FirstArrival,
}

/// A setting of the engine: one design of the selection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Setting {
    /// Name for texts.
    pub name: &'static str,
    /// Probation's share of memory, in percent, at least one page.
    pub probation_percent: u32,
    /// Maximum number of credits that one judgement may use at main's old end.
    pub turns: u32,
    /// Hits after which a page on probation is judged for main.
    pub hits_to_main: u32,
    /// The order in which pages leave probation.
    pub order: ProbationOrder,
}

impl Setting {
    /// Returns true if a hit moves its page to the young end of probation.
    #[inline]
    pub(super) fn moves_hits(&self) -> bool {
        self.order == ProbationOrder::Recency
    }

    /// Returns true if hits never keep a page in memory.
    #[inline]
    pub(super) fn keeps_no_set(&self) -> bool {
        self.order == ProbationOrder::FirstArrival
    }
}

/// Number of settings.
pub const NR_SETTINGS: usize = 4;

/// All constants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tuning {
    /// Seed of the sample.
    pub seed: u64,
    /// The settings to choose from. The first one is the initial one.
    pub settings: [Setting; NR_SETTINGS],
    /// Epochs per memory of first accesses.
    pub epochs_a_memory: u32,
    /// Evictions after which a page is forgotten, in percent of memory.
    pub horizon_percent: u32,
    /// Minimum ratio of a victim's recency to the candidate's reuse distance, in percent: 125 is a
    /// quarter longer.
    pub margin_percent: u32,
    /// Minimum frames of a miniature, if memory has as many. Also the minimum unit of the halving
    /// period.
    pub sample_frames_min: u32,
    /// A miniature has at least 1/`sample_parts` of memory.
    pub sample_parts: u32,
    /// Significance of a lead, in standard deviations.
    pub sigmas: u32,
}

impl Default for Tuning {
    fn default() -> Tuning {
        let setting = |name, probation_percent, turns, hits_to_main| Setting {
            name,
            probation_percent,
            turns,
            hits_to_main,
            order: ProbationOrder::Arrival,
        };
        // Main's share lets an idle set survive.
        let recency = Setting {
            order: ProbationOrder::Recency,
            ..setting("recency", 70, 4, Hits::COUNT_MAX)
        };
        let queue = Setting {
            order: ProbationOrder::FirstArrival,
            ..setting("queue", 100, 4, Hits::COUNT_MAX)
        };
        Tuning {
            seed: 0,
            settings: [setting("tight", 1, 4, 2), setting("loose", 20, 8, 1), recency, queue],
            epochs_a_memory: 16,
            horizon_percent: 200,
            margin_percent: 125,
            sample_frames_min: 512,
            sample_parts: 64,
            sigmas: 3,
        }
    }
}

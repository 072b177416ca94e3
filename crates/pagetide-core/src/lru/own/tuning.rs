//! The constants of [`Pagetide`](super::Pagetide) that decide most, in one place.
//!
//! No user sets these: they were chosen once, over traces of every kind, and the selection adapts
//! what is worth adapting. They are a value rather than `const` items so that the crate
//! `pagetide-tune` can show what each of them is worth, and so that a later choice can be checked
//! against this one. What hardly matters is a `const` where it is used.

use crate::folio::Hits;

/// In which order pages leave probation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProbationOrder {
    /// As they came. A page with enough hits is judged for main at the old end.
    Arrival,
    /// As they were hit last: LRU, as exact as hits are logged, which is to an epoch.
    Recency,
    /// As they came the first time: a page that comes back is the next to go, and hits are not
    /// looked at.
    FirstArrival,
}

/// How the engine is set: one of the designs that the selection chooses between.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Setting {
    /// Its name, for explanations.
    pub name: &'static str,
    /// Probation's share of memory, in percent; at least one page.
    pub probation_percent: u32,
    /// Hits that one judgement may use up at main's old end until it gives up.
    pub turns: u32,
    /// Hits on probation after which a page is judged for main.
    pub hits_to_main: u32,
    /// In which order pages leave probation.
    pub order: ProbationOrder,
}

impl Setting {
    /// Whether a hit moves its page to the young end of probation.
    #[inline]
    pub(super) fn moves_hits(&self) -> bool {
        self.order == ProbationOrder::Recency
    }

    /// Whether nothing that was in memory before is kept for its hits.
    #[inline]
    pub(super) fn keeps_no_set(&self) -> bool {
        self.order == ProbationOrder::FirstArrival
    }
}

/// How many settings there are.
pub const NR_SETTINGS: usize = 4;

/// All constants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tuning {
    /// Which pages are sampled follows from it, and nothing else.
    pub seed: u64,
    /// The designs to choose from; the first is what it starts as.
    pub settings: [Setting; NR_SETTINGS],
    /// An epoch ends when one of so many parts of memory was touched in it.
    pub epochs_a_memory: u32,
    /// How long an evicted page is remembered: in evictions, as percent of memory.
    pub horizon_percent: u32,
    /// How much longer ago, in distinct pages, a victim must have been accessed than the page that
    /// wants its place: 125 is a quarter longer.
    pub margin_percent: u32,
    /// The least frames of a miniature, where memory has as many; and the least that leads are
    /// halved by, where it has not.
    pub sample_frames_min: u32,
    /// A miniature has at least one of so many parts of memory.
    pub sample_parts: u32,
    /// How many standard deviations a lead must exceed chance by.
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
        // What main keeps is what an idle set has to survive in, while recency rules the rest.
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

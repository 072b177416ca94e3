//! The constants of [`Pagetide`](super::Pagetide), in one place, so that a sweep can doubt them.
//!
//! Nobody who uses the policy sets these: they were chosen once, over traces of every kind, and the
//! selection adapts what is worth adapting. They are a value rather than `const` items so that
//! the crate `pagetide-tune` can show what each of them is worth, and so that a later choice can be
//! checked against this one.
//!
//! Source: measured; the sweep prints the table.

use crate::folio::Hits;

/// In which order pages leave probation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// As they came. Who was hit often enough is judged for main, or makes another trip.
    Arrival,
    /// As they were hit last: LRU, as exact as hits are logged, which is to an epoch.
    Recency,
    /// As they came the first time: who came back is the next to go, and hits earn no other trip.
    FirstArrival,
}

/// How the engine is set: one of the designs that the selection chooses between.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arm {
    /// Its name, for explanations.
    pub name: &'static str,
    /// Probation's share of memory, in percent; at least one page.
    pub probation_percent: u32,
    /// Credits that one judgement may use up at main's old end until it gives up.
    pub turns: u32,
    /// Hits on probation after which a page is judged for main.
    pub hits_to_main: u32,
    /// In which order pages leave probation.
    pub order: Order,
}

impl Arm {
    /// Whether a hit moves its page to the young end of probation.
    #[inline]
    pub(super) fn moves_hits(&self) -> bool {
        self.order == Order::Recency
    }
}

/// How many arms there are.
pub const NR_ARMS: usize = 4;

/// All constants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tuning {
    /// Which pages are sampled follows from it, and nothing else.
    pub seed: u64,
    /// The designs to choose from; the first is what it starts as.
    pub arms: [Arm; NR_ARMS],
    /// An epoch ends when one of so many parts of memory was touched in it.
    pub epochs_a_memory: u32,
    /// How long an evicted page is history: in evictions, as percent of memory.
    pub horizon_percent: u32,
    /// How much longer ago, in distinct pages, a victim must have been accessed than the page that
    /// wants its place: 125 is a quarter longer.
    pub margin_percent: u32,
    /// The part of main that makes room for who fits, in percent: what was accessed longest ago.
    pub displaced_percent: u32,
    /// Young pages that a judgement may pass at main's old end.
    pub young_moves: u32,
    /// Pages that come back and fit are let in more insistently by each of so many parts of memory
    /// that were denied in a row.
    pub insist_parts: u32,
    /// The least frames of a miniature, where memory has as many; and the least that leads are
    /// halved by, where it has not.
    pub sample_frames_min: u32,
    /// A miniature has at least one of so many parts of memory.
    pub sample_parts: u32,
    /// How many standard deviations a lead must exceed chance by.
    pub sigmas: u32,
    /// Leads are halved every so many miniature memories of samples.
    pub halve_after: u32,
    /// Looks for a better arm between two halvings.
    pub looks: u32,
    /// The hits lost that moving main's frames to probation must be paid with, in percent of what
    /// moves.
    pub price_percent: u32,
    /// The part of memory that may move for nothing, in percent.
    pub free_percent: u32,
    /// The hits lost that giving all of memory to first arrivals must be paid with, in percent of
    /// memory: more than all, as two designs that keep different parts of a loop lead by turns.
    pub whole_price_percent: u32,
}

impl Default for Tuning {
    fn default() -> Tuning {
        let arm = |name, probation_percent, turns, hits_to_main| Arm {
            name,
            probation_percent,
            turns,
            hits_to_main,
            order: Order::Arrival,
        };
        // What main keeps is what an idle set has to survive in, while recency rules the rest; it
        // lends that, too, while recency has a use for it.
        let recency = Arm { order: Order::Recency, ..arm("recency", 70, 4, Hits::COUNT_MAX) };
        let queue = Arm { order: Order::FirstArrival, ..arm("queue", 100, 4, Hits::COUNT_MAX) };
        Tuning {
            seed: 0,
            arms: [arm("tight", 1, 4, 2), arm("loose", 20, 8, 1), recency, queue],
            epochs_a_memory: 16,
            horizon_percent: 200,
            margin_percent: 125,
            displaced_percent: 50,
            young_moves: 1,
            insist_parts: 64,
            sample_frames_min: 512,
            sample_parts: 64,
            sigmas: 3,
            halve_after: 3,
            looks: 64,
            price_percent: 75,
            free_percent: 20,
            whole_price_percent: 200,
        }
    }
}

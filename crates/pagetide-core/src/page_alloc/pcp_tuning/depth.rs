//! Depth tuning: once a second, the limit follows the depth of allocation and free runs.
//!
//! **Problem.** A high limit helps only a CPU that takes many frames *and* returns them.
//!
//! **Idea.** Count allocations up and frees down. The largest rise within a second is the
//! allocation depth, the largest fall the free depth. Lists as deep as the smaller one avoid the
//! zone.
//!
//! ```text
//!   frames held    /\        /\
//!   by this CPU   /  \      /  \        depth 30000, period 1 s: high 15000, 22500, 26250, ...
//!                /    \    /    \
//!   ------------'      '--'      '---> time        tuned at the first free after a second
//! ```
//!
//! **Data and invariants.** Averages halve the past each period. A period twice too long resets
//! them. Refills and drains are as in the fixed tuning.
//!
//! Rounding down leaves the limit one below the run depth, so each cycle of runs moves two batches.
//!
//! **Ignored.** Pressure beyond the fixed tuning, and changes within a second, the reason why this
//! was not merged.
//!
//! **Source.** Y. Huang, "mm: PCP high auto-tuning", RFC of July 2023.

use super::fixed::Fixed;
use super::{Gauge, Tune, ZoneView};
use crate::ids::Order;
use crate::units::Millis;

const PERIOD_MS: u64 = 1000;

#[derive(Debug, Default)]
pub(in crate::page_alloc) struct Depth {
    batches: Fixed,
    counts: Counts,
    avg_alloc_depth: u32,
    avg_free_depth: u32,
    tune_start: Millis,
}

#[derive(Debug, Default)]
struct Counts {
    /// Allocations minus frees.
    alloc_count: i32,
    alloc_high: i32,
    alloc_low: i32,
    alloc_depth: i32,
    free_depth: i32,
}

impl Tune for Depth {
    #[inline]
    fn note_alloc(&mut self, gauge: &Gauge, nr_frames: u32) {
        self.batches.note_alloc(gauge, nr_frames);
        let counts = &mut self.counts;
        counts.alloc_count = counts.alloc_count.saturating_add(nr_frames as i32);
        counts.alloc_high = counts.alloc_high.max(counts.alloc_count);
        let depth = counts.alloc_count.saturating_sub(counts.alloc_low);
        counts.alloc_depth = counts.alloc_depth.max(depth);
    }

    fn blocks_to_fetch(&mut self, gauge: &mut Gauge, order: Order, below_high: bool) -> u32 {
        self.batches.blocks_to_fetch(gauge, order, below_high)
    }

    #[inline]
    fn frames_to_drain(&mut self, gauge: &mut Gauge, order: Order, zone: ZoneView) -> u32 {
        if gauge.high_min() == 0 {
            gauge.high = 0;
            self.tune_start = Millis(0);
        } else {
            let counts = &mut self.counts;
            counts.alloc_count = counts.alloc_count.saturating_sub(order.nr_frames() as i32);
            counts.alloc_low = counts.alloc_low.min(counts.alloc_count);
            let depth = counts.alloc_high.saturating_sub(counts.alloc_count);
            counts.free_depth = counts.free_depth.max(depth);
            self.tune(gauge, zone.signals.now);
        }
        self.batches.frames_to_drain(gauge, order, zone)
    }

    /// Each free is counted, and may end the period.
    #[inline]
    fn note_kept(&mut self, _gauge: &Gauge) -> bool {
        false
    }

    fn follow_limits(&mut self, gauge: &mut Gauge) {
        gauge.set_high(gauge.high);
    }
}

impl Depth {
    fn tune(&mut self, gauge: &mut Gauge, now: Millis) {
        let elapsed_ms = now.0.saturating_sub(self.tune_start.0);
        if elapsed_ms <= PERIOD_MS {
            return;
        }
        let counts = core::mem::take(&mut self.counts);
        self.tune_start = now;
        if elapsed_ms > 2 * PERIOD_MS {
            (self.avg_alloc_depth, self.avg_free_depth) = (0, 0);
        } else {
            // Both depths are at least 0.
            self.avg_alloc_depth = (self.avg_alloc_depth + counts.alloc_depth as u32) / 2;
            self.avg_free_depth = (self.avg_free_depth + counts.free_depth as u32) / 2;
        }
        gauge.set_high(self.avg_alloc_depth.min(self.avg_free_depth));
    }
}

#[cfg(test)]
impl Depth {
    pub(super) fn averages(&self) -> (u32, u32) {
        (self.avg_alloc_depth, self.avg_free_depth)
    }
}

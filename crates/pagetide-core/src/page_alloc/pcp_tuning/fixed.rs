//! Fixed tuning: a constant limit, with growing drains in runs of frees.
//!
//! **Problem.** Few visits to the zone, with one byte of state.
//!
//! **Idea.** Each drain in a run of frees doubles. Each allocation halves the scale.
//!
//! ```text
//!   free free ... free(high)   ... (high)    ... (high)        batch 63, high 1036
//!                 drain 63         126           252, 504, 973, 973, ...
//! ```
//!
//! **Data and invariants.** `free_factor` is the scale, at most 2^5. A run of frees of order 1 to 3
//! drains everything.
//!
//! **Ignored.** Allocation runs: each refill is one batch.
//!
//! **Source.** The page allocator of Linux 5.14 to 6.6, with the cap on the scale.

use super::{Gauge, PCP_BATCH_SCALE_MAX, Tune, ZoneView, is_run_order};
use crate::ids::Order;

#[derive(Debug, Default)]
pub(in crate::page_alloc) struct Fixed {
    /// The next drain takes `batch << free_factor`.
    free_factor: u8,
}

impl Tune for Fixed {
    #[inline]
    fn note_alloc(&mut self, _gauge: &Gauge, _nr_frames: u32) {
        self.free_factor >>= 1;
    }

    fn blocks_to_fetch(&mut self, gauge: &mut Gauge, order: Order, _below_high: bool) -> u32 {
        Gauge::blocks_of(gauge.batch(), order)
    }

    #[inline]
    fn frames_to_drain(&mut self, gauge: &mut Gauge, order: Order, zone: ZoneView) -> u32 {
        let is_run = self.free_factor > 0 && is_run_order(order);
        let high = if is_run {
            0
        } else if zone.signals.reclaim_active {
            gauge.high.min(4 * gauge.batch())
        } else {
            gauge.high
        };
        if gauge.count < high {
            return 0;
        }
        if is_run { gauge.count } else { self.scaled_drain(gauge, high) }
    }

    #[inline]
    fn note_kept(&mut self, _gauge: &Gauge) -> bool {
        true
    }

    fn follow_limits(&mut self, gauge: &mut Gauge) {
        gauge.high = gauge.high_min();
    }
}

impl Fixed {
    fn scaled_drain(&mut self, gauge: &Gauge, high: u32) -> u32 {
        let wanted = gauge.batch() << self.free_factor;
        if wanted < high.saturating_sub(gauge.batch()) && self.free_factor < PCP_BATCH_SCALE_MAX {
            self.free_factor += 1;
        }
        gauge.bounded_drain(wanted, high)
    }
}

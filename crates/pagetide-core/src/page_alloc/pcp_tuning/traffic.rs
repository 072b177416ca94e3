//! Recent traffic of a list, which scales batches.
//!
//! ```text
//!   frees       raise free_count, halve the next refill
//!   allocations halve free_count
//! ```
//!
//! Mixed traffic keeps both small.
//!
//! **Source.** Linux 6.18's page allocator.

use super::{Gauge, is_run_order};
use crate::ids::Order;

#[derive(Debug, Default)]
pub(super) struct Traffic {
    /// Frames freed recently. Halved by every allocation.
    pub(super) free_count: u32,
    /// The next refill fetches `batch << alloc_factor`. Halved by every free.
    pub(super) alloc_factor: u8,
    was_run_order: bool,
}

impl Traffic {
    #[inline]
    pub(super) fn note_alloc(&mut self) {
        self.free_count >>= 1;
    }

    /// Records a free. Returns true if it continues a run of order 1 to 3, which lists should not
    /// keep.
    #[inline]
    pub(super) fn note_free(&mut self, gauge: &Gauge, order: Order) -> bool {
        self.alloc_factor >>= 1;
        let was_run_order = core::mem::replace(&mut self.was_run_order, is_run_order(order));
        let is_run = is_run_order(order)
            && was_run_order
            && self.free_count >= gauge.batch() + gauge.high_min() / 2
            && (!gauge.limits.keeps_batch_in_runs() || gauge.count >= gauge.batch());
        if self.free_count < gauge.batch_max() {
            self.free_count += order.nr_frames();
        }
        is_run
    }
}

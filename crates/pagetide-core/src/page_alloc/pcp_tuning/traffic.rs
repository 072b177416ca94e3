//! Which way frames went through a list of late: what batches are sized by.
//!
//! ```text
//!   frees       raise free_count, halve the next refill
//!   allocations halve free_count
//! ```
//!
//! Mixed traffic keeps both near 0, and the batches small. Source: the page allocator
//! specification, section 7.

use super::{Gauge, is_run_order};
use crate::ids::Order;

/// What the last allocations and frees were.
#[derive(Debug, Default)]
pub(super) struct Traffic {
    /// Frames freed of late: halved by every allocation.
    pub(super) free_count: u32,
    /// The next refill asks for `batch << alloc_factor`; halved by every free.
    pub(super) alloc_factor: u8,
    /// The last free was of order 1 to 3.
    was_run_order: bool,
}

impl Traffic {
    /// An allocation.
    #[inline]
    pub(super) fn note_alloc(&mut self) {
        self.free_count >>= 1;
    }

    /// A free. Says whether it goes on with a run of frees of order 1 to 3, none of which is worth
    /// keeping.
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

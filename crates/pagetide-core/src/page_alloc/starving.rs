//! An allocation that empties the lists: what it holds meanwhile. What that does: `pressure`.

use super::frame_table::FrameTable;
use alloc::sync::Arc;

/// An allocation that found nothing anywhere: while it lives, lists keep nothing.
///
/// Made before the first list is emptied, as [`Attempt::DrainCpus`](super::Attempt::DrainCpus)
/// asks, and kept until the allocation has its frame or gave up.
#[derive(Debug)]
#[must_use = "lists keep frames again when it is dropped"]
pub struct Starving(Arc<FrameTable>);

impl Starving {
    /// From here on, lists of this table's zone keep nothing.
    pub fn new(table: &Arc<FrameTable>) -> Starving {
        table.pressure.begin_starving();
        Starving(Arc::clone(table))
    }
}

impl Drop for Starving {
    fn drop(&mut self) {
        self.0.pressure.end_starving();
    }
}

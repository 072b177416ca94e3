//! Guard of an allocation that drains the lists. See `pressure`.

use super::frame_table::FrameTable;
use alloc::sync::Arc;

/// Marks an allocation that found nothing: while this lives, lists keep nothing.
///
/// Create this before the first drain ([`Attempt::DrainCpus`](super::Attempt::DrainCpus)).
#[derive(Debug)]
#[must_use = "lists keep frames again when it is dropped"]
pub struct Starving(Arc<FrameTable>);

impl Starving {
    /// Starts to starve on this table's zone.
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

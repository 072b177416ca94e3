//! Aging by page tables: walks and look-arounds.

use crate::ids::FrameId;
use crate::lru::Context;
use crate::lru::page_table::{TableWalk, YoungPages};

/// A policy that uses young bits found outside of a victim's trial.
pub trait AgesByTables {
    /// Handles a listed folio that was young.
    fn young(&mut self, cx: &mut Context<'_>, frame: FrameId);

    /// Begins a table walk.
    fn start_walk(&mut self) -> TableWalk {
        TableWalk::of_all()
    }

    /// Records the counts and dense leaves of a walk begun at generation `walk_seq`, or of
    /// look-arounds if `None`.
    fn note_walk(&mut self, found: &YoungPages, walk_seq: Option<u64>) {
        let _ = (found, walk_seq);
    }
}

//! Aging by page tables: a walk, or a look beside a victim, found folios young.

use crate::ids::FrameId;
use crate::lru::Context;
use crate::lru::page_table::{TableWalk, YoungPages};

/// A policy that is told of young bits taken from page tables, outside of the trial of a victim.
pub trait AgesByTables {
    /// A folio on its lists was young. Its flags decide what that means.
    fn young(&mut self, cx: &mut Context<'_>, frame: FrameId);

    /// Begins a table walk: which leaf tables are worth a visit.
    fn start_walk(&mut self) -> TableWalk {
        TableWalk::of_all()
    }

    /// What looking at page tables found besides young folios: in a walk begun while `walk_seq` was
    /// the youngest generation, or beside victims of a pass.
    fn note_walk(&mut self, found: &YoungPages, walk_seq: Option<u64>) {
        let _ = (found, walk_seq);
    }
}

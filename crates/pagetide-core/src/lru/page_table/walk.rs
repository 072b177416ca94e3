//! A page-table walk, executed by a world.

use super::{Bloom, LEAF_PAGES, LeafId, YoungPages};

/// Young pages per report. Bounds the time under the lruvec's lock.
pub(crate) const BATCH_MAX: usize = 4096;
const _: () = assert!(BATCH_MAX > LEAF_PAGES as usize, "there is room for a leaf");

/// One page-table walk.
///
/// Ask [`wants`](TableWalk::wants) for each leaf table, and report when the walk [is
/// full](TableWalk::is_full) and at the end
/// ([`Lruvec::report_walk`](crate::lru::Lruvec::report_walk)).
#[derive(Debug)]
pub struct TableWalk {
    /// All leaves if `None`.
    filter: Option<Bloom>,
    pub(crate) seq: u64,
    found: YoungPages,
}

impl TableWalk {
    /// Creates a walk of all leaves.
    pub fn of_all() -> TableWalk {
        TableWalk::new(None, 0)
    }

    pub(crate) fn new(filter: Option<Bloom>, seq: u64) -> TableWalk {
        TableWalk { filter, seq, found: YoungPages::default() }
    }

    /// Returns true if this leaf should be read. Counts skipped leaves, so call once per leaf.
    pub fn wants(&mut self, leaf: LeafId) -> bool {
        let wanted = self.filter.as_ref().is_none_or(|filter| filter.contains(leaf));
        self.found.counts.nr_skipped += u64::from(!wanted);
        wanted
    }

    /// Returns the collector of young pages.
    pub fn found(&mut self) -> &mut YoungPages {
        &mut self.found
    }

    /// Returns true if the walk must report before the next leaf.
    pub fn is_full(&self) -> bool {
        self.found.len() > BATCH_MAX - LEAF_PAGES as usize
    }

    pub(crate) fn found_so_far(&self) -> &YoungPages {
        &self.found
    }

    pub(crate) fn forget_reported(&mut self) {
        self.found.clear();
    }
}

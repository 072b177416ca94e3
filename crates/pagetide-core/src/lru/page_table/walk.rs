//! A walk over the page tables, in the hands of a world: which leaf tables to read, and what was
//! found in them since the last report.

use super::{Bloom, LEAF_PAGES, LeafId, YoungPages};

/// Young pages reported at once, at most, so that the lruvec is never locked for long.
pub(crate) const BATCH_MAX: usize = 4096;
const _: () = assert!(BATCH_MAX > LEAF_PAGES as usize, "there is room for a leaf");

/// One walk over the page tables, in the hands of a world.
///
/// Ask it for each leaf table, and have it report when it [is full](TableWalk::is_full) and at the
/// end ([`Lruvec::report_walk`](crate::lru::Lruvec::report_walk)).
#[derive(Debug)]
pub struct TableWalk {
    /// What to read; everything if there is none.
    filter: Option<Bloom>,
    /// The generation that was the youngest when it began.
    pub(crate) seq: u64,
    found: YoungPages,
}

impl TableWalk {
    /// A walk of all leaves.
    pub fn of_all() -> TableWalk {
        TableWalk::new(None, 0)
    }

    pub(crate) fn new(filter: Option<Bloom>, seq: u64) -> TableWalk {
        TableWalk { filter, seq, found: YoungPages::default() }
    }

    /// Whether to read this leaf's words. Ask once a leaf: the refused ones are counted.
    pub fn wants(&mut self, leaf: LeafId) -> bool {
        let wanted = self.filter.as_ref().is_none_or(|filter| filter.contains(leaf));
        self.found.counts.nr_skipped += u64::from(!wanted);
        wanted
    }

    /// Where to tell what the leaf's words say.
    pub fn found(&mut self) -> &mut YoungPages {
        &mut self.found
    }

    /// Whether it must report before the next leaf.
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

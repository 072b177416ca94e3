//! Table walks: the leaf tables that aging reads, and the filters of dense leaves.
//!
//! ```text
//!               aging at seq             aging at seq+1           aging at seq+2
//!   filter 0    selects leaves           emptied, then filled     selects leaves
//!   filter 1    emptied, then filled ->  selects leaves           emptied, then filled
//!                     ^ dense leaves of the walk        ^
//!                                          look-arounds between two walks add here
//! ```
//!
//! A leaf table dense in young pages is walked the next time too. Other leaves are skipped until
//! eviction finds a page of the leaf young together with its neighbours. Young pages in skipped
//! tables keep their bits for eviction to read.
//!
//! Several passes may walk at once. The first one clears the filter of the next walk, and all add
//! to it. Ignored: a list of address spaces with one walker each, and non-leaf tables. Source:
//! `Documentation/mm/multigen_lru.rst`, "Aging" and "Bloom filters".

use crate::lru::page_table::{Bloom, LookCounts, TableWalk, YoungPages};

#[derive(Debug)]
pub(super) struct Walks {
    /// By the sequence number of the reading walk modulo 2.
    filters: [Bloom; 2],
    last: Option<u64>,
    is_forced: bool,
    latest: LookCounts,
    total: LookCounts,
}

impl Walks {
    /// Reads every leaf in the first two walks, unless a filter is cleared before.
    pub(super) fn new() -> Walks {
        Walks {
            filters: [Bloom::of_all(), Bloom::of_all()],
            last: None,
            is_forced: false,
            latest: LookCounts::default(),
            total: LookCounts::default(),
        }
    }

    pub(super) fn force_next(&mut self, force: bool) {
        self.is_forced = force;
    }

    /// Begins a walk. `seq` is the youngest generation, and `all` reads every leaf.
    pub(super) fn start(&mut self, seq: u64, all: bool) -> TableWalk {
        if self.last != Some(seq) {
            self.last = Some(seq);
            self.filters[index_of(seq + 1)].clear();
            self.latest = LookCounts::default();
        }
        let all = core::mem::take(&mut self.is_forced) || all;
        let filter = if all { None } else { Some(self.filters[index_of(seq)].clone()) };
        TableWalk::new(filter, seq)
    }

    pub(super) fn remember(&mut self, seq: u64, found: &YoungPages) {
        found.dense.iter().for_each(|leaf| self.filters[index_of(seq)].insert(*leaf));
    }

    pub(super) fn count(&mut self, read: LookCounts) {
        self.latest.add(read);
        self.total.add(read);
    }

    pub(super) fn latest(&self) -> LookCounts {
        self.latest
    }

    pub(super) fn total(&self) -> LookCounts {
        self.total
    }
}

fn index_of(seq: u64) -> usize {
    (seq % 2) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{FrameId, MappingId, PageIndex};
    use crate::lru::page_table::{BATCH_MAX, LeafId};

    const fn leaf(number: u64) -> LeafId {
        LeafId { mapping: MappingId(1), number }
    }

    fn look(found: &mut YoungPages, leaf: LeafId, nr_young: u64) {
        let mut look = found.look_at(leaf);
        for (nth, index) in leaf.pages().take(64).enumerate() {
            if (nth as u64) < nr_young {
                look.young(PageIndex(index), FrameId(nth as u32));
            } else {
                look.resident(PageIndex(index));
            }
        }
        look.done();
    }

    /// Returns true if the walk reads the leaf, with `nr_young` young pages.
    fn walk(walks: &mut Walks, seq: u64, nr_young: u64) -> bool {
        let mut walk = walks.start(seq, false);
        let wanted = walk.wants(leaf(1));
        if wanted {
            look(walk.found(), leaf(1), nr_young);
        }
        walks.remember(seq + 1, walk.found_so_far());
        walks.count(walk.found_so_far().counts);
        wanted
    }

    #[test]
    fn a_leaf_is_walked_again_while_it_is_dense() {
        let mut walks = Walks::new();
        assert!(walk(&mut walks, 3, 8), "nothing known yet");
        assert!(walk(&mut walks, 4, 8), "8 of 64");
        assert!(walk(&mut walks, 5, 7), "8 of 64 again");
        assert!(!walk(&mut walks, 6, 8), "7 of 64");
        assert!(!walk(&mut walks, 7, 8), "not seen, so not dense");
        assert!(walks.start(8, true).wants(leaf(1)), "a forced walk reads all");
    }

    #[test]
    fn a_look_around_brings_a_leaf_back() {
        let mut walks = Walks::new();
        assert!(walk(&mut walks, 3, 0) && !walk(&mut walks, 4, 0));
        let mut found = YoungPages::default();
        look(&mut found, leaf(1), 8);
        walks.remember(5, &found);
        assert!(walk(&mut walks, 5, 0));
        assert!(!walk(&mut walks, 6, 0));
    }

    #[test]
    fn walks_side_by_side_share_what_they_find() {
        let mut walks = Walks::new();
        assert!(walk(&mut walks, 3, 8));
        assert!(walk(&mut walks, 3, 0), "the bits were taken by the first");
        assert_eq!(walks.latest().nr_leaves, 2);
        assert!(walk(&mut walks, 4, 0), "and it is remembered all the same");
        let latest = LookCounts { nr_leaves: 1, nr_scanned: 64, ..LookCounts::default() };
        assert_eq!(walks.latest(), latest);
        assert_eq!(walks.total().nr_leaves, 3);
    }

    #[test]
    fn a_walk_reports_before_the_next_leaf_could_be_too_much() {
        let mut walk = TableWalk::of_all();
        let mut nr_leaves = 0;
        while !walk.is_full() {
            look(walk.found(), leaf(nr_leaves), 64);
            nr_leaves += 1;
        }
        assert!(walk.found_so_far().len() <= BATCH_MAX && nr_leaves > 7);
        walk.forget_reported();
        assert!(!walk.is_full() && walk.found_so_far().is_empty());
    }
}

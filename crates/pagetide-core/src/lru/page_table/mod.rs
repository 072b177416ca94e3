//! Page-table scans: the types shared by worlds and core.
//!
//! Problem: a table access only sets a young bit in a page word. Idea: page words are in *leaf
//! tables* of 512 words. Only leaves dense in young pages are worth reading: at least one young
//! page per cache line.
//!
//! ```text
//!   leaf   [ . . r r Y r . Y | r r . Y . . . . | . . . . . . . . | ... ]     512 words
//!                ^-- first resident  ^-- last resident
//!                |<---- scanned ---->|          dense: young * 8 >= scanned
//! ```
//!
//! The worlds read words, clear young bits and record each leaf in a [`YoungPages`] ([`LeafLook`])
//! without core's lock. The policy gets batches, under its lock. Words before the first and after
//! the last resident page do not count as scanned, but any look counts at least 64 words. So
//! mappings of fewer than eight pages are never dense.
//!
//! Source: Yu Zhao's multi-gen LRU series of 2022, patches 7 and 8.

mod bloom;
mod walk;

pub(crate) use bloom::Bloom;
#[cfg(test)]
pub(crate) use walk::BATCH_MAX;
pub use walk::TableWalk;

use crate::folio::Flags;
use crate::ids::{FrameId, MappingId, PageId, PageIndex};
use alloc::vec::Vec;
use core::ops::Range;

/// Page words in a leaf table.
pub const LEAF_PAGES: u64 = 512;
const AROUND_PAGES: u64 = 64;
const LINE_PAGES: u64 = 8;

/// A leaf table: 512 page words of one mapping.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct LeafId {
    /// The mapping.
    pub mapping: MappingId,
    /// A page's index divided by [`LEAF_PAGES`].
    pub number: u64,
}

impl LeafId {
    /// Returns the leaf with the word of `page`.
    pub const fn of(page: PageId) -> LeafId {
        LeafId { mapping: page.mapping, number: page.index.0 / LEAF_PAGES }
    }

    /// Returns the page indexes of the leaf.
    pub const fn pages(self) -> Range<u64> {
        let first = self.number * LEAF_PAGES;
        first..first + LEAF_PAGES
    }
}

/// Returns the range of a look-around: 64 pages of the leaf, centred on `index` if possible.
pub fn pages_around(index: PageIndex) -> Range<u64> {
    let leaf = index.0 - index.0 % LEAF_PAGES;
    let start = (index.0 % LEAF_PAGES).saturating_sub(AROUND_PAGES / 2);
    let first = leaf + start.min(LEAF_PAGES - AROUND_PAGES);
    first..first + AROUND_PAGES
}

/// Returns true if a look-around clears the young bit of a folio with these flags. Isolated victims
/// keep their bit for their own trial.
pub const fn wants_around(flags: Flags) -> bool {
    flags.any(Flags::ON_LIST)
}

/// Returns true if the range is dense: at least one young page per cache line.
pub const fn is_dense(nr_young: u64, nr_scanned: u64) -> bool {
    nr_young > 0 && nr_young * LINE_PAGES >= nr_scanned
}

/// Young pages and dense leaves to report. Clear it under the lruvec's lock.
#[derive(Debug, Default)]
pub struct YoungPages {
    pub(crate) frames: Vec<FrameId>,
    pub(crate) dense: Vec<LeafId>,
    pub(crate) counts: LookCounts,
}

/// Counts of page-table scans.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct LookCounts {
    /// Leaves read.
    pub nr_leaves: u64,
    /// Leaves in use that a walk skipped.
    pub nr_skipped: u64,
    /// Words from the first to the last resident page, at least 64 per leaf.
    pub nr_scanned: u64,
    /// Young pages.
    pub nr_young: u64,
    /// Dense leaves.
    pub nr_dense: u64,
}

impl LookCounts {
    /// Adds `other`.
    pub fn add(&mut self, other: LookCounts) {
        self.nr_leaves += other.nr_leaves;
        self.nr_skipped += other.nr_skipped;
        self.nr_scanned += other.nr_scanned;
        self.nr_young += other.nr_young;
        self.nr_dense += other.nr_dense;
    }
}

impl YoungPages {
    pub(crate) fn with_room_around(nr_looks: usize) -> YoungPages {
        YoungPages {
            frames: Vec::with_capacity(nr_looks * AROUND_PAGES as usize),
            dense: Vec::with_capacity(nr_looks),
            counts: LookCounts::default(),
        }
    }

    /// Begins a scan of `leaf`.
    pub fn look_at(&mut self, leaf: LeafId) -> LeafLook<'_> {
        LeafLook { found: self, leaf, resident: None, nr_young: 0 }
    }

    /// Returns the number of young frames not reported yet.
    pub fn len(&self) -> usize {
        self.frames.len()
    }

    /// Returns true if there is nothing to report.
    pub fn is_empty(&self) -> bool {
        self.counts.nr_leaves == 0
    }

    pub(crate) fn nr_frames_young(&self) -> u64 {
        self.frames.len() as u64
    }

    pub(crate) fn clear(&mut self) {
        self.frames.clear();
        self.dense.clear();
        self.counts = LookCounts::default();
    }
}

/// A scan of one leaf, counted when [`done`](LeafLook::done).
#[derive(Debug)]
#[must_use = "nothing is counted before `done`"]
pub struct LeafLook<'a> {
    found: &'a mut YoungPages,
    leaf: LeafId,
    resident: Option<(PageIndex, PageIndex)>,
    nr_young: u64,
}

impl LeafLook<'_> {
    /// Records a resident page that is not young or keeps its young bit.
    pub fn resident(&mut self, index: PageIndex) {
        let (first, last) = self.resident.unwrap_or((index, index));
        self.resident = Some((first.min(index), last.max(index)));
    }

    /// Records a young page in `frame` with its bit cleared.
    pub fn young(&mut self, index: PageIndex, frame: FrameId) {
        self.young_victim(index);
        self.found.frames.push(frame);
    }

    /// Records the young victim that caused this scan.
    pub fn young_victim(&mut self, index: PageIndex) {
        self.resident(index);
        self.nr_young += 1;
    }

    /// Ends the scan.
    pub fn done(self) {
        let span = self.resident.map_or(0, |(first, last)| last.0 - first.0 + 1);
        let nr_scanned = span.max(AROUND_PAGES);
        let is_dense = is_dense(self.nr_young, nr_scanned);
        let counts = &mut self.found.counts;
        counts.nr_leaves += 1;
        counts.nr_scanned += nr_scanned;
        counts.nr_young += self.nr_young;
        counts.nr_dense += u64::from(is_dense);
        if is_dense {
            self.found.dense.push(self.leaf);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAF: LeafId = LeafId { mapping: MappingId(3), number: 2 };

    /// Looks into the third leaf of a mapping.
    #[test]
    fn the_window_is_centred_and_stays_in_its_leaf() {
        let around = |entry: u64| {
            let window = pages_around(PageIndex(1024 + entry));
            (window.start - 1024, window.end - 1 - 1024)
        };
        assert_eq!(around(10), (0, 63));
        assert_eq!(around(100), (68, 131));
        assert_eq!(around(500), (448, 511));
        for entry in 0..LEAF_PAGES {
            let window = pages_around(PageIndex(1024 + entry));
            assert!(window.contains(&(1024 + entry)) && window.end - window.start == 64);
            assert!(LEAF.pages().contains(&window.start) && window.end <= LEAF.pages().end);
        }
    }

    #[test]
    fn one_young_page_a_cache_line_is_dense() {
        assert!(is_dense(8, 64));
        assert!(!is_dense(7, 64));
        assert!(is_dense(64, 512) && !is_dense(63, 512));
        assert!(!is_dense(0, 0), "an empty table is not worth a look");
    }

    #[test]
    fn only_the_resident_part_of_a_leaf_counts_as_scanned() {
        let mut found = YoungPages::default();
        let mut look = found.look_at(LEAF);
        look.resident(PageIndex(1030));
        look.young(PageIndex(1040), FrameId(1));
        look.young_victim(PageIndex(1044));
        look.resident(PageIndex(1109));
        (1046..1052).for_each(|index| look.young(PageIndex(index), FrameId(7)));
        look.done();
        let mut expected = LookCounts { nr_leaves: 1, nr_scanned: 80, nr_young: 8, ..found.counts };
        expected.nr_dense = 0;
        assert_eq!(found.counts, expected, "8 of 80");
        assert_eq!((found.len(), found.frames[0]), (7, FrameId(1)), "the victim is not reported");
    }

    #[test]
    fn few_pages_do_not_make_a_leaf_dense() {
        let mut found = YoungPages::default();
        for nr_young in [7, 8] {
            let mut look = found.look_at(LEAF);
            (0..nr_young).for_each(|nth| look.young(PageIndex(1024 + nth), FrameId(0)));
            look.done();
        }
        assert_eq!(found.counts.nr_scanned, 128);
        assert_eq!((&found.dense[..], found.counts.nr_dense), (&[LEAF][..], 1));
    }

    #[test]
    fn a_page_is_in_its_leaf() {
        let page = PageId { mapping: MappingId(3), index: PageIndex(1535) };
        assert_eq!(LeafId::of(page), LEAF);
        assert_eq!(LEAF.pages(), 1024..1536);
    }
}

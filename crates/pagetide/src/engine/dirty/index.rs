//! The dirty pages of one mapping, in order.

use super::page_set::PageSet;
use crate::engine::written::Written;
use crate::memory::locks::lock;
use pagetide_core::units::{PAGE_BYTES, PAGE_SHIFT};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Mutex;

/// File pages with their dirty ranges, or a bit for each region page.
pub(crate) enum DirtyIndex {
    OfFile(Mutex<BTreeMap<u64, Written>>),
    /// A store to a region may be anywhere in the page.
    OfRegion(PageSet),
}

impl DirtyIndex {
    pub(crate) fn of_file() -> DirtyIndex {
        DirtyIndex::OfFile(Mutex::default())
    }

    pub(crate) fn of_region(nr_pages: u64) -> DirtyIndex {
        DirtyIndex::OfRegion(PageSet::new(nr_pages))
    }

    /// Returns true if inserting the page allocates nothing.
    pub(crate) fn is_prepared(&self, index: u64) -> bool {
        match self {
            DirtyIndex::OfFile(_) => false,
            DirtyIndex::OfRegion(set) => set.is_prepared(index),
        }
    }

    pub(crate) fn insert(&self, index: u64, written: &Written) {
        match self {
            DirtyIndex::OfFile(tree) => {
                let mut tree = lock(tree);
                let entry = tree.entry(index).and_modify(|one| one.merge(written));
                entry.or_insert_with(|| written.clone());
            }
            DirtyIndex::OfRegion(set) => set.insert(index),
        }
    }

    pub(crate) fn take(&self, index: u64) -> Option<Written> {
        match self {
            DirtyIndex::OfFile(tree) => lock(tree).remove(&index),
            DirtyIndex::OfRegion(set) => set.remove(index).then_some(Written::WHOLE),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        match self {
            DirtyIndex::OfFile(tree) => lock(tree).is_empty(),
            DirtyIndex::OfRegion(set) => set.is_empty(),
        }
    }

    /// Returns the number of dirty pages.
    pub(crate) fn nr(&self) -> u64 {
        match self {
            DirtyIndex::OfFile(tree) => lock(tree).len() as u64,
            DirtyIndex::OfRegion(set) => set.nr(),
        }
    }

    pub(crate) fn is_partial(&self, index: u64) -> bool {
        let is_partial = |tree: &BTreeMap<u64, Written>| Some(!tree.get(&index)?.is_whole());
        self.in_tree(is_partial).flatten().unwrap_or(false)
    }

    pub(crate) fn has_partial(&self) -> bool {
        let has = |tree: &BTreeMap<u64, Written>| tree.values().any(|written| !written.is_whole());
        self.in_tree(has).unwrap_or(false)
    }

    /// Returns the end of the last dirty byte in the file, or 0.
    pub(crate) fn end(&self) -> u64 {
        let last = match self {
            DirtyIndex::OfFile(tree) => {
                let tree = lock(tree);
                tree.last_key_value().map(|(index, last)| (*index, last.end()))
            }
            DirtyIndex::OfRegion(set) => set.last().map(|index| (index, PAGE_BYTES)),
        };
        last.map_or(0, |(index, end)| (index << PAGE_SHIFT) + end as u64)
    }

    pub(crate) fn cut(&self, index: u64, end: usize) {
        if let DirtyIndex::OfFile(tree) = self
            && let Some(written) = lock(tree).get_mut(&index)
        {
            written.cut(end);
        }
    }

    /// Returns the first dirty page at or after `from` and its dirty neighbours, at most `nr_max`.
    pub(crate) fn next_run(&self, from: u64, nr_max: u64) -> Option<Range<u64>> {
        match self {
            DirtyIndex::OfFile(tree) => {
                let tree = lock(tree);
                run_of(tree.range(from..).map(|(index, _)| *index), nr_max)
            }
            DirtyIndex::OfRegion(set) => run_of(set.iter_from(from), nr_max),
        }
    }

    /// Returns partly dirty pages at or after `from`, at most `nr_max`.
    pub(crate) fn collect_partial(&self, from: u64, nr_max: usize) -> Vec<u64> {
        let collect = |tree: &BTreeMap<u64, Written>| {
            let partial = tree.range(from..).filter(|(_, written)| !written.is_whole());
            partial.map(|(index, _)| *index).take(nr_max).collect()
        };
        self.in_tree(collect).unwrap_or_default()
    }

    pub(crate) fn collect_in(&self, range: Range<u64>, nr_max: usize) -> Vec<u64> {
        match self {
            DirtyIndex::OfFile(tree) => {
                lock(tree).range(range).map(|(index, _)| *index).take(nr_max).collect()
            }
            DirtyIndex::OfRegion(set) => {
                let pages = set.iter_from(range.start).take_while(|index| *index < range.end);
                pages.take(nr_max).collect()
            }
        }
    }

    fn in_tree<T>(&self, look: impl FnOnce(&BTreeMap<u64, Written>) -> T) -> Option<T> {
        match self {
            DirtyIndex::OfFile(tree) => Some(look(&lock(tree))),
            DirtyIndex::OfRegion(_) => None,
        }
    }
}

fn run_of(mut indices: impl Iterator<Item = u64>, nr_max: u64) -> Option<Range<u64>> {
    let start = indices.next()?;
    let nr_more = (start + 1..start + nr_max).zip(indices).take_while(|(next, is)| next == is);
    Some(start..start + 1 + nr_more.count() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_neighbours_in_order() {
        for dirty in [DirtyIndex::of_file(), DirtyIndex::of_region(1 << 20)] {
            [7, 3, 4, 5, 9].into_iter().for_each(|index| dirty.insert(index, &Written::WHOLE));
            assert_eq!(dirty.next_run(0, 2), Some(3..5));
            assert_eq!(dirty.next_run(5, 8), Some(5..6));
            assert_eq!(dirty.next_run(6, 8), Some(7..8));
            assert_eq!(dirty.next_run(8, 8), Some(9..10));
            assert_eq!(dirty.next_run(10, 8), None);
            assert_eq!(dirty.end(), 10 * PAGE_BYTES as u64);
            assert_eq!(dirty.take(4), Some(Written::WHOLE));
            assert_eq!(dirty.next_run(0, 8), Some(3..4));
            assert_eq!(dirty.collect_in(0..u64::MAX, 9), [3, 5, 7, 9]);
            assert_eq!(dirty.collect_in(4..9, 2), [5, 7]);
            assert!(!dirty.has_partial() && !dirty.is_partial(3) && !dirty.is_empty());
            assert_eq!((dirty.take(4), dirty.take(9)), (None, Some(Written::WHOLE)));
            assert_eq!(dirty.end(), 8 * PAGE_BYTES as u64);
        }
    }

    #[test]
    fn what_was_written_is_remembered_until_it_is_taken() {
        let dirty = DirtyIndex::of_file();
        dirty.insert(2, &Written::of(10..20));
        dirty.insert(2, &Written::of(15..30));
        assert!(dirty.is_partial(2) && dirty.has_partial());
        assert_eq!(dirty.end(), 2 * PAGE_BYTES as u64 + 30);
        dirty.cut(2, 12);
        assert_eq!(dirty.take(2), Some(Written::of(10..12)));
        assert!(dirty.is_empty());
        assert_eq!((dirty.take(2), dirty.end()), (None, 0));
    }
}

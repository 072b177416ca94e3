//! Which pages are dirty, and the brake on writers.
//!
//! A mapping keeps its dirty pages in order, with the bytes that were written, so that write-back
//! goes through the file front to back and joins neighbours. The folio's dirty flag is the truth;
//! the index is how the flusher finds it. A page enters the index and leaves it together with its
//! flag, while it is locked or pinned.
//!
//! A fault of a region must not allocate, and the index is a tree: beside it there is room for some
//! pages, which enter the tree when it is next asked.

use crate::engine::written::Written;
use crate::memory::locks::lock;
use pagetide_core::units::{PAGE_BYTES, PAGE_SHIFT};
use pagetide_core::writeback::{Balance, DirtyLimits};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

/// The dirty pages of one mapping, by index.
#[derive(Default)]
pub(crate) struct DirtyIndex {
    pages: Mutex<Indexed>,
}

#[derive(Default)]
struct Indexed {
    tree: BTreeMap<u64, Written>,
    /// Pages written as a whole that are to enter the tree; never longer than it was made.
    noted: Vec<u64>,
}

/// Pages that can be noted, and how many are kept for threads that have asked for room already.
const NOTED_MAX: usize = 1024;
const NOTED_SPARE: usize = 256;

impl DirtyIndex {
    /// Of a region, whose pages can be noted.
    pub(crate) fn of_region() -> DirtyIndex {
        let noted = Vec::with_capacity(NOTED_MAX);
        DirtyIndex { pages: Mutex::new(Indexed { noted, ..Indexed::default() }) }
    }

    /// The tree, with all that was noted in it.
    fn tree(&self) -> MutexGuard<'_, Indexed> {
        let mut pages = lock(&self.pages);
        let Indexed { tree, noted } = &mut *pages;
        for index in noted.drain(..) {
            tree.insert(index, Written::WHOLE);
        }
        pages
    }

    /// Whether a page can be noted.
    pub(crate) fn has_room(&self) -> bool {
        let noted = &lock(&self.pages).noted;
        noted.len() + NOTED_SPARE < noted.capacity()
    }

    /// All of a page was written, as [`DirtyIndex::insert`] has it; allocates nothing where there
    /// [was room](DirtyIndex::has_room).
    pub(crate) fn note_whole(&self, index: u64) {
        let mut pages = lock(&self.pages);
        match pages.noted.len() < pages.noted.capacity() {
            true => pages.noted.push(index),
            false => drop(pages.tree.insert(index, Written::WHOLE)),
        }
    }

    /// These bytes of a page were written.
    pub(crate) fn insert(&self, index: u64, written: &Written) {
        let tree = &mut self.tree().tree;
        tree.entry(index).and_modify(|one| one.merge(written)).or_insert_with(|| written.clone());
    }

    /// Takes a page out; returns what of it was written.
    pub(crate) fn take(&self, index: u64) -> Option<Written> {
        self.tree().tree.remove(&index)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.tree().tree.is_empty()
    }

    /// Whether some bytes of the page were written, and others not.
    pub(crate) fn is_partial(&self, index: u64) -> bool {
        self.tree().tree.get(&index).is_some_and(|written| !written.is_whole())
    }

    /// Whether there is such a page.
    pub(crate) fn has_partial(&self) -> bool {
        self.tree().tree.values().any(|written| !written.is_whole())
    }

    /// Where the last byte that was written ends in the file; 0 if none was.
    pub(crate) fn end(&self) -> u64 {
        let tree = &self.tree().tree;
        tree.last_key_value().map_or(0, |(index, last)| (index << PAGE_SHIFT) + last.end() as u64)
    }

    /// What was written of the page from byte `end` on was cut off.
    pub(crate) fn cut(&self, index: u64, end: usize) {
        if let Some(written) = self.tree().tree.get_mut(&index) {
            written.cut(end);
        }
    }

    /// The first dirty page at or after `from`, and its dirty neighbours, at most `nr_max`.
    pub(crate) fn next_run(&self, from: u64, nr_max: u64) -> Option<Range<u64>> {
        let tree = &self.tree().tree;
        let mut indices = tree.range(from..).map(|(index, _)| *index);
        let start = indices.next()?;
        let nr_more = (start + 1..start + nr_max).zip(indices).take_while(|(next, is)| next == is);
        Some(start..start + 1 + nr_more.count() as u64)
    }

    /// The next pages at or after `from`, at most `nr_max`, of which some bytes were not written.
    pub(crate) fn collect_partial(&self, from: u64, nr_max: usize) -> Vec<u64> {
        let tree = &self.tree().tree;
        let partial = tree.range(from..).filter(|(_, written)| !written.is_whole());
        partial.map(|(index, _)| *index).take(nr_max).collect()
    }

    /// All of them, by index.
    pub(crate) fn collect(&self) -> Vec<u64> {
        self.tree().tree.keys().copied().collect()
    }
}

/// How much is dirty or under write-back in the whole cache, and the writers that wait for it to be
/// less.
pub(crate) struct DirtyPages {
    nr_pages: AtomicU64,
    limits: Mutex<DirtyLimits>,
    /// Write-back fails and makes no progress: waiting for it would be for ever.
    is_stalled: AtomicBool,
    waiting: Mutex<()>,
    fell: Condvar,
}

/// Longest a writer waits at a stretch before it looks again whether the flusher is stuck.
const WAIT: Duration = Duration::from_millis(50);
/// Such stretches without fewer dirty pages after which a writer goes on.
const IDLE_ROUNDS_MAX: u32 = 20;

impl DirtyPages {
    pub(crate) fn new(limits: DirtyLimits) -> DirtyPages {
        DirtyPages {
            nr_pages: AtomicU64::new(0),
            limits: Mutex::new(limits),
            is_stalled: AtomicBool::new(false),
            waiting: Mutex::new(()),
            fell: Condvar::new(),
        }
    }

    pub(crate) fn set_limits(&self, limits: DirtyLimits) {
        *lock(&self.limits) = limits;
        self.fell.notify_all();
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.nr_pages.load(Relaxed) * PAGE_BYTES as u64
    }

    pub(crate) fn add(&self, nr: u64) {
        self.nr_pages.fetch_add(nr, Relaxed);
    }

    /// Pages became clean: writers that wait for that look again.
    pub(crate) fn sub(&self, nr: u64) {
        self.nr_pages.fetch_sub(nr, Relaxed);
        self.is_stalled.store(false, Relaxed);
        drop(lock(&self.waiting));
        self.fell.notify_all();
    }

    /// What a writer should do now.
    pub(crate) fn balance(&self) -> Balance {
        lock(&self.limits).balance(self.nr_pages.load(Relaxed))
    }

    /// Write-back made no progress and failed; no writer waits until it makes some.
    pub(crate) fn set_stalled(&self) {
        self.is_stalled.store(true, Relaxed);
        drop(lock(&self.waiting));
        self.fell.notify_all();
    }

    /// Waits until less than the hard limit is dirty, or write-back is stuck: it failed, or got
    /// nowhere for a while, as when the waiting threads themselves have the dirty pages locked.
    pub(crate) fn wait_below_hard(&self, mut wake_flusher: impl FnMut()) {
        let mut least = u64::MAX;
        let mut idle_rounds = 0;
        while self.balance() == Balance::Wait && !self.is_stalled.load(Relaxed) {
            let nr_dirty = self.nr_pages.load(Relaxed);
            idle_rounds = if nr_dirty < least { 0 } else { idle_rounds + 1 };
            least = least.min(nr_dirty);
            if idle_rounds == IDLE_ROUNDS_MAX {
                return;
            }
            wake_flusher();
            let waiting = lock(&self.waiting);
            if self.balance() == Balance::Wait && !self.is_stalled.load(Relaxed) {
                let _ = self.fell.wait_timeout(waiting, WAIT);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_neighbours_in_order() {
        let dirty = DirtyIndex::default();
        [7, 3, 4, 5, 9].into_iter().for_each(|index| dirty.insert(index, &Written::WHOLE));
        assert_eq!(dirty.next_run(0, 2), Some(3..5));
        assert_eq!(dirty.next_run(5, 8), Some(5..6));
        assert_eq!(dirty.next_run(6, 8), Some(7..8));
        assert_eq!(dirty.next_run(8, 8), Some(9..10));
        assert_eq!(dirty.next_run(10, 8), None);
        assert_eq!(dirty.take(4), Some(Written::WHOLE));
        assert_eq!(dirty.next_run(0, 8), Some(3..4));
        assert_eq!(dirty.collect(), [3, 5, 7, 9]);
    }

    #[test]
    fn what_was_written_is_remembered_until_it_is_taken() {
        let dirty = DirtyIndex::default();
        dirty.insert(2, &Written::of(10..20));
        dirty.insert(2, &Written::of(15..30));
        assert!(dirty.is_partial(2) && dirty.has_partial());
        assert_eq!(dirty.end(), 2 * PAGE_BYTES as u64 + 30);
        dirty.cut(2, 12);
        assert_eq!(dirty.take(2), Some(Written::of(10..12)));
        assert!(dirty.is_empty());
        assert_eq!((dirty.take(2), dirty.end()), (None, 0));
    }

    #[test]
    fn what_was_noted_is_found_as_what_was_inserted() {
        let dirty = DirtyIndex::of_region();
        let nr_max = NOTED_MAX as u64 + 10;
        assert!(dirty.has_room());
        (0..nr_max).for_each(|index| dirty.note_whole(index));
        assert!(!dirty.has_room());
        assert_eq!(dirty.next_run(0, u64::MAX), Some(0..nr_max));
        assert!(dirty.has_room());
        dirty.note_whole(7);
        assert_eq!((dirty.take(7), dirty.take(7)), (Some(Written::WHOLE), None));
        assert!(!DirtyIndex::default().has_room());
    }

    #[test]
    fn a_stalled_flusher_lets_writers_go() {
        let dirty = DirtyPages::new(DirtyLimits { background: 0, hard: 1 });
        dirty.add(5);
        assert_eq!(dirty.balance(), Balance::Wait);
        let mut woken = 0;
        dirty.wait_below_hard(|| {
            woken += 1;
            dirty.set_stalled();
        });
        assert_eq!(woken, 1);
        dirty.sub(4);
        assert_eq!(dirty.balance(), Balance::WakeFlusher);
    }
}

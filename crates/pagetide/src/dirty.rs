//! Which pages are dirty, and the brake on those who make them so.
//!
//! A mapping keeps the indices of its dirty pages in order, so that write-back goes through the
//! file front to back and joins neighbours. The folio's dirty flag is the truth; the index is how
//! the flusher finds it. A page enters the index when its flag goes from clear to set, and leaves
//! it before the flag is cleared, so a page that is dirty is in the index or about to be written.

use crate::locks::lock;
use pagetide_core::units::PAGE_BYTES;
use pagetide_core::writeback::{Balance, DirtyLimits};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Condvar, Mutex};
use std::time::Duration;

/// The dirty pages of one mapping, by index.
#[derive(Default)]
pub(crate) struct DirtyIndex {
    pages: Mutex<BTreeSet<u64>>,
}

impl DirtyIndex {
    pub(crate) fn insert(&self, index: u64) {
        lock(&self.pages).insert(index);
    }

    pub(crate) fn remove(&self, index: u64) -> bool {
        lock(&self.pages).remove(&index)
    }

    pub(crate) fn is_empty(&self) -> bool {
        lock(&self.pages).is_empty()
    }

    /// Takes the first dirty page at or after `from`, and its dirty neighbours, at most `nr_max`.
    pub(crate) fn take_run(&self, from: u64, nr_max: u64) -> Option<std::ops::Range<u64>> {
        let mut pages = lock(&self.pages);
        let start = *pages.range(from..).next()?;
        let mut end = start;
        while end - start < nr_max && pages.remove(&end) {
            end += 1;
        }
        Some(start..end)
    }
}

/// How much is dirty or under write-back in the whole cache, and who waits for it to be less.
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

    /// Pages became clean: whoever waits for that looks again.
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

    /// Write-back made no progress and failed; nobody waits until it makes some.
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
        [7, 3, 4, 5, 9].into_iter().for_each(|index| dirty.insert(index));
        assert_eq!(dirty.take_run(0, 2), Some(3..5));
        assert_eq!(dirty.take_run(6, 8), Some(7..8));
        assert_eq!(dirty.take_run(8, 8), Some(9..10));
        assert_eq!(dirty.take_run(10, 8), None);
        assert_eq!(dirty.take_run(0, 8), Some(5..6));
        assert!(dirty.is_empty());
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

//! Back-pressure on writers.

use crate::memory::locks::lock;
use pagetide_core::units::PAGE_BYTES;
use pagetide_core::writeback::{Balance, DirtyLimits};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Condvar, Mutex};
use std::time::Duration;

pub(crate) struct DirtyPages {
    nr_pages: AtomicU64,
    limits: Mutex<DirtyLimits>,
    /// Write-back fails without progress: waiting would last forever.
    is_stalled: AtomicBool,
    waiting: Mutex<()>,
    fell: Condvar,
}

const WAIT: Duration = Duration::from_millis(50);
/// Number of waits without progress until a writer goes on.
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

    pub(crate) fn sub(&self, nr: u64) {
        self.nr_pages.fetch_sub(nr, Relaxed);
        self.is_stalled.store(false, Relaxed);
        drop(lock(&self.waiting));
        self.fell.notify_all();
    }

    pub(crate) fn balance(&self) -> Balance {
        lock(&self.limits).balance(self.nr_pages.load(Relaxed))
    }

    /// Releases writers until write-back makes progress.
    pub(crate) fn set_stalled(&self) {
        self.is_stalled.store(true, Relaxed);
        drop(lock(&self.waiting));
        self.fell.notify_all();
    }

    /// Waits until fewer pages than the hard limit are dirty, or write-back is stuck: it failed, or
    /// made no progress for a while, as when the waiting threads themselves have locked the dirty
    /// pages.
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

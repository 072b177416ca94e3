//! Pages that processes have locked in memory, as by mlock(2): reclaim skips them.
//!
//! Data and invariants: the total over all mappings stays within a share of memory. Reclaim looks a
//! page up with its word locked, and a locker waits for the word after adding the page.
//!
//! Ignored: starvation by too many locked pages.

use crate::memory::locks::lock;
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// Fraction of the memory limit that may be locked.
pub(crate) const LOCKED_SHARE: u64 = 2;

#[derive(Default)]
pub(crate) struct LockedPages {
    nr: AtomicU64,
    /// Pairs of a page and a locker.
    by: Mutex<BTreeSet<(u64, u64)>>,
}

impl LockedPages {
    pub(crate) fn holds(&self, page: u64) -> bool {
        self.nr.load(SeqCst) > 0 && has(&lock(&self.by), page)
    }

    pub(crate) fn add(&self, locker: u64, pages: Range<u64>, total: &AtomicU64, most: u64) -> bool {
        if pages.end.saturating_sub(pages.start) > most {
            return false;
        }
        let mut by = lock(&self.by);
        let nr = pages.clone().filter(|page| !has(&by, *page)).count() as u64;
        let with_these = |sum: u64| Some(sum + nr).filter(|sum| *sum <= most);
        let fits = total.fetch_update(SeqCst, SeqCst, with_these).is_ok();
        if fits {
            self.nr.fetch_add(nr, SeqCst);
            by.extend(pages.map(|page| (page, locker)));
        }
        fits
    }

    pub(crate) fn remove(&self, total: &AtomicU64, is_gone: impl Fn(u64, u64) -> bool) {
        let mut by = lock(&self.by);
        by.retain(|(page, locker)| !is_gone(*page, *locker));
        let pages: BTreeSet<u64> = by.iter().map(|(page, _)| *page).collect();
        let nr = pages.len() as u64;
        total.fetch_sub(self.nr.swap(nr, SeqCst) - nr, SeqCst);
    }
}

fn has(by: &BTreeSet<(u64, u64)>, page: u64) -> bool {
    by.range((page, 0)..=(page, u64::MAX)).next().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_counted_once_and_until_the_last_has_let_go() {
        let (locked, total) = (LockedPages::default(), AtomicU64::new(3));
        assert!(locked.add(1, 0..4, &total, 10) && locked.add(2, 2..6, &total, 10));
        assert_eq!(total.load(SeqCst), 9);
        assert!(!locked.add(2, 6..8, &total, 10) && !locked.holds(6), "all or nothing");
        locked.remove(&total, |_, locker| locker == 1);
        assert!(total.load(SeqCst) == 7 && !locked.holds(1) && locked.holds(2));
        locked.remove(&total, |page, _| page >= 3);
        assert!(total.load(SeqCst) == 4 && locked.holds(2) && !locked.holds(3));
        locked.remove(&total, |_, _| true);
        assert_eq!(total.load(SeqCst), 3);
    }
}

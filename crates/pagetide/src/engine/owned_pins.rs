//! Pages with pins that any thread may drop at any time, so that no thread waits for them.
//!
//! A pin is recorded before the page is pinned, and only while the file is not open for writing. A
//! thread that finds the page in use therefore finds the record, unless the thread waits for a
//! guard, which is short.

use crate::memory::locks::lock;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

#[derive(Default)]
pub(crate) struct OwnedPins {
    nr: AtomicU64,
    /// The number of pins by page.
    by_page: Mutex<BTreeMap<u64, u64>>,
}

impl OwnedPins {
    pub(crate) fn holds(&self, page: u64) -> bool {
        self.nr.load(SeqCst) > 0 && lock(&self.by_page).contains_key(&page)
    }

    pub(crate) fn add(&self, pages: Range<u64>) {
        let mut by_page = lock(&self.by_page);
        self.nr.fetch_add(pages.end - pages.start, SeqCst);
        pages.for_each(|page| *by_page.entry(page).or_default() += 1);
    }

    pub(crate) fn remove(&self, pages: Range<u64>) {
        let mut by_page = lock(&self.by_page);
        self.nr.fetch_sub(pages.end - pages.start, SeqCst);
        for page in pages {
            if let Some(nr) = by_page.get_mut(&page) {
                *nr -= 1;
                if *nr == 0 {
                    by_page.remove(&page);
                }
            }
        }
    }
}

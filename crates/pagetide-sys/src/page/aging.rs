//! Clears YOUNG and sets HINT, for aging and hint scans.
//!
//! The kernel does not report accesses of mapped pages to user space. Clearing or setting a bit of
//! a region's page therefore also unmaps the page, so that the next access faults.
//!
//! Invariant S25: a page is unmapped under its lock. A locked page is in use, and stays unchanged.

use std::ops::Range;

use pagetide_core::ids::{FrameId, PageIndex};

#[cfg(test)]
use crate::page::table::PageTable;
use crate::page::table::{LeafRef, PageRef};
use crate::page::token::Lock;

impl PageRef<'_> {
    /// Clears YOUNG. Returns true if the page was young. A region's page is also unmapped, but
    /// stays young if in use.
    pub fn test_and_clear_young(self) -> bool {
        if self.is_mapped() {
            let was_young = self.load().is_young();
            let _ = LookedAt::default().take_young(self);
            return was_young;
        }
        self.word().take_young().is_some()
    }

    /// Marks a resident page with HINT. Returns true if the page had no HINT. A region's page is
    /// also unmapped, but stays unchanged if in use.
    pub fn set_hint(self) -> bool {
        self.mark(|| self.word().set_hint())
    }

    /// Unmaps a page that has HINT, so that its next access faults.
    pub fn unmap_armed(self) {
        if self.is_mapped() {
            self.mark(|| self.load().is_hint());
        }
    }

    /// Calls `mark`. Locks a mapped page for this, and unmaps a page that `mark` marked.
    fn mark(self, mark: impl FnOnce() -> bool) -> bool {
        if !self.is_mapped() {
            return mark();
        }
        let Ok(lock) = self.try_lock() else { return false };
        let is_marked = mark();
        if is_marked {
            lock.unmap_user();
        }
        is_marked
    }
}

/// Maximum number of pages unmapped together.
const TOGETHER: usize = 32;

/// A batch of locked, mapped pages without YOUNG, unmapped together: on request, when the batch is
/// full, and on drop.
#[derive(Debug)]
pub struct LookedAt<'p> {
    locks: [Option<Lock<PageRef<'p>>>; TOGETHER],
    nr: usize,
}

impl<'p> LookedAt<'p> {
    /// Clears YOUNG, and unmaps the page with the batch. Returns the frame if the page was young. A
    /// locked page stays young.
    fn take_young(&mut self, page: PageRef<'p>) -> Option<FrameId> {
        if !page.is_mapped() {
            return page.word().take_young();
        }
        let lock = page.try_lock().ok();
        let frame = lock.as_ref().and_then(|_| page.word().take_young());
        match (lock, frame) {
            (Some(lock), Some(_)) => self.add(lock),
            // The next walk must find the page.
            _ if page.load().is_young() => page.note_touched(),
            _ => {}
        }
        frame
    }

    /// Adds a page from [`Claim::Young`](crate::Claim::Young).
    pub fn add(&mut self, lock: Lock<PageRef<'p>>) {
        if self.nr == TOGETHER {
            self.take_out();
        }
        self.locks[self.nr] = Some(lock);
        self.nr += 1;
    }

    /// Returns true if the batch is empty.
    pub fn is_empty(&self) -> bool {
        self.nr == 0
    }

    /// Unmaps and unlocks all pages.
    pub fn take_out(&mut self) {
        Lock::unmap_users(self.locks[..self.nr].iter().flatten());
        self.locks[..self.nr].fill_with(|| None);
        self.nr = 0;
    }
}

impl Default for LookedAt<'_> {
    fn default() -> Self {
        LookedAt { locks: [const { None }; TOGETHER], nr: 0 }
    }
}

impl Drop for LookedAt<'_> {
    fn drop(&mut self) {
        self.take_out();
    }
}

impl<'p> LeafRef<'p> {
    /// Calls `each` in order with every resident page of `range`, its frame, and true if YOUNG was
    /// cleared. Clears YOUNG of young pages in frames for which `takes` returns true. Adds mapped
    /// pages without YOUNG to `looked`.
    pub fn for_each_resident(
        self,
        looked: &mut LookedAt<'p>,
        range: Range<PageIndex>,
        mut takes: impl FnMut(FrameId) -> bool,
        mut each: impl FnMut(PageIndex, FrameId, bool),
    ) {
        for page in self.each_page() {
            let seen = page.load();
            let Some(frame) = seen.frame().filter(|_| range.contains(&page.index())) else {
                continue;
            };
            let taken =
                if seen.is_young() && takes(frame) { looked.take_young(page) } else { None };
            each(page.index(), taken.unwrap_or(frame), taken.is_some());
        }
    }
}

#[cfg(test)]
impl PageTable {
    /// Clears YOUNG of every young page, and calls `each` with page and frame.
    ///
    /// Skips leaves not touched since the last walk. This walk or the next sees a page made young
    /// during the walk.
    pub(crate) fn for_each_young(&self, mut each: impl FnMut(PageIndex, FrameId)) {
        self.for_each_touched_leaf(|leaf| {
            leaf.take_touched();
            leaf.for_each_resident(
                &mut LookedAt::default(),
                leaf.pages(),
                |_| true,
                |index, frame, was_young| {
                    if was_young {
                        each(index, frame);
                    }
                },
            );
        });
    }
}

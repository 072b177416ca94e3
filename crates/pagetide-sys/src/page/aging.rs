//! Taking YOUNG away from pages, and marking them with HINT: what aging and hint scans ask of them.
//!
//! User space is not told which pages were accessed: a page that a region's user has mapped is used
//! in silence. Taking a bit away from it takes it out of the user's mapping as well, so that the
//! next access is a fault, and noticed.
//!
//! Invariant S25: a page is taken out under its lock. A page that is locked is left as it was: it
//! is being used.

use std::ops::Range;

use pagetide_core::ids::{FrameId, PageIndex};

#[cfg(test)]
use crate::page::table::PageTable;
use crate::page::table::{LeafRef, PageRef};

impl PageRef<'_> {
    /// Takes YOUNG away; returns whether the page was young. A region's page has to be taken out of
    /// its user's mapping for that, and stays young while it is in use.
    pub fn test_and_clear_young(self) -> bool {
        if self.is_mapped() {
            let was_young = self.load().is_young();
            let _ = self.take_young();
            return was_young;
        }
        self.word().take_young().is_some()
    }

    /// Marks a resident page with HINT; returns whether it was not marked before. A region's page
    /// is taken out of its user's mapping, and left alone while it is in use.
    pub fn set_hint(self) -> bool {
        self.mark(|| self.word().set_hint())
    }

    /// Has a page that carries HINT meet a fault next, if it is mapped all the same.
    pub fn unmap_armed(self) {
        if self.is_mapped() {
            self.mark(|| self.load().is_hint());
        }
    }

    /// Takes YOUNG away, and has the page meet a fault next; returns its frame if it was young. A
    /// page that is locked stays young.
    fn take_young(self) -> Option<FrameId> {
        let mut frame = None;
        let is_taken = self.mark(|| {
            frame = self.word().take_young();
            frame.is_some()
        });
        if !is_taken && self.load().is_young() {
            // The next walk of the tables must find it.
            self.note_touched();
        }
        frame
    }

    /// Marks the page, under its lock where it is mapped, and takes it out then.
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

impl LeafRef<'_> {
    /// Calls `each` with every resident page of `range`, in order: page, frame, and whether YOUNG
    /// was taken away from it, as happens to young pages in frames that `takes` names.
    pub fn for_each_resident(
        self,
        range: Range<PageIndex>,
        mut takes: impl FnMut(FrameId) -> bool,
        mut each: impl FnMut(PageIndex, FrameId, bool),
    ) {
        for page in self.each_page() {
            let seen = page.load();
            let Some(frame) = seen.frame().filter(|_| range.contains(&page.index())) else {
                continue;
            };
            let taken = match seen.is_young() && takes(frame) {
                true if page.region().is_none() => page.word().take_young(),
                true => page.take_young(),
                false => None,
            };
            each(page.index(), taken.unwrap_or(frame), taken.is_some());
        }
    }
}

#[cfg(test)]
impl PageTable {
    /// Takes YOUNG away from every page that has it, and calls `each` with page and frame.
    ///
    /// Leaves not touched since the last walk are skipped unread. A page made young during the
    /// walk is seen by it or by the next.
    pub(crate) fn for_each_young(&self, mut each: impl FnMut(PageIndex, FrameId)) {
        self.for_each_touched_leaf(|leaf| {
            leaf.take_touched();
            leaf.for_each_resident(
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

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
use crate::page::token::Lock;

impl PageRef<'_> {
    /// Takes YOUNG away; returns whether the page was young. A region's page has to be taken out of
    /// its user's mapping for that, and stays young while it is in use.
    pub fn test_and_clear_young(self) -> bool {
        if self.is_mapped() {
            let was_young = self.load().is_young();
            let _ = LookedAt::default().take_young(self);
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

/// Pages that are looked at together.
const TOGETHER: usize = 32;

/// Mapped pages whose YOUNG was taken away, locked: they are taken out of their users' mappings
/// together, at the latest when this is dropped.
#[derive(Debug)]
pub struct LookedAt<'p> {
    locks: [Option<Lock<PageRef<'p>>>; TOGETHER],
    nr: usize,
}

impl<'p> LookedAt<'p> {
    /// Takes YOUNG away, and has the page meet a fault next, once this is dropped; returns its
    /// frame if it was young. A page that is locked stays young.
    fn take_young(&mut self, page: PageRef<'p>) -> Option<FrameId> {
        if !page.is_mapped() {
            return page.word().take_young();
        }
        let lock = page.try_lock().ok();
        let frame = lock.as_ref().and_then(|_| page.word().take_young());
        match (lock, frame) {
            (Some(lock), Some(_)) => self.add(lock),
            // The next walk of the tables must find it.
            _ if page.load().is_young() => page.note_touched(),
            _ => {}
        }
        frame
    }

    /// Adds a page, as [`Claim::Young`](crate::Claim::Young) gives it.
    pub fn add(&mut self, lock: Lock<PageRef<'p>>) {
        if self.nr == TOGETHER {
            self.take_out();
        }
        self.locks[self.nr] = Some(lock);
        self.nr += 1;
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.nr == 0
    }

    /// Takes all pages out, and unlocks them.
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

impl LeafRef<'_> {
    /// Calls `each` with every resident page of `range`, in order: page, frame, and whether YOUNG
    /// was taken away from it, as happens to young pages in frames that `takes` names.
    pub fn for_each_resident(
        self,
        range: Range<PageIndex>,
        mut takes: impl FnMut(FrameId) -> bool,
        mut each: impl FnMut(PageIndex, FrameId, bool),
    ) {
        let mut looked = LookedAt::default();
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

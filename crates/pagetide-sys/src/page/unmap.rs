//! Taking pages out of the mapping of a region's user, so that the next access is a fault.
//!
//! **Problem.** User space is not told which pages were accessed: a page that is mapped is used in
//! silence. To know, one takes it out, and is told of the next access. Each such call costs
//! microseconds, most of it to tell other processors; of neighbours taken out together, a fraction.
//!
//! **Idea.** The pages are locked, marked, and gathered while they follow each other; a gap, or a
//! full batch, or the end, takes them out with one call and unlocks them.
//!
//! ```text
//!   young, mapped:   10 11 12 13      40      --> two calls
//! ```
//!
//! **Invariants.** S25: a page is taken out under its lock. A page that is locked is left
//! as it was: it is being used.
//!
//! **Ignored.** Pages of tables without a region: nothing is mapped there.

use pagetide_core::ids::FrameId;

use crate::page::table::PageRef;
use crate::page::token::Lock;

/// Pages taken out together at most: as many as a leaf has.
const BATCH_MAX: usize = 512;

/// Pages of one region, locked, to be taken out of its user's mapping together.
#[derive(Debug, Default)]
pub struct UnmapBatch<'a> {
    /// They follow each other.
    locks: Vec<Lock<PageRef<'a>>>,
}

impl<'a> UnmapBatch<'a> {
    /// An empty batch.
    pub fn new() -> UnmapBatch<'a> {
        UnmapBatch { locks: Vec::new() }
    }

    /// Marks a resident page with HINT, to meet a fault next; returns whether it was not marked
    /// before. A page of a region that is locked is left alone.
    pub fn set_hint(&mut self, page: PageRef<'a>) -> bool {
        self.mark(page, |page| page.word().set_hint())
    }

    /// Has a page that carries HINT meet a fault next, if it is mapped all the same.
    pub fn unmap_armed(&mut self, page: PageRef<'a>) {
        if page.is_mapped() {
            self.mark(page, |page| page.load().is_hint());
        }
    }

    /// Takes YOUNG away, and has the page meet a fault next; returns its frame if it was young. A
    /// page that is locked stays young.
    pub(crate) fn take_young(&mut self, page: PageRef<'a>) -> Option<FrameId> {
        let mut frame = None;
        let is_taken = self.mark(page, |page| {
            frame = page.word().take_young();
            frame.is_some()
        });
        if !is_taken && page.load().is_young() {
            // The next walk of the tables must find it.
            page.note_touched();
        }
        frame
    }

    /// Marks the page, under its lock where it is mapped, and adds it then.
    fn mark(&mut self, page: PageRef<'a>, mark: impl FnOnce(PageRef<'a>) -> bool) -> bool {
        if !page.is_mapped() {
            return mark(page);
        }
        let Ok(lock) = page.try_lock() else { return false };
        if !mark(page) {
            return false;
        }
        let last = self.locks.last().map(|lock| lock.page().index().0);
        if self.locks.len() == BATCH_MAX || last.is_some_and(|last| last + 1 != page.index().0) {
            self.flush();
        }
        self.locks.push(lock);
        true
    }

    /// Takes out and unlocks what was gathered.
    fn flush(&mut self) {
        let (Some(first), nr) = (self.locks.first(), self.locks.len() as u32) else { return };
        if let Some((region, start)) = first.page().region() {
            // SAFETY: S25 (they are locked, all of them, and follow each other).
            unsafe { region.unmap(start..start + nr) };
        }
        self.locks.clear();
    }
}

impl Drop for UnmapBatch<'_> {
    fn drop(&mut self) {
        self.flush();
    }
}

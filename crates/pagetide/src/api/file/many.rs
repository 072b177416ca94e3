//! Reading many ranges, with what is missing of them on its way together.
//!
//! A program that knows which pages it wants next (the neighbours of a vector, the leaves under an
//! inner node) waits once for a batch of them, not for one after the other.

use super::{File, Handle, page_range};
use crate::engine::errors::ReadError;
use pagetide_core::ids::PageIndex;
use pagetide_core::readahead::ReadaheadRun;
use pagetide_sys::PageRef;

impl File {
    /// Reads ranges of `(offset, target)`, each as [`File::read_exact_at`] does, up to 32 requests
    /// to the device at a time. Ranges may overlap and come in any order; those that follow each
    /// other in the file are best side by side.
    ///
    /// What is missing counts as read ahead, and then as hits. Waits as [`File::read_at`] does.
    /// Cost: of a range without hits one request, as of a read; its wait is shared.
    ///
    /// # Errors
    /// Those of the first range that fails; contents of all buffers are unspecified then.
    pub fn read_many(&self, ranges: &mut [(u64, &mut [u8])]) -> Result<(), ReadError> {
        let handle = &*self.handle;
        if !handle.access.read {
            return Err(ReadError::NotReadable);
        }
        let mut ranges = ranges;
        while !ranges.is_empty() {
            let (now, later) = ranges.split_at_mut(handle.nr_together(ranges));
            let missing = now.iter().filter_map(|(offset, target)| handle.missing(*offset, target));
            handle.engine().prefetcher.bring_in(&handle.mapping, missing);
            now.iter_mut().try_for_each(|(offset, target)| self.read_exact_at(target, *offset))?;
            ranges = later;
        }
        Ok(())
    }
}

impl Handle {
    /// How many of the ranges may come in before the first is read.
    fn nr_together(&self, ranges: &[(u64, &mut [u8])]) -> usize {
        let mut room = self.prefetched_max();
        let fits = |(offset, target): &&(u64, &mut [u8])| {
            let pages = page_range(*offset, target.len() as u64);
            let left = room.checked_sub(pages.end.0 - pages.start.0);
            room = left.unwrap_or(0);
            left.is_some()
        };
        ranges.iter().take_while(fits).count().max(1)
    }

    /// The range from its first page that is not here.
    fn missing(&self, offset: u64, target: &[u8]) -> Option<ReadaheadRun> {
        let pages = page_range(offset, target.len() as u64);
        let end = pages.end.0.min(self.mapping.nr_pages());
        let is_here = |page: PageRef<'_>| page.load().is_resident();
        let is_missing =
            |index: &u64| !self.mapping.table.page(PageIndex(*index)).is_some_and(is_here);
        let first = (pages.start.0..end).find(is_missing)?;
        Some(ReadaheadRun::asked_for(first, (end - first).min(self.prefetched_max())))
    }
}

//! Reads of many ranges with parallel device requests, for programs that know their next pages.

use super::{File, Handle, page_range};
use crate::engine::errors::ReadError;
use pagetide_core::ids::PageIndex;
use pagetide_core::readahead::ReadaheadRun;
use pagetide_sys::PageRef;

impl File {
    /// Reads ranges of `(offset, target)`, each as [`File::read_exact_at`] does, with up to 32
    /// parallel requests to the device. Ranges may overlap and come in any order. Pass ranges that
    /// are adjacent in the file next to each other.
    ///
    /// Missing pages count as read ahead, and then as hits. Waits as [`File::read_at`] does. Cost:
    /// one request for a range without hits, with a shared wait.
    ///
    /// # Errors
    /// As for the first range that fails. All buffers then have unspecified contents.
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

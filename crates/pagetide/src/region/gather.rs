//! Gathering rows from anywhere in a region.
//!
//! Problem: each random row is a fault with a read of its own. Idea: request all absent pages
//! first, then copy the rows without mapping pages.
//!
//! ```text
//!   offsets  a b c d e f ...   absent: requests, in flight together -> waited for
//!            a b c d           copied to the target, in their order
//! ```
//!
//! Data and invariants: requests are limited to a part of memory, so that no page is evicted before
//! it is copied. A page that failed is read again, for its error.

use super::Region;
use crate::engine::errors::ReadError;
use pagetide_core::readahead::ReadaheadRun;
use pagetide_core::units::{PAGE_BYTES, PAGE_SHIFT};
use std::ops::Range;

/// Fraction of memory requested together.
const MEMORY_PART: u64 = 8;

impl Region {
    /// Copies rows out in order, without faults: `target.len() / offsets.len()` bytes from each
    /// offset. Returns the number of pages read, as estimated beforehand.
    ///
    /// # Errors
    /// As for [`Region::read`]. `target` may be partly filled.
    ///
    /// # Cost
    /// Absent pages are read in parallel, up to the device's queue depth. A resident page costs a
    /// lock and a copy.
    pub fn gather(&self, offsets: &[u64], target: &mut [u8]) -> Result<u64, ReadError> {
        let row_bytes = target.len().checked_div(offsets.len()).unwrap_or(0);
        if row_bytes == 0 {
            return Ok(0);
        }
        offsets.iter().try_for_each(|offset| self.check_range(*offset, row_bytes))?;
        let pages_a_row = row_bytes.div_ceil(PAGE_BYTES) as u64 + 1;
        let nr_pages = self.shared.engine.source.room_of(&self.mapping) / MEMORY_PART;
        let nr_together = (nr_pages / pages_a_row).max(1) as usize;
        let mut nr_read = 0;
        let parts = offsets.chunks(nr_together).zip(target.chunks_mut(nr_together * row_bytes));
        for (offsets, target) in parts {
            let runs = offsets.iter().filter_map(|offset| self.run_of(*offset, row_bytes));
            nr_read += self.shared.engine.prefetcher.bring_in(&self.mapping, runs);
            let mut rows = offsets.iter().zip(target.chunks_exact_mut(row_bytes));
            rows.try_for_each(|(offset, row)| self.read(*offset, row))?;
        }
        Ok(nr_read)
    }

    fn run_of(&self, offset: u64, row_bytes: usize) -> Option<ReadaheadRun> {
        let pages = offset >> PAGE_SHIFT..(offset + row_bytes as u64).div_ceil(PAGE_BYTES as u64);
        let run = ReadaheadRun::asked_for(pages.start, pages.end - pages.start);
        self.is_stored(pages).then_some(run)
    }

    fn is_stored(&self, mut pages: Range<u64>) -> bool {
        self.mapping.swap.as_ref().is_none_or(|swap| pages.all(|page| swap.is_stored(page)))
    }
}

//! Advice about accesses, named as in `posix_fadvise`.

use super::{File, Handle, page_range};
use crate::engine::errors::AdviseError;
use crate::memory::locks::lock;
use pagetide_core::ids::PageIndex;
use pagetide_core::readahead::{AccessPattern, ReadaheadRun};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Kinds of advice. The first four hold for the handle from now on, the last two for a range, once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Advice {
    /// No particular pattern: resets earlier advice.
    Normal,
    /// Front to back: reads ahead as far as allowed.
    Sequential,
    /// Random order: detects no streams. While memory is ample, a miss still reads a few pages,
    /// unless [`Builder::readahead_max`](crate::Builder::readahead_max) is 0.
    Random,
    /// Accesses through this handle do not predict later ones, and are not counted.
    NoReuse,
    /// Reads the range in the background.
    WillNeed,
    /// Writes back and drops the range.
    DontNeed,
}

impl File {
    /// Applies advice to the byte range. `len` 0 means to the end of the file.
    ///
    /// # Errors
    /// [`AdviseError::Writeback`] if dirty pages of the range could not be written, and were kept.
    /// [`AdviseError::WouldDeadlock`] if this thread holds a [`PageGuardMut`](crate::PageGuardMut)
    /// of the file, and pages must be written back.
    ///
    /// # Concurrency
    /// [`Advice::WillNeed`] runs in a thread of the cache, or in the caller without [background
    /// threads](crate::Builder::background), and waits for no guard. [`Advice::DontNeed`] runs in
    /// the caller, and waits as [`File::flush`] does.
    pub fn advise(&self, advice: Advice, offset: u64, len: u64) -> Result<(), AdviseError> {
        let handle = &*self.handle;
        let len = if len == 0 { u64::MAX } else { len };
        match advice {
            Advice::Normal => handle.set_pattern(AccessPattern::Normal),
            Advice::Sequential => handle.set_pattern(AccessPattern::Sequential),
            Advice::Random => handle.set_pattern(AccessPattern::Random),
            Advice::NoReuse => handle.no_reuse.store(true, Relaxed),
            Advice::WillNeed => handle.prefetch(page_range(offset, len)),
            Advice::DontNeed => return handle.drop_range(page_range(offset, len)),
        }
        Ok(())
    }
}

impl Handle {
    fn set_pattern(&self, pattern: AccessPattern) {
        match &self.extents {
            Some(extents) => lock(extents).set_pattern(pattern),
            None => lock(&self.readahead).set_pattern(pattern),
        }
        if pattern == AccessPattern::Normal {
            self.no_reuse.store(false, Relaxed);
        }
    }

    fn prefetch(&self, range: Range<PageIndex>) {
        let end = range.end.0.min(self.mapping.nr_pages());
        let nr = end.saturating_sub(range.start.0).min(self.prefetched_max());
        let run = ReadaheadRun::asked_for(range.start.0, nr);
        self.engine().prefetcher.prefetch(self.wish(run, &Arc::default()));
    }

    /// Returns half of the headroom: reading more ahead would evict pages just read.
    pub(super) fn prefetched_max(&self) -> u64 {
        self.engine().source.room_of(&self.mapping) / 2
    }

    fn drop_range(&self, range: Range<PageIndex>) -> Result<(), AdviseError> {
        let engine = self.engine();
        let failures_before = self.mapping.error_count();
        self.write_back(range.start.0..range.end.0)?;
        engine.pages.drop_clean_pages(&self.mapping, range);
        if self.mapping.error_count() == failures_before {
            return Ok(());
        }
        let failed = self.mapping.last_error();
        Err(AdviseError::Writeback(failed.unwrap_or_else(|| std::io::ErrorKind::Other.into())))
    }
}

//! Advice: what the caller knows of its own accesses, named as `posix_fadvise` has it.

use super::{File, Handle, page_range};
use crate::engine::errors::AdviseError;
use crate::memory::locks::lock;
use pagetide_core::ids::PageIndex;
use pagetide_core::readahead::{AccessPattern, ReadaheadRun};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Kinds of advice. The first four hold for the handle from now on, the others for a range, once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Advice {
    /// No particular pattern: forget earlier advice.
    Normal,
    /// Front to back: read ahead as far as allowed.
    Sequential,
    /// Anywhere: no stream is looked for. While memory is ample, a miss brings in a few pages all
    /// the same; [`Builder::readahead_max`](crate::Builder::readahead_max) 0 ends that, too.
    Random,
    /// Accesses through this handle say nothing about the future: do not count them.
    NoReuse,
    /// The range will be wanted soon: bring it in beside the caller.
    WillNeed,
    /// The range will not be wanted: write back what is dirty and drop it.
    DontNeed,
}

impl File {
    /// Takes advice about the byte range; `len` 0 means to the end of the file.
    ///
    /// # Errors
    /// [`AdviseError::Writeback`] if dirty pages of the range could not be written, and were kept;
    /// [`AdviseError::WouldDeadlock`] if this thread has a [`PageGuardMut`](crate::PageGuardMut) of
    /// the file, and pages are to be written back.
    ///
    /// # Concurrency
    /// [`Advice::WillNeed`] is carried out by a thread of the cache, or without
    /// [one](crate::Builder::background) by the caller, and waits for no guard;
    /// [`Advice::DontNeed`] by the caller, and waits as [`File::flush`] does.
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
        lock(&self.readahead).set_pattern(pattern);
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

    /// Pages that may be brought in before they are read: half of what there is room for, as more
    /// would evict what was just brought in.
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

//! Writing by copy.
//!
//! A write locks each page in turn, reads the bytes around, copies, and marks the page dirty before
//! the unlock. A write that gets no frame goes through to the store at once, under the page's lock,
//! and returns the store's error.

use super::{File, Handle};
use crate::engine::errors::{ReadError, WriteError};
use crate::engine::fill::{FillError, FillPlan, Filled};
use crate::engine::flush::scope::OnLocked;
use crate::engine::stats::counters::Event;
use crate::memory::store::Backing;
use pagetide_core::ids::{CpuId, PageId, PageIndex};
use pagetide_core::lru::AccessPath;
use pagetide_core::record;
use pagetide_core::units::{PAGE_BYTES, PAGE_SHIFT};
use pagetide_sys::{AlignedBuf, PageFile, PageRef, current_cpu};
use std::io;
use std::ops::Range;

impl File {
    /// Writes all of `source` at `offset`, and returns its length. The file grows as needed, and a
    /// gap reads as zeros.
    ///
    /// The data is in memory when this returns, and stored after the next sync. Only these bytes
    /// are stored, not the rest of their pages. Waits for guards of the pages, for a change of
    /// length, and for write-back above the hard dirty limit. Never fails for lack of memory.
    ///
    /// # Errors
    /// [`WriteError::NotWritable`], [`WriteError::TooLong`]. Fails with [`WriteError::Store`] if
    /// the rest of a page could not be read, or if a write past the cache failed. Fails with
    /// [`WriteError::WouldDeadlock`] if this thread has a guard of a page. The pages before the
    /// failing page are written.
    ///
    /// # Cost
    /// A lock and a copy for each resident page. An absent page that is written in part is read
    /// first.
    pub fn write_at(&self, source: &[u8], offset: u64) -> Result<usize, WriteError> {
        let mut done = 0;
        self.write_counting(source, offset, &mut done)?;
        Ok(done)
    }

    /// Writes like [`File::write_at`].
    ///
    /// # Errors
    /// As [`File::write_at`].
    pub fn write_all_at(&self, source: &[u8], offset: u64) -> Result<(), WriteError> {
        self.write_counting(source, offset, &mut 0)
    }

    /// Counts the written bytes in `done`, even if an error ends the call.
    pub(super) fn write_counting(
        &self,
        source: &[u8],
        offset: u64,
        done: &mut usize,
    ) -> Result<(), WriteError> {
        let handle = &*self.handle;
        if !handle.access.write {
            return Err(WriteError::NotWritable);
        }
        let end = offset.saturating_add(source.len() as u64);
        handle.mapping.longest.check_end(end, || handle.mapping.backing().ok())?;
        while *done < source.len() {
            let at = offset + *done as u64;
            let within = at as usize % PAGE_BYTES;
            let nr_bytes = (PAGE_BYTES - within).min(source.len() - *done);
            handle.write_page(at >> PAGE_SHIFT, within, &source[*done..*done + nr_bytes])?;
            *done += nr_bytes;
            handle.engine().flusher.balance_dirty(|flusher| flusher.flush_all(OnLocked::Skip));
        }
        Ok(())
    }
}

impl Handle {
    fn write_page(&self, index: u64, within: usize, source: &[u8]) -> Result<(), WriteError> {
        let page = self.page_or_make(index).map_err(from_read)?;
        loop {
            let in_use = {
                // Taken for each page, so that a truncation waits for one page only.
                let _no_truncation = self.mapping.resize.read().expect("no holder panics");
                self.mapping.note_writer();
                match self.zero_past_end((index << PAGE_SHIFT) + within as u64) {
                    Err(last) => last,
                    Ok(()) => match page.try_lock() {
                        Ok(mut page) => {
                            self.engine().flusher.settle_locked(&self.mapping, &mut page);
                            return self.write_locked(vec![page], within, source);
                        }
                        Err(_) => page,
                    },
                }
            };
            self.check_not_own(in_use.index().0).map_err(from_read)?;
            in_use.wait_while_in_use();
        }
    }

    /// Zeroes the bytes past the end that other processes stored through a mapping, before the file
    /// grows to `end`. Returns the last page if it is in use.
    fn zero_past_end(&self, end: u64) -> Result<(), PageRef<'_>> {
        let (mapping, has_writers) = (&self.mapping, PageFile::has_writers);
        if end <= mapping.len() || !mapping.table.page_file().is_some_and(|one| has_writers(one)) {
            return Ok(());
        }
        let Some(page) = mapping.table.page(PageIndex(mapping.len() >> PAGE_SHIFT)) else {
            return Ok(());
        };
        let mut lock = page.try_lock().map_err(|_| page)?;
        let len = mapping.len();
        if len >> PAGE_SHIFT == page.index().0 && lock.frame().is_some() {
            lock.fill_zero(len as usize % PAGE_BYTES..PAGE_BYTES);
        }
        Ok(())
    }

    fn write_locked<'m>(
        &'m self,
        mut run: Filled<'m>,
        within: usize,
        source: &[u8],
    ) -> Result<(), WriteError> {
        let (engine, cpu) = (self.engine(), current_cpu());
        let index = run[0].page().index().0;
        self.pages.record(&self.mapping, index, record::AccessKind::Write);
        self.pages.reuse.access(self.mapping.key(PageIndex(index)));
        let written = within..within + source.len();
        let is_hit = run[0].frame().is_some();
        if is_hit {
            self.count_hit();
        } else {
            self.counters.count(Event::Miss);
            match self.prepare_page(cpu, &mut run, written.clone()) {
                Ok(()) => {}
                Err(FillError::NoFrame) => return self.write_through(index, within, source),
                Err(FillError::Store(error)) => {
                    return Err(from_read(self.store_error(index, error)));
                }
            }
        }
        if is_hit {
            let frame = run[0].frame().expect("a page that was hit has a frame");
            self.pages.mark_accessed(cpu, frame);
            engine.source.note_locked_access(cpu, &mut run[0]);
        }
        run[0].write(within, source);
        // Under the page's lock, as write-back writes up to the length of the file.
        self.mapping.grow_to((index << PAGE_SHIFT) + written.end as u64);
        let frame = run[0].frame().expect("a prepared page has a frame");
        if !is_hit {
            self.pages.mark_filled(cpu, frame);
        }
        self.pages.mark_dirty(&self.mapping, index, frame, written);
        Ok(())
    }

    /// Gives the locked, absent page a frame, with correct contents outside `overwritten`.
    fn prepare_page<'m>(
        &'m self,
        cpu: CpuId,
        run: &mut Filled<'m>,
        overwritten: Range<usize>,
    ) -> Result<(), FillError> {
        let engine = self.engine();
        let start = run[0].page().index().0 << PAGE_SHIFT;
        let is_whole = overwritten == (0..PAGE_BYTES);
        if !is_whole && start < self.mapping.stored_len() {
            return engine.filler.fill(
                cpu,
                &self.mapping,
                run,
                FillPlan::one(AccessPath::Descriptor),
            );
        }
        engine.source.admit(cpu, &self.mapping, &mut run[0], AccessPath::Descriptor)?;
        if !is_whole {
            run[0].fill_zero(0..PAGE_BYTES);
        }
        Ok(())
    }

    /// Writes part of the locked, absent page to the store. If other programs may write the rest,
    /// only this part is written. Otherwise the rest is read first and the whole page is written.
    fn write_through(&self, index: u64, within: usize, source: &[u8]) -> Result<(), WriteError> {
        let (engine, mapping) = (self.engine(), &self.mapping);
        self.counters.count(Event::WriteThrough);
        self.pages.forget_compressed(PageId { mapping: mapping.id, index: PageIndex(index) });
        let offset = (index << PAGE_SHIFT) + within as u64;
        let end = offset + source.len() as u64;
        let written = mapping.backing().and_then(|backing| {
            engine.flusher.with_change(mapping, &backing, || {
                if !mapping.agreement.is_shared() {
                    return self.write_around(&backing, index, within, source);
                }
                mapping.agreement.lock().may_grow_to(end);
                self.pages.count_write(source.len());
                backing.write_bytes(source, offset)
            })
        });
        written.map_err(|cause| WriteError::Store {
            offset,
            len: source.len() as u64,
            source: cause,
        })?;
        mapping.note_stored(end);
        mapping.grow_to(end);
        Ok(())
    }

    fn write_around(
        &self,
        backing: &Backing,
        index: u64,
        within: usize,
        source: &[u8],
    ) -> io::Result<()> {
        let offset = index << PAGE_SHIFT;
        let mut buffer = AlignedBuf::zeroed(PAGE_BYTES);
        let nr_old = if source.len() == PAGE_BYTES || offset >= self.mapping.stored_len() {
            0
        } else {
            self.pages.count_read(&self.mapping, 1);
            backing.read_bytes(&mut buffer, offset)?
        };
        buffer[within..within + source.len()].copy_from_slice(source);
        let nr_bytes = nr_old.max(within + source.len());
        self.pages.count_write(nr_bytes);
        backing.write_bytes(&buffer[..nr_bytes], offset)
    }
}

pub(crate) fn from_read(error: ReadError) -> WriteError {
    match error {
        ReadError::Store { offset, len, source } => WriteError::Store { offset, len, source },
        ReadError::PastEnd { index, len } => WriteError::PastEnd { index, len },
        ReadError::UnexpectedEnd { end, len } => {
            WriteError::PastEnd { index: end.saturating_sub(1) >> PAGE_SHIFT, len }
        }
        ReadError::NoFrame { frames } => WriteError::NoFrame { frames },
        ReadError::NotReadable => WriteError::NotWritable,
        ReadError::WouldDeadlock { index } => WriteError::WouldDeadlock { index },
        ReadError::Pinned { index } => WriteError::Pinned { index },
    }
}

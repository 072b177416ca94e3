//! Page guards: access to a page's bytes in place, without a copy for readers.
//!
//! A read guard pins the page, with one atomic operation to pin and one to unpin. A write guard
//! locks the page and changes a private copy, published when the guard is dropped. Readers never
//! see half a change, and no reference into shared memory is ever written through.
//!
//! Guards count as table accesses: they set the page's young bit for aging.

use super::{File, Handle, NOTED};
use crate::api::file::write::from_read;
use crate::engine::errors::{ReadError, WriteError};
use crate::engine::fill::{FillError, Filled};
use crate::engine::held::{self, Slot};
use crate::engine::written;
use pagetide_core::ids::{CpuId, PageIndex};
use pagetide_core::record;
use pagetide_core::units::PAGE_BYTES;
use pagetide_core::writeback::Balance;
use pagetide_sys::{Lock, PageRef, Pin, PinRefused, PinnedBytes, Touch, current_cpu};
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

/// A pinned page's bytes: at most 4096, fewer in the file's last page.
///
/// Keep guards short: the page cannot be evicted meanwhile, and writers of the page wait. A guard
/// stays on its thread, so that calls detect deadlocks with their own thread. [`File::pin`] returns
/// bytes that may be kept, and moved to other threads.
pub struct PageGuard<'f> {
    handle: &'f Handle,
    index: u64,
    bytes: PinnedBytes<'f>,
    slot: Slot,
    of_one_thread: PhantomData<*const ()>,
}

/// A page's bytes, for changes. Dropping the guard publishes the changes.
///
/// Meanwhile other threads wait for the page, and calls of the same thread that need the page fail
/// with `WouldDeadlock`. A guard stays on its thread.
pub struct PageGuardMut<'f> {
    handle: &'f Handle,
    page: Lock<PageRef<'f>>,
    bytes: Box<[u8]>,
    is_changed: bool,
    of_one_thread: PhantomData<*const ()>,
}

impl File {
    /// Pins page `index`, which begins at byte `index * 4096`, and returns its bytes. Fills an
    /// absent page first. Waits for another thread's [`PageGuardMut`] of the page, and for all
    /// guards of a page that was truncated or changed by another program.
    ///
    /// On a resident page, taking a guard, loading 8 bytes and dropping the guard costs 9 to 11 ns
    /// among a few pages, 14 to 17 ns among 4,096, and 30 to 60 ns among 65,536, where the
    /// processor's caches miss. The two atomics and the load alone take about half of that.
    /// `pagetide bench hit` measures both.
    ///
    /// # Errors
    /// Fails with:
    /// - [`ReadError::NotReadable`], [`ReadError::PastEnd`] or [`ReadError::Store`].
    /// - [`ReadError::WouldDeadlock`] if this thread has a [`PageGuardMut`] of the page, has a
    ///   guard of a page that was truncated or changed by another program, or has a guard of a
    ///   page that already has the maximum of 2047 guards.
    /// - [`ReadError::NoFrame`] if every frame is in use. [`File::read_at`] still works then.
    // Inlined, because a return through memory takes longer than the rest.
    #[inline(always)]
    pub fn page(&self, index: u64) -> Result<PageGuard<'_>, ReadError> {
        let handle = &*self.handle;
        let bytes = match handle.pin_plain(index) {
            Some(bytes) => bytes,
            None => handle.pin_slowly(index)?,
        };
        let slot = held::add_shared(&handle.mapping, index, bytes.word_address());
        Ok(PageGuard { handle, index, bytes, slot, of_one_thread: PhantomData })
    }

    /// Locks page `index`, which begins at byte `index * 4096`, for changes. Fills an absent page
    /// first. Waits for other threads' guards of the page. Does not grow the file: use
    /// [`File::write_at`] or [`File::set_len`].
    ///
    /// Costs a copy of the page now, and another when the guard is dropped.
    ///
    /// Writes the bytes that differ when the guard is dropped. May also write unchanged bytes
    /// between two changes less than 128 bytes apart. If programs share a page more finely, use
    /// [`File::write_at`], which writes exactly the given bytes.
    ///
    /// # Errors
    /// Fails with:
    /// - [`WriteError::NotWritable`], [`WriteError::PastEnd`] or [`WriteError::Store`].
    /// - [`WriteError::WouldDeadlock`] if this thread has a guard of the page.
    /// - [`WriteError::NoFrame`] if every frame is in use. [`File::write_at`] still works then.
    pub fn page_mut(&self, index: u64) -> Result<PageGuardMut<'_>, WriteError> {
        let handle = &*self.handle;
        if !handle.access.write {
            return Err(WriteError::NotWritable);
        }
        handle.mapping.note_writer();
        let cpu = current_cpu();
        let kind = record::AccessKind::TableWrite;
        let mut run = handle.lock_filled(cpu, index, kind).map_err(from_read)?;
        let page = run.swap_remove(0);
        held::add_exclusive(&handle.mapping, index);
        let (bytes, is_changed) = (Box::default(), false);
        let mut guard =
            PageGuardMut { handle, page, bytes, is_changed, of_one_thread: PhantomData };
        // The file may have been truncated before the page was locked.
        let nr_bytes = handle.check_in_file(index).map_err(from_read)?;
        guard.page.set_young();
        guard.bytes = vec![0; nr_bytes].into_boxed_slice();
        guard.page.read(0, &mut guard.bytes[..]);
        Ok(guard)
    }
}

impl Handle {
    fn check_in_file(&self, index: u64) -> Result<usize, ReadError> {
        match self.mapping.bytes_in_page(PageIndex(index)) {
            0 => Err(ReadError::PastEnd { index, len: self.mapping.len() }),
            nr_bytes => Ok(nr_bytes),
        }
    }

    /// Pins a resident page if accesses need no extra work.
    #[inline(always)]
    pub(super) fn pin_plain(&self, index: u64) -> Option<PinnedBytes<'_>> {
        let mapping = &*self.mapping;
        let nr_bytes = mapping.bytes_in_page(PageIndex(index));
        if !self.reads_plainly || nr_bytes == 0 || mapping.leaving.is_any() {
            return None;
        }
        let bytes = self.table.try_pin_plain(PageIndex(index), nr_bytes)?;
        self.count_hit();
        Some(bytes)
    }

    fn note_table_access(&self, index: u64) {
        self.count_hit();
        self.pages.record(&self.mapping, index, record::AccessKind::Table);
    }

    /// Reports a pinned page to readahead and the reuse sample. Later guards skip this if
    /// accesses need no extra work.
    fn note_pinned(&self, index: u64, pin: &Pin<PageRef<'_>>) {
        let frame = pin.frame();
        let flags = self.pages.folios[frame].flags();
        if flags.any(NOTED) {
            self.note_flags(index, frame, flags);
        }
        self.make_plain(pin);
    }

    /// Records the drop of a guard, just before the page is free.
    #[cold]
    pub(super) fn note_unpin(&self, index: u64) {
        self.pages.record(&self.mapping, index, record::AccessKind::Unpin);
    }

    /// Records an access of slow memory. Pins an armed page again, because the page may first have
    /// to move, without pins.
    #[cold]
    fn pin_in_slow_memory<'f>(
        &'f self,
        index: u64,
        pin: Pin<PageRef<'f>>,
    ) -> Result<PinnedBytes<'f>, ReadError> {
        let (page, frame, has_hint) = (self.page_or_make(index)?, pin.frame(), pin.has_hint());
        if !has_hint {
            self.engine().source.note_slow_access(current_cpu(), page, frame, has_hint);
            self.note_pinned(index, &pin);
            let nr_bytes = self.check_in_file(index)?;
            return Ok(pin.into_bytes(nr_bytes));
        }
        drop(pin);
        self.engine().source.note_slow_access(current_cpu(), page, frame, has_hint);
        let nr_bytes = self.check_in_file(index)?;
        match page.try_pin(Touch::Quiet) {
            Ok(pin) => {
                self.note_pinned(index, &pin);
                Ok(pin.into_bytes(nr_bytes))
            }
            Err(_) => self.pin_slowly(index),
        }
    }

    /// Pins a page that is absent, locked, pinned to the limit, or needs extra work.
    #[cold]
    pub(super) fn pin_slowly(&self, index: u64) -> Result<PinnedBytes<'_>, ReadError> {
        if !self.access.read {
            return Err(ReadError::NotReadable);
        }
        loop {
            let nr_bytes = self.check_in_file(index)?;
            self.settle(index..=index)?;
            let page = self.page_or_make(index)?;
            match page.try_pin(Touch::Young) {
                Ok(pin) => {
                    self.note_table_access(index);
                    if self.pages.is_slow(pin.frame(), pin.has_hint()) {
                        return self.pin_in_slow_memory(index, pin);
                    }
                    self.note_pinned(index, &pin);
                    return Ok(pin.into_bytes(nr_bytes));
                }
                Err(PinRefused::Locked) => {
                    self.check_not_own(index)?;
                    page.wait_while_locked();
                }
                Err(PinRefused::NotResident) => {
                    let cpu = current_cpu();
                    let mut run = self.lock_filled(cpu, index, record::AccessKind::Table)?;
                    if let Ok(pin) = run.swap_remove(0).downgrade(Touch::Young) {
                        let mut bytes = pin.into_bytes(PAGE_BYTES);
                        let nr_bytes = self.check_in_file(index);
                        bytes.truncate(nr_bytes.inspect_err(|_| self.note_unpin(index))?);
                        return Ok(bytes);
                    }
                }
                // Too many guards of this page. Another thread will drop one.
                Err(_) => {
                    self.check_not_own(index)?;
                    std::thread::yield_now();
                }
            }
        }
    }

    /// Locks and fills a page. The policy sees a miss as a page fault.
    fn lock_filled(
        &self,
        cpu: CpuId,
        index: u64,
        kind: record::AccessKind,
    ) -> Result<Filled<'_>, ReadError> {
        self.check_in_file(index)?;
        self.settle(index..=index)?;
        let engine = self.engine();
        let mut run: Filled<'_> = vec![self.lock_page(self.page_or_make(index)?)?];
        match engine.filler.bring_in(cpu, &self.mapping, &mut run, kind, &self.counters) {
            Ok(()) => Ok(run),
            Err(FillError::NoFrame) => {
                Err(ReadError::NoFrame { frames: self.pages.nodes.nr_frames() })
            }
            Err(FillError::Store(source)) => Err(self.store_error(index, source)),
        }
    }
}

impl Deref for PageGuard<'_> {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl AsRef<[u8]> for PageGuard<'_> {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Drop for PageGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        held::remove_shared(&self.handle.mapping, self.index, self.slot);
        if !self.handle.reads_plainly {
            self.handle.note_unpin(self.index);
        }
    }
}

impl fmt::Debug for PageGuard<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PageGuard({}: {:?})", PageIndex(self.index), self.bytes)
    }
}

impl PageGuardMut<'_> {
    /// Publishes the change, like a drop of the guard.
    pub fn commit(self) {}

    fn publish(&mut self, index: u64) {
        let (pages, mapping) = (&self.handle.pages, &self.handle.mapping);
        let mut before = vec![0; self.bytes.len()];
        self.page.read(0, &mut before[..]);
        let frame = self.page.frame().expect("a guarded page has a frame");
        for change in written::changes(&before, &self.bytes) {
            self.page.write(change.start, &self.bytes[change.clone()]);
            pages.mark_dirty(mapping, index, frame, change);
        }
        // Never waits: the flusher may need this page, or another page locked by this thread.
        if pages.dirty.balance() != Balance::Continue {
            self.handle.engine().flusher.wake();
        }
    }
}

impl Deref for PageGuardMut<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl DerefMut for PageGuardMut<'_> {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.is_changed = true;
        &mut self.bytes
    }
}

impl AsRef<[u8]> for PageGuardMut<'_> {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl AsMut<[u8]> for PageGuardMut<'_> {
    fn as_mut(&mut self) -> &mut [u8] {
        self
    }
}

impl Drop for PageGuardMut<'_> {
    fn drop(&mut self) {
        let index = self.page.page().index().0;
        if self.is_changed {
            self.publish(index);
        }
        held::remove_exclusive(&self.handle.mapping, index);
        self.handle.note_unpin(index);
    }
}

impl fmt::Debug for PageGuardMut<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PageGuardMut({:?}, {} bytes)", self.page, self.bytes.len())
    }
}

//! Durability of writes, and their errors.

use super::{File, Handle};
use crate::engine::errors::{ReadError, SyncError};
use crate::engine::held;
use crate::engine::mapping::Mapping;
use crate::memory::locks::lock;
use crate::memory::store::Backing;
use pagetide_core::units::Bytes;
use std::io;
use std::ops::Range;

impl File {
    /// Makes all dirty pages of the file durable: writes before this call survive a crash. Waits
    /// for other threads' [`PageGuardMut`](crate::PageGuardMut)s of dirty pages, without blocking
    /// other calls.
    ///
    /// # Errors
    /// [`SyncError::Writeback`] if a write-back of this file failed since this handle's last sync.
    /// Each handle reports a failure once. The pages stay dirty for another try. A failure that no
    /// handle has reported goes to the next handle opened. [`SyncError::Store`] if the store could
    /// not be made durable. [`SyncError::WouldDeadlock`] if this thread holds a
    /// [`PageGuardMut`](crate::PageGuardMut) of the file.
    ///
    /// # Cost
    /// The device's: one request for up to 64 neighbouring pages, several in parallel, and its
    /// flush.
    pub fn sync_data(&self) -> Result<(), SyncError> {
        self.handle.sync(Backing::sync_data)
    }

    /// Writes back all dirty pages without making them durable. Later reads past this cache see the
    /// data. Waits as [`File::sync_data`] does.
    ///
    /// # Errors
    /// [`SyncError::Writeback`] and [`SyncError::WouldDeadlock`] as for [`File::sync_data`].
    pub fn flush(&self) -> Result<(), SyncError> {
        let handle = &*self.handle;
        handle.write_back(0..u64::MAX)?;
        let failed = handle.mapping.take_error(&handle.errors_seen);
        failed.map_or(Ok(()), |error| Err(SyncError::Writeback(error)))
    }

    /// Checks the file for changes as another open does: all handles see the writes of programs
    /// that have closed it. Waits for no guard.
    ///
    /// # Errors
    /// [`ReadError::Store`] with the system's error.
    pub fn look_again(&self) -> Result<(), ReadError> {
        let handle = &*self.handle;
        let looked = handle.engine().look_again(&handle.mapping);
        looked.map_err(|source| ReadError::Store { offset: 0, len: 0, source })
    }

    /// Returns true if no page is dirty. Waits for a write-back in progress.
    pub fn is_stored(&self) -> bool {
        let mapping = &self.handle.mapping;
        let _no_write_back = lock(&mapping.flush);
        mapping.dirty.is_empty()
    }

    /// Returns the bytes that are not written back yet, in whole pages.
    pub fn dirty_bytes(&self) -> u64 {
        Bytes::from_pages(self.handle.mapping.dirty.nr()).0
    }

    /// Makes data and metadata durable (times, links).
    ///
    /// # Errors
    /// As [`File::sync_data`].
    pub fn sync_all(&self) -> Result<(), SyncError> {
        self.handle.sync(Backing::sync_all)
    }
}

impl Handle {
    pub(super) fn write_back(&self, pages: Range<u64>) -> Result<(), SyncError> {
        match held::first_exclusive(&self.mapping) {
            Some(index) => Err(SyncError::WouldDeadlock { index }),
            None => {
                self.engine().flusher.flush(&self.mapping, pages);
                Ok(())
            }
        }
    }

    fn sync(&self, make_durable: fn(&Backing) -> io::Result<()>) -> Result<(), SyncError> {
        let mapping = &self.mapping;
        self.write_back(0..u64::MAX)?;
        let backing = mapping.backing();
        let durable = backing.and_then(|backing| store_durably(mapping, &backing, make_durable));
        let failed = mapping.take_error(&self.errors_seen);
        durable.map_err(SyncError::Store)?;
        failed.map_or(Ok(()), |error| Err(SyncError::Writeback(error)))
    }
}

/// Syncs the store. An error is recorded for every handle.
pub(crate) fn store_durably(
    mapping: &Mapping,
    backing: &Backing,
    make_durable: fn(&Backing) -> io::Result<()>,
) -> io::Result<()> {
    // Other handles' data may be lost as well.
    make_durable(backing).inspect_err(|error| mapping.record_error(error))
}

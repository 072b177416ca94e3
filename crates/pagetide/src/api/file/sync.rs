//! Making writes durable, and reporting the ones that failed.

use super::{File, Handle};
use crate::engine::errors::{ReadError, SyncError};
use crate::engine::held;
use crate::engine::mapping::Mapping;
use crate::memory::locks::lock;
use crate::memory::store::Backing;
use std::io;
use std::ops::Range;

impl File {
    /// Writes back every page of the file that is dirty now and makes the data durable. When this
    /// returns without an error, what was written before the call survives a crash. Waits for other
    /// threads that have a [`PageGuardMut`](crate::PageGuardMut) of a dirty page, and lets no
    /// other call wait along.
    ///
    /// # Errors
    /// [`SyncError::Writeback`] if any write-back of this file failed since this handle's last
    /// sync, by any call; each handle reports it once, and the pages stay dirty for another try.
    /// What no handle has reported when the file is closed, the next handle of it reports.
    /// [`SyncError::Store`] if the store could not be made durable; [`SyncError::WouldDeadlock`]
    /// if this thread has a [`PageGuardMut`](crate::PageGuardMut) of the file.
    ///
    /// # Cost
    /// The device's: one request for up to 64 neighbouring pages, several at once, and its flush.
    pub fn sync_data(&self) -> Result<(), SyncError> {
        self.handle.sync(Backing::sync_data)
    }

    /// Writes back every page of the file that is dirty now, without making it durable: reads
    /// of the file past this cache see the data from here on. Waits as [`File::sync_data`]
    /// does.
    ///
    /// # Errors
    /// [`SyncError::Writeback`] and [`SyncError::WouldDeadlock`] as for [`File::sync_data`].
    pub fn flush(&self) -> Result<(), SyncError> {
        let handle = &*self.handle;
        handle.write_back(0..u64::MAX)?;
        let failed = handle.mapping.take_error(&handle.errors_seen);
        failed.map_or(Ok(()), |error| Err(SyncError::Writeback(error)))
    }

    /// Looks at the file as another open of it would: what other programs had stored when they
    /// closed it is seen from here on, by all handles. Waits for no guard.
    ///
    /// # Errors
    /// [`ReadError::Store`] if the system does not tell.
    pub fn look_again(&self) -> Result<(), ReadError> {
        let handle = &*self.handle;
        let looked = handle.engine().look_again(&handle.mapping);
        looked.map_err(|source| ReadError::Store { offset: 0, len: 0, source })
    }

    /// Whether the store has all that the file has: no page is dirty. Waits for write-back that is
    /// in progress.
    pub fn is_stored(&self) -> bool {
        let mapping = &self.handle.mapping;
        let _no_write_back = lock(&mapping.flush);
        mapping.dirty.is_empty()
    }

    /// As [`File::sync_data`], and what describes the file (its times, its links).
    ///
    /// # Errors
    /// As [`File::sync_data`].
    pub fn sync_all(&self) -> Result<(), SyncError> {
        self.handle.sync(Backing::sync_all)
    }
}

impl Handle {
    /// Writes back the pages of a range, if this thread has none of the file locked.
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

/// Has the store make durable what it has; an error is every handle's.
pub(crate) fn store_durably(
    mapping: &Mapping,
    backing: &Backing,
    make_durable: fn(&Backing) -> io::Result<()>,
) -> io::Result<()> {
    // Other handles' data may be lost as well.
    make_durable(backing).inspect_err(|error| mapping.record_error(error))
}

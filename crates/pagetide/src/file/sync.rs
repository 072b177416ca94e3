//! Making writes durable, and hearing of the ones that failed.

use super::{File, Handle};
use crate::errors::SyncError;
use crate::locks::lock;
use crate::store::Backing;
use std::io;

impl File {
    /// Writes back every page of the file that is dirty now and makes the data durable. When this
    /// returns without an error, what was written before the call survives a crash.
    ///
    /// # Errors
    /// [`SyncError::Writeback`] if any write-back of this file failed since this handle's last
    /// sync, by whomever; each handle hears of it once, and the pages stay dirty for another try.
    /// [`SyncError::Store`] if the store could not be made durable.
    pub fn sync_data(&self) -> Result<(), SyncError> {
        self.handle.sync(Backing::sync_data)
    }

    /// Writes back every page of the file that is dirty now, without making it durable: whoever
    /// reads the file past this cache sees the data from here on.
    ///
    /// # Errors
    /// [`SyncError::Writeback`] as for [`File::sync_data`].
    pub fn flush(&self) -> Result<(), SyncError> {
        let handle = &*self.handle;
        handle.engine().flush(&handle.mapping, 0..u64::MAX);
        let failed = handle.mapping.take_error(&handle.errors_seen);
        failed.map_or(Ok(()), |error| Err(SyncError::Writeback(error)))
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
    fn sync(&self, make_durable: fn(&Backing) -> io::Result<()>) -> Result<(), SyncError> {
        let mapping = &self.mapping;
        self.engine().flush(mapping, 0..u64::MAX);
        let durable = mapping.backing().and_then(|backing| {
            let result = make_durable(&backing);
            if let Err(error) = &result {
                // Other handles' data may be lost as well.
                mapping.record_error(error);
            }
            result
        });
        let failed = mapping.take_error(&self.errors_seen);
        durable.map_err(SyncError::Store)?;
        failed.map_or(Ok(()), |error| Err(SyncError::Writeback(error)))
    }
}

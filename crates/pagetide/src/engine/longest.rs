//! The maximum length of a file.
//!
//! **Problem.** A file system limits the length of a file. A page beyond this limit could become
//! dirty but never be written back. **Idea.** Ask the store before a write extends the file, and
//! refuse the write.
//!
//! Data: the limit, asked once for each file that grows beyond a length that every file system
//! supports. Ignored: stores of the caller's, which fail at write-back.

use crate::engine::errors::WriteError;
use crate::memory::store::Backing;
use pagetide_core::units::PAGE_SHIFT;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The maximum length of any file, in bytes: the reach of the page table.
pub(crate) const FILE_BYTES_MAX: u64 = pagetide_sys::PAGES_MAX << PAGE_SHIFT;

/// A length in bytes that every file system supports. The store is not asked below this length.
const LEN_UNASKED: u64 = 64 << 20;

/// The store's maximum length, in bytes, or 0 before the store was asked.
#[derive(Default)]
pub(crate) struct Longest(AtomicU64);

impl Longest {
    /// Refuses a write or a length that ends beyond the maximum length of `backing`.
    ///
    /// # Errors
    /// [`WriteError::TooLong`].
    pub(crate) fn check_end(
        &self,
        end: u64,
        backing: impl FnOnce() -> Option<Arc<Backing>>,
    ) -> Result<(), WriteError> {
        if end <= LEN_UNASKED {
            return Ok(());
        }
        let most = self.read(backing);
        if end > most { Err(WriteError::TooLong { end, most }) } else { Ok(()) }
    }

    /// Returns the maximum length of `backing`, in bytes. Reads it once.
    fn read(&self, backing: impl FnOnce() -> Option<Arc<Backing>>) -> u64 {
        let known = self.0.load(Relaxed);
        if known > 0 {
            return known;
        }
        let Some(backing) = backing() else { return FILE_BYTES_MAX };
        let most = backing.read_len_max(FILE_BYTES_MAX);
        self.0.store(most, Relaxed);
        most
    }
}

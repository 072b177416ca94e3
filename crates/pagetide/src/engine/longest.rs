//! The longest that a file may become.
//!
//! **Problem.** A file system has a longest file, and a page that lies beyond it can be dirty and
//! never be written back. **Idea.** Ask the store before a write makes the file longer, and refuse
//! the write.
//!
//! Data: the length, asked once a file, of files that grow beyond what every file system takes.
//! Ignored: stores of the caller's, which say so at the write-back.

use crate::engine::errors::WriteError;
use crate::engine::mapping::Mapping;
use pagetide_core::units::PAGE_SHIFT;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The longest a file can be, bytes: what the page table reaches.
pub(crate) const FILE_BYTES_MAX: u64 = pagetide_sys::PAGES_MAX << PAGE_SHIFT;

/// Every file system takes files of this length, bytes: the store is not asked.
const LEN_UNASKED: u64 = 64 << 20;

/// The longest that the store may become, bytes; 0 before it was asked.
#[derive(Default)]
pub(crate) struct Longest(AtomicU64);

impl Mapping {
    /// Refuses a write or a length that ends beyond the longest file.
    ///
    /// # Errors
    /// [`WriteError::TooLong`].
    pub(crate) fn check_end(&self, end: u64) -> Result<(), WriteError> {
        if end <= LEN_UNASKED {
            return Ok(());
        }
        let most = self.len_max();
        if end > most { Err(WriteError::TooLong { end, most }) } else { Ok(()) }
    }

    /// The longest that the store may become, bytes.
    pub(crate) fn len_max(&self) -> u64 {
        let known = self.longest.0.load(Relaxed);
        if known > 0 {
            return known;
        }
        let Ok(backing) = self.backing() else { return FILE_BYTES_MAX };
        let most = backing.read_len_max(FILE_BYTES_MAX);
        self.longest.0.store(most, Relaxed);
        most
    }
}

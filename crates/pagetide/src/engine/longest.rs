//! The maximum length of a file.
//!
//! **Problem.** A page beyond the file system's limit could become dirty but never be written back.
//! **Idea.** Ask the store before a write extends the file, and refuse the write. Data: the limit,
//! read once for each file that grows large. Ignored: stores of the caller, which fail at
//! write-back.

use crate::engine::errors::WriteError;
use crate::memory::store::Backing;
use pagetide_core::units::PAGE_SHIFT;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The reach of the page table, in bytes.
pub(crate) const FILE_BYTES_MAX: u64 = pagetide_sys::PAGES_MAX << PAGE_SHIFT;

/// A length in bytes that every file system supports.
const LEN_UNASKED: u64 = 64 << 20;

/// The store's maximum length, in bytes, or 0 before the store was asked.
#[derive(Default)]
pub(crate) struct Longest(AtomicU64);

impl Longest {
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

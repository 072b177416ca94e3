//! Where pages of an anonymous region go when they leave memory.
//!
//! Such a region begins as zeros that no store has, and its store is nobody's: a file without a
//! name, as long as the region, that goes with it. So a page that was never written back is not
//! read: it is zeros. And a dirty page need not be stored for its own sake, only to make room.
//!
//! ```text
//!   page       0   1   2   3   4          at its own place in the store
//!   stored     -   x   -   x   x          a bit each: written back once
//!                      ^ the next part to be written back begins here
//! ```
//!
//! Ignored: giving room in the store back when a page is dropped.

use crate::store::Backing;
use pagetide_core::units::PAGE_SHIFT;
use pagetide_sys::StoreFile;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const WORD_BITS: u64 = u64::BITS as u64;
/// Survives a reboot, and so is not in memory; where there is none, whatever is temporary.
const FOLDER: &str = "/var/tmp";

/// Which pages of a region its store has, and how far write-back has come.
pub(crate) struct SwapMap {
    stored: Box<[AtomicU64]>,
    next: AtomicU64,
}

impl SwapMap {
    pub(crate) fn new(nr_pages: u64) -> SwapMap {
        let stored = (0..nr_pages.div_ceil(WORD_BITS)).map(|_| AtomicU64::new(0)).collect();
        SwapMap { stored, next: AtomicU64::new(0) }
    }

    /// Whether the store has the page, though perhaps not as it is now.
    pub(crate) fn is_stored(&self, index: u64) -> bool {
        let word = self.stored.get((index / WORD_BITS) as usize);
        word.is_some_and(|word| word.load(Relaxed) & Self::bit(index) != 0)
    }

    /// The store has the page. The caller keeps it from leaving until this is known.
    pub(crate) fn note_stored(&self, index: u64) {
        if let Some(word) = self.stored.get((index / WORD_BITS) as usize) {
            word.fetch_or(Self::bit(index), Relaxed);
        }
    }

    /// Where the next part to be written back begins.
    pub(crate) fn begin_part(&self) -> u64 {
        self.next.load(Relaxed)
    }

    /// Write-back got this far.
    pub(crate) fn end_part(&self, next: u64) {
        self.next.store(next, Relaxed);
    }

    fn bit(index: u64) -> u64 {
        1 << (index % WORD_BITS)
    }
}

/// The folder for swap files unless one is named: `TMPDIR` if set, else `/var/tmp`.
pub(super) fn default_folder() -> PathBuf {
    let named = std::env::var_os("TMPDIR").map(PathBuf::from);
    let lasting = || Some(PathBuf::from(FOLDER)).filter(|folder| folder.is_dir());
    named.or_else(lasting).unwrap_or_else(std::env::temp_dir)
}

/// A file without a name in `folder`, of `nr_pages` pages that read as zeros.
pub(super) fn create(folder: &Path, nr_pages: u64, direct: bool) -> io::Result<Backing> {
    let file = StoreFile::nameless(folder, nr_pages << PAGE_SHIFT, direct)?;
    Ok(Backing::File { file: Arc::new(file), writable: true })
}

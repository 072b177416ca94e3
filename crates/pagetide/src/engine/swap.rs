//! Where pages of an anonymous region go when they leave memory.
//!
//! Such a region begins as zeros that no store has, and its store is its own: a file without a
//! name, as long as the region, that goes with it. So a page that was never written back is not
//! read: it is zeros. And a dirty page need not be stored for its own sake, only to make room.
//!
//! ```text
//!   page       0   1   2   3   4          at its own place in the store
//!   stored     -   x   -   x   x          a bit each: written back once
//!                      ^ the next part to be written back begins here
//! ```
//!
//! Where the store has no room, pages stay in memory, dirty; a call that needs a frame gets an
//! error that says what is full.
//!
//! Ignored: giving room in the store back when a page is dropped.

use crate::memory::locks::lock;
use crate::memory::store::Backing;
use pagetide_core::units::PAGE_SHIFT;
use pagetide_sys::{StoreError, StoreFile};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

const WORD_BITS: u64 = u64::BITS as u64;
/// Survives a reboot, and so is not in memory; where there is none, whatever is temporary.
const FOLDER: &str = "/var/tmp";

/// Which pages of a region its store has, and how far write-back has come.
pub(crate) struct SwapMap {
    stored: Box<[AtomicU64]>,
    next: AtomicU64,
    /// The store, if it is a file of ours.
    file: Option<SwapFile>,
    /// Why writing to it failed last, since that was asked last.
    failure: Mutex<Option<Failure>>,
}

/// A file without a name, and the folder it is in all the same.
pub(crate) struct SwapFile {
    folder: PathBuf,
    file: Arc<StoreFile>,
}

/// An error of the store, which many calls report.
#[derive(Clone, Copy)]
struct Failure {
    kind: io::ErrorKind,
    code: Option<i32>,
}

/// The error of calls that need room where there is none.
#[derive(Debug, thiserror::Error)]
#[error(
    "no page of the region can leave memory: writing to {place} failed ({source}): make room \
     there, or name another place with `swap_in` or `swap_to`"
)]
struct SwapFull {
    place: String,
    source: io::Error,
}

impl SwapMap {
    pub(crate) fn new(nr_pages: u64, file: Option<SwapFile>) -> SwapMap {
        let stored = (0..nr_pages.div_ceil(WORD_BITS)).map(|_| AtomicU64::new(0)).collect();
        SwapMap { stored, next: AtomicU64::new(0), file, failure: Mutex::default() }
    }

    /// Pages could not be written.
    pub(crate) fn note_failure(&self, error: &io::Error) {
        let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<StoreError>());
        let system = inner.map_or(error, StoreError::os_error);
        let failure = Failure { kind: system.kind(), code: system.raw_os_error() };
        *lock(&self.failure) = Some(failure);
    }

    /// The last failure, as a sentence, and none from then on until there is another.
    pub(crate) fn take_failure(&self) -> Option<io::Error> {
        let failure = self.failure();
        *lock(&self.failure) = None;
        failure
    }

    /// The last failure, as a sentence, if there was one.
    pub(crate) fn failure(&self) -> Option<io::Error> {
        let failure = (*lock(&self.failure))?;
        let source = failure.code.map_or(failure.kind.into(), io::Error::from_raw_os_error);
        Some(io::Error::new(failure.kind, SwapFull { place: self.describe_place(), source }))
    }

    /// The place and how much room it has.
    fn describe_place(&self) -> String {
        let Some(SwapFile { folder, file }) = &self.file else {
            return "the store it swaps to".to_owned();
        };
        let room = file.read_room().map_or_else(|error| error.to_string(), |room| room.to_string());
        format!("the swap folder {}, which has {room} of room left,", folder.display())
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
pub(crate) fn default_folder() -> PathBuf {
    let named = std::env::var_os("TMPDIR").map(PathBuf::from);
    let lasting = || Some(PathBuf::from(FOLDER)).filter(|folder| folder.is_dir());
    named.or_else(lasting).unwrap_or_else(std::env::temp_dir)
}

impl SwapFile {
    /// In `folder`, of `nr_pages` pages that read as zeros.
    pub(crate) fn create(folder: &Path, nr_pages: u64, direct: bool) -> io::Result<SwapFile> {
        let file = StoreFile::nameless(folder, nr_pages << PAGE_SHIFT, direct)?;
        Ok(SwapFile { folder: folder.to_owned(), file: Arc::new(file) })
    }

    pub(crate) fn backing(&self) -> Backing {
        Backing::File { file: Arc::clone(&self.file), writable: true }
    }
}

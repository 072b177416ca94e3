//! Swap space of an anonymous region: a private, unnamed file of the region's length. A page that
//! was never written back is zeros. A dirty page is stored only to free memory.
//!
//! ```text
//!   page       0   1   2   3   4          at its own offset in the store
//!   stored     -   x   -   x   x          a bit each: written back once
//!                      ^ start of the next part to write back
//! ```
//!
//! If the store is full, pages stay in memory, dirty. A call that needs a frame then gets an error
//! that names the full folder.
//!
//! Ignored: freeing blocks of the store when a page is dropped.

use crate::memory::locks::lock;
use crate::memory::store::Backing;
use pagetide_core::units::PAGE_SHIFT;
use pagetide_sys::{StoreError, StoreFile};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

const WORD_BITS: u64 = u64::BITS as u64;
/// Survives a reboot, and so is not in memory. If missing, the temporary folder is used.
const FOLDER: &str = "/var/tmp";

pub(crate) struct SwapMap {
    stored: Box<[AtomicU64]>,
    next: AtomicU64,
    file: Option<SwapFile>,
    /// Last write error since it was last taken.
    failure: Mutex<Option<Failure>>,
}

pub(crate) struct SwapFile {
    folder: PathBuf,
    file: Arc<StoreFile>,
}

/// A store error in copyable form.
#[derive(Clone, Copy)]
struct Failure {
    kind: io::ErrorKind,
    code: Option<i32>,
}

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

    pub(crate) fn note_failure(&self, error: &io::Error) {
        let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<StoreError>());
        let system = inner.map_or(error, StoreError::os_error);
        let failure = Failure { kind: system.kind(), code: system.raw_os_error() };
        *lock(&self.failure) = Some(failure);
    }

    pub(crate) fn take_failure(&self) -> Option<io::Error> {
        let failure = self.failure();
        *lock(&self.failure) = None;
        failure
    }

    pub(crate) fn failure(&self) -> Option<io::Error> {
        let failure = (*lock(&self.failure))?;
        let source = failure.code.map_or(failure.kind.into(), io::Error::from_raw_os_error);
        Some(io::Error::new(failure.kind, SwapFull { place: self.describe_place(), source }))
    }

    fn describe_place(&self) -> String {
        let Some(SwapFile { folder, file }) = &self.file else {
            return "the store it swaps to".to_owned();
        };
        let room = file.read_room().map_or_else(|error| error.to_string(), |room| room.to_string());
        format!("the swap folder {}, which has {room} of room left,", folder.display())
    }

    /// Returns true if the store has the page, perhaps in an older state.
    pub(crate) fn is_stored(&self, index: u64) -> bool {
        let word = self.stored.get((index / WORD_BITS) as usize);
        word.is_some_and(|word| word.load(Relaxed) & Self::bit(index) != 0)
    }

    /// Records that the store has the page. The caller keeps the page resident until then.
    pub(crate) fn note_stored(&self, index: u64) {
        if let Some(word) = self.stored.get((index / WORD_BITS) as usize) {
            word.fetch_or(Self::bit(index), Relaxed);
        }
    }

    pub(crate) fn begin_part(&self) -> u64 {
        self.next.load(Relaxed)
    }

    pub(crate) fn end_part(&self, next: u64) {
        self.next.store(next, Relaxed);
    }

    fn bit(index: u64) -> u64 {
        1 << (index % WORD_BITS)
    }
}

/// Returns the default folder for swap files: `TMPDIR` if set, else `/var/tmp`.
pub(crate) fn default_folder() -> PathBuf {
    let named = std::env::var_os("TMPDIR").map(PathBuf::from);
    let lasting = || Some(PathBuf::from(FOLDER)).filter(|folder| folder.is_dir());
    named.or_else(lasting).unwrap_or_else(std::env::temp_dir)
}

impl SwapFile {
    pub(crate) fn create(folder: &Path, nr_pages: u64, direct: bool) -> io::Result<SwapFile> {
        let file = StoreFile::nameless(folder, nr_pages << PAGE_SHIFT, direct)?;
        Ok(SwapFile { folder: folder.to_owned(), file: Arc::new(file) })
    }

    pub(crate) fn backing(&self) -> Backing {
        Backing::File { file: Arc::clone(&self.file), writable: true }
    }
}

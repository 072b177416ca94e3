//! Numbered write-back failures of a file. Each handle stores the last number it reported.

use crate::memory::locks::lock;
use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Default)]
pub(crate) struct WriteErrors(Mutex<Numbered>);

#[derive(Default)]
struct Numbered {
    count: u64,
    /// The last failure reported by any handle.
    reported: u64,
    last: Option<StoredError>,
}

/// A repeatable I/O error.
#[derive(Clone, Copy)]
enum StoredError {
    Os(i32),
    Kind(io::ErrorKind),
}

impl From<&io::Error> for StoredError {
    fn from(error: &io::Error) -> StoredError {
        match error.raw_os_error() {
            Some(code) => StoredError::Os(code),
            None => StoredError::Kind(error.kind()),
        }
    }
}

impl From<StoredError> for io::Error {
    fn from(error: StoredError) -> io::Error {
        match error {
            StoredError::Os(code) => io::Error::from_raw_os_error(code),
            StoredError::Kind(kind) => kind.into(),
        }
    }
}

impl WriteErrors {
    pub(crate) fn record(&self, error: &io::Error) {
        let mut errors = lock(&self.0);
        errors.count += 1;
        errors.last = Some(error.into());
    }

    pub(crate) fn reported(&self) -> u64 {
        lock(&self.0).reported
    }

    pub(crate) fn count(&self) -> u64 {
        lock(&self.0).count
    }

    pub(crate) fn last(&self) -> Option<io::Error> {
        lock(&self.0).last.map(io::Error::from)
    }

    /// Returns the last failure if newer than `seen`, and marks all failures as seen.
    pub(crate) fn take(&self, seen: &AtomicU64) -> Option<io::Error> {
        let mut errors = lock(&self.0);
        if seen.swap(errors.count, Ordering::Relaxed) == errors.count {
            return None;
        }
        errors.reported = errors.count;
        errors.last.map(io::Error::from)
    }
}

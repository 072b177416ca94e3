//! Errors of a store: operation, range, and the system's error.

use std::io;

/// The reason why a store could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenStoreError {
    /// The file is not regular, so it has no pages to keep. Open a regular file.
    #[error("only a regular file can be a store, and this is a {kind}")]
    NotRegular {
        /// The file's kind.
        kind: &'static str,
    },
    /// The system refused, see the source.
    #[error("the file could not be opened: {source}")]
    Os {
        /// The system's error.
        source: io::Error,
    },
}

impl From<OpenStoreError> for io::Error {
    /// Returns the system's error, or an error with the file's kind.
    fn from(error: OpenStoreError) -> io::Error {
        match error {
            OpenStoreError::Os { source } => source,
            other => io::Error::new(io::ErrorKind::InvalidInput, other),
        }
    }
}

/// The reason why an operation on an open store failed, with the system's error as source.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// A read failed. Bytes that arrived before are in the frames or the buffer, and must not be
    /// used.
    #[error("reading {len} bytes at {offset} failed: {source}")]
    Read {
        /// The first byte of the range.
        offset: u64,
        /// Bytes requested.
        len: usize,
        /// The system's error.
        source: io::Error,
    },
    /// A write failed. Any part of the range may have been written. Keep the contents, and try
    /// again.
    #[error("writing {len} bytes at {offset} failed: {source}")]
    Write {
        /// The first byte of the range.
        offset: u64,
        /// Bytes to write.
        len: usize,
        /// The system's error.
        source: io::Error,
    },
    /// A sync failed. Any write since the last successful sync may be lost.
    #[error("syncing the file failed: {source}")]
    Sync {
        /// The system's error.
        source: io::Error,
    },
    /// Changing the length failed.
    #[error("setting the length to {len} bytes failed: {source}")]
    SetLen {
        /// The length requested, in bytes.
        len: u64,
        /// The system's error.
        source: io::Error,
    },
    /// Reading the length or the identity failed.
    #[error("asking about the file failed: {source}")]
    Stat {
        /// The system's error.
        source: io::Error,
    },
}

impl StoreError {
    /// Returns the system's error.
    pub fn os_error(&self) -> &io::Error {
        match self {
            StoreError::Read { source, .. }
            | StoreError::Write { source, .. }
            | StoreError::Sync { source }
            | StoreError::SetLen { source, .. }
            | StoreError::Stat { source } => source,
        }
    }

    /// Returns the system's error by value.
    pub fn into_os_error(self) -> io::Error {
        match self {
            StoreError::Read { source, .. }
            | StoreError::Write { source, .. }
            | StoreError::Sync { source }
            | StoreError::SetLen { source, .. }
            | StoreError::Stat { source } => source,
        }
    }
}

impl From<StoreError> for io::Error {
    fn from(error: StoreError) -> io::Error {
        io::Error::new(error.os_error().kind(), error)
    }
}

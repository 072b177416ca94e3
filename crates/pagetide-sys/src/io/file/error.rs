//! What can go wrong with a store: operation, range, and what the system said.

use std::io;

/// Why a store could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenStoreError {
    /// Not a regular file, so it has no pages to keep; open a regular file.
    #[error("only a regular file can be a store, and this is a {kind}")]
    NotRegular {
        /// What it is instead.
        kind: &'static str,
    },
    /// The system refused; see the source.
    #[error("the file could not be opened: {source}")]
    Os {
        /// What the system said.
        source: io::Error,
    },
}

impl From<OpenStoreError> for io::Error {
    /// The system's own error, or one that says what the file is.
    fn from(error: OpenStoreError) -> io::Error {
        match error {
            OpenStoreError::Os { source } => source,
            other => io::Error::new(io::ErrorKind::InvalidInput, other),
        }
    }
}

/// Why an operation on an open store failed. The source is what the system said.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// A read; what arrived before it is in the frames or the buffer, and is not to be trusted.
    #[error("reading {len} bytes at {offset} failed: {source}")]
    Read {
        /// Where it began.
        offset: u64,
        /// Bytes asked for.
        len: usize,
        /// What the system said.
        source: io::Error,
    },
    /// A write; any part of the range may have been written. Keep the contents, and try again.
    #[error("writing {len} bytes at {offset} failed: {source}")]
    Write {
        /// Where it began.
        offset: u64,
        /// Bytes to write.
        len: usize,
        /// What the system said.
        source: io::Error,
    },
    /// A sync: any write since the last one may be lost.
    #[error("syncing the file failed: {source}")]
    Sync {
        /// What the system said.
        source: io::Error,
    },
    /// Changing the length.
    #[error("setting the length to {len} bytes failed: {source}")]
    SetLen {
        /// The length asked for.
        len: u64,
        /// What the system said.
        source: io::Error,
    },
    /// Asking for length or identity.
    #[error("asking about the file failed: {source}")]
    Stat {
        /// What the system said.
        source: io::Error,
    },
}

impl StoreError {
    /// What the system said.
    pub fn os_error(&self) -> &io::Error {
        match self {
            StoreError::Read { source, .. }
            | StoreError::Write { source, .. }
            | StoreError::Sync { source }
            | StoreError::SetLen { source, .. }
            | StoreError::Stat { source } => source,
        }
    }

    /// The same, kept.
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

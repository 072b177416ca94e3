//! Raw O_DIRECT reads: the device without any cache above it.
//!
//! Invariant: the buffer starts at a page boundary, which every device accepts. Where the file
//! system refuses O_DIRECT, the bench that needs it is skipped and says so.

use super::{Identity, Row};
use pagetide_sys::AlignedBuf;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

/// A file open for direct reads.
#[derive(Debug)]
pub(super) struct DirectFile(File);

impl DirectFile {
    /// Opens `path` past the kernel's page cache.
    ///
    /// # Errors
    /// The row that says so, where the file system refuses O_DIRECT.
    pub(super) fn open(path: &Path, identity: Identity<'_>) -> Result<DirectFile, Box<Row>> {
        let file = File::options().read(true).custom_flags(libc::O_DIRECT).open(path);
        file.map(DirectFile).map_err(|error| {
            Box::new(Row::skipped(identity, "direct", format!("O_DIRECT is refused: {error}")))
        })
    }

    /// Fills `buffer` from `offset`.
    ///
    /// # Errors
    /// What the device says.
    pub(super) fn read(&self, buffer: &mut AlignedBuf, offset: u64) -> io::Result<()> {
        self.0.read_exact_at(buffer, offset)
    }
}

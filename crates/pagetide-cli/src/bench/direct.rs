//! O_DIRECT reads: the device without a cache.
//!
//! Invariant: the buffer is page-aligned, which every device accepts. Without O_DIRECT the bench is
//! skipped with a note.

use super::{Identity, Row};
use pagetide_sys::AlignedBuf;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

#[derive(Debug)]
pub(super) struct DirectFile(File);

impl DirectFile {
    /// Bypasses the kernel's page cache. The error is a skipped row.
    pub(super) fn open(path: &Path, identity: Identity<'_>) -> Result<DirectFile, Box<Row>> {
        let file = File::options().read(true).custom_flags(libc::O_DIRECT).open(path);
        file.map(DirectFile).map_err(|error| {
            Box::new(Row::skipped(identity, "direct", format!("O_DIRECT is refused: {error}")))
        })
    }

    pub(super) fn read(&self, buffer: &mut AlignedBuf, offset: u64) -> io::Result<()> {
        self.0.read_exact_at(buffer, offset)
    }
}

//! Raw O_DIRECT reads: the device without any cache above it.
//!
//! Invariant: the buffer starts at a page boundary, which every device accepts. Ignored: file
//! systems that refuse O_DIRECT; the bench that needs it is skipped and says so.

use pagetide_core::units::PAGE_BYTES;
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
    /// `EINVAL` where the file system refuses O_DIRECT.
    pub(super) fn open(path: &Path) -> io::Result<DirectFile> {
        File::options().read(true).custom_flags(libc::O_DIRECT).open(path).map(DirectFile)
    }

    /// Fills `buffer` from `offset`.
    ///
    /// # Errors
    /// What the device says.
    pub(super) fn read(&self, buffer: &mut AlignedBuffer, offset: u64) -> io::Result<()> {
        self.0.read_exact_at(buffer.as_mut(), offset)
    }
}

/// Bytes that start at a page boundary.
#[derive(Debug)]
pub(super) struct AlignedBuffer {
    bytes: Vec<u8>,
    start: usize,
    len: usize,
}

impl AlignedBuffer {
    /// `len` zero bytes.
    pub(super) fn new(len: usize) -> AlignedBuffer {
        let bytes = vec![0; len + PAGE_BYTES];
        let start = bytes.as_ptr().align_offset(PAGE_BYTES);
        AlignedBuffer { bytes, start, len }
    }

    /// The bytes.
    pub(super) fn as_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffer_starts_at_a_page() {
        let mut buffer = AlignedBuffer::new(8192);
        assert_eq!(buffer.as_mut().as_ptr().addr() % PAGE_BYTES, 0);
        assert_eq!(buffer.as_mut().len(), 8192);
    }
}

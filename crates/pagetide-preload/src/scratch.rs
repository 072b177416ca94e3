//! Memory for the time of one call: stacks may be small, malloc may be what is calling us, and
//! after fork it may not be called at all.

use crate::errno::Errno;
use crate::next;

/// A mapping of zeros, unmapped when dropped.
pub(crate) struct Scratch {
    start: usize,
    len: usize,
}

impl Scratch {
    /// So many bytes at least.
    pub(crate) fn new(len: usize) -> Result<Scratch, Errno> {
        let access = (libc::PROT_READ | libc::PROT_WRITE) as usize;
        let kind = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as usize;
        let arguments = [0, len, access, kind, usize::MAX, 0];
        // SAFETY: a new mapping, where the kernel likes it (S22).
        let start = unsafe { next::system(libc::SYS_mmap, arguments)? };
        Ok(Scratch { start, len })
    }

    /// Where byte `at` is; it is within the mapping.
    pub(crate) fn place(&self, at: usize) -> *mut u8 {
        assert!(at <= self.len, "byte {at} of {}", self.len);
        (self.start + at) as *mut u8
    }

    /// How many bytes there are.
    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // SAFETY: our own mapping, of which nothing is borrowed (S22).
        let _ = unsafe { next::system(libc::SYS_munmap, [self.start, self.len, 0, 0, 0, 0]) };
    }
}

//! Memory for one call: stacks may be small, malloc may be the caller, and is not allowed after
//! fork.

use crate::errno::Errno;
use crate::next;

/// A mapping of zeros, unmapped on drop.
pub(crate) struct Scratch {
    start: usize,
    len: usize,
}

impl Scratch {
    pub(crate) fn new(len: usize) -> Result<Scratch, Errno> {
        let access = (libc::PROT_READ | libc::PROT_WRITE) as usize;
        let kind = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as usize;
        let arguments = [0, len, access, kind, usize::MAX, 0];
        // SAFETY: a new mapping at the kernel's choice (S22).
        let start = unsafe { next::system(libc::SYS_mmap, arguments)? };
        Ok(Scratch { start, len })
    }

    pub(crate) fn place(&self, at: usize) -> *mut u8 {
        assert!(at <= self.len, "byte {at} of {}", self.len);
        (self.start + at) as *mut u8
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // SAFETY: this value's own mapping, without borrows (S22).
        let _ = unsafe { next::system(libc::SYS_munmap, [self.start, self.len, 0, 0, 0, 0]) };
    }
}

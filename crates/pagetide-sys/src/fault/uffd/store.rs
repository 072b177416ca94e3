//! A store that waits in another process.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use super::abi::{
    IOC_CONTINUE, IOC_WRITEPROTECT, PagesArgument, ProtectArgument, RangeArgument, ioctl,
};
use crate::memory::frames::FRAME_BYTES;

/// A store to a page of a memory file, by a process that has it mapped, registered, and protected.
#[derive(Clone, Copy, Debug)]
pub struct StoreFault<'u> {
    uffd: BorrowedFd<'u>,
    address: u64,
}

impl<'u> StoreFault<'u> {
    /// One at an address of the process that has sent us its userfaultfd.
    pub fn new(uffd: BorrowedFd<'u>, address: u64) -> StoreFault<'u> {
        StoreFault { uffd, address: address & !(FRAME_BYTES as u64 - 1) }
    }

    /// Lets the process store to the page there, which is in the memory file. Where that fails the
    /// process has ended, or has other things there, and its thread looks again.
    pub(crate) fn allow(&self) -> io::Result<()> {
        let range = RangeArgument { start: self.address, len: FRAME_BYTES as u64 };
        loop {
            let mut pages = PagesArgument { range, mode: 0, done: 0 };
            // SAFETY: S9 (the argument's layout): it is another process's memory that changes.
            let mapped = unsafe { ioctl(self.uffd.as_raw_fd(), IOC_CONTINUE, &mut pages) };
            let result = match mapped {
                Err(error) if error.raw_os_error() == Some(libc::EEXIST) => {
                    let mut protect = ProtectArgument { range, mode: 0 };
                    // SAFETY: S9, as above.
                    unsafe { ioctl(self.uffd.as_raw_fd(), IOC_WRITEPROTECT, &mut protect) }
                }
                result => result,
            };
            match result {
                // The mapping was being changed meanwhile.
                Err(error) if error.raw_os_error() == Some(libc::EAGAIN) => {
                    std::thread::yield_now();
                }
                result => return result,
            }
        }
    }
}

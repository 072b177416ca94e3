//! A store that waits in another process.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use super::abi::{
    IOC_CONTINUE, IOC_WRITEPROTECT, PagesArgument, ProtectArgument, RangeArgument, ioctl,
};
use crate::memory::frames::FRAME_BYTES;

/// A store by another process to a mapped, registered and protected page of a memory file.
#[derive(Clone, Copy, Debug)]
pub struct StoreFault<'u> {
    uffd: BorrowedFd<'u>,
    address: u64,
}

impl<'u> StoreFault<'u> {
    /// Makes a fault at an address of the process that sent its userfaultfd.
    pub fn new(uffd: BorrowedFd<'u>, address: u64) -> StoreFault<'u> {
        StoreFault { uffd, address: address & !(FRAME_BYTES as u64 - 1) }
    }

    /// Lets the process store to the page, which is in the memory file. On failure, the process has
    /// ended or unmapped the page, and its thread retries.
    pub(crate) fn allow(&self) -> io::Result<()> {
        let range = RangeArgument { start: self.address, len: FRAME_BYTES as u64 };
        loop {
            let mut pages = PagesArgument { range, mode: 0, done: 0 };
            // SAFETY: S9 (the argument's layout). The call changes another process's memory.
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
                // The mapping was changing meanwhile.
                Err(error) if error.raw_os_error() == Some(libc::EAGAIN) => {
                    std::thread::yield_now();
                }
                result => return result,
            }
        }
    }
}

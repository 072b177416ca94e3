//! Memory that one thread shares with the server, between two guard pages.
//!
//! **Data and invariants.** The server makes the memory file for a thread's socket. Forked children
//! do not get the mapping. A mapping whose socket the program has closed is no longer served.
//!
//! Source: mmap(2), madvise(2) `MADV_DONTFORK`.

use super::socket_number;
use crate::{next, own};
use libc::c_int;
use pagetide_run::wire::PAGE_BYTES;

#[derive(Clone, Copy)]
pub(crate) struct Mapping {
    process: u64,
    /// The socket of the request for the memory.
    socket: u32,
    /// The address, null for none.
    pub(crate) start: *mut u8,
    len: usize,
}

impl Mapping {
    pub(crate) const NONE: Mapping =
        Mapping { process: 0, socket: 0, start: std::ptr::null_mut(), len: 0 };

    /// Maps the first `len` bytes of the file for this thread, and closes the file.
    pub(crate) fn new(file: c_int, len: usize) -> Option<Mapping> {
        let start = map(file, len);
        own::close(file);
        let (process, socket) = (own::number(), socket_number());
        Some(Mapping { process, socket, start: start?, len })
    }

    pub(crate) fn is_own(&self) -> bool {
        !self.start.is_null() && self.process == own::number()
    }

    pub(crate) fn is_in_use(&self) -> bool {
        self.is_own() && self.socket == socket_number()
    }

    /// Unmaps the memory of this process. The caller forgets the value.
    pub(crate) fn release(self) {
        if self.is_own() {
            unmap(self.start.wrapping_sub(PAGE_BYTES) as usize, self.len);
        }
    }
}

fn map(file: c_int, len: usize) -> Option<*mut u8> {
    let kind = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as usize;
    let whole = len + 2 * PAGE_BYTES;
    let arguments = [0, whole, libc::PROT_NONE as usize, kind, usize::MAX, 0];
    // SAFETY: a new mapping at the kernel's choice (S22).
    let base = unsafe { next::system(libc::SYS_mmap, arguments) }.ok()?;
    let start = base + PAGE_BYTES;
    let access = (libc::PROT_READ | libc::PROT_WRITE) as usize;
    let kind = (libc::MAP_SHARED | libc::MAP_FIXED) as usize;
    let arguments = [start, len, access, kind, file as usize, 0];
    // SAFETY: inside the mapping just made, which it replaces (S22).
    let mapped = unsafe { next::system(libc::SYS_mmap, arguments) };
    let arguments = [start, len, libc::MADV_DONTFORK as usize, 0, 0, 0];
    // SAFETY: the mapping just made (S22).
    if mapped.is_ok() && unsafe { next::system(libc::SYS_madvise, arguments) }.is_ok() {
        return Some(start as *mut u8);
    }
    unmap(base, len);
    None
}

fn unmap(base: usize, len: usize) {
    let arguments = [base, len + 2 * PAGE_BYTES, 0, 0, 0, 0];
    // SAFETY: a mapping of the library, with no address in any thread (S22).
    let _ = unsafe { next::system(libc::SYS_munmap, arguments) };
}

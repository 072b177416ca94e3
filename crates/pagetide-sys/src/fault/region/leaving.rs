//! Pages that leave a region's user together, whose bytes are not needed any more.
//!
//! **Problem.** To take a page out of a mapping, every CPU that runs the user is made to forget its
//! address, which costs more than all else of an eviction.
//!
//! **Idea.** `process_madvise` takes many ranges, and has the other CPUs forget them all at once.
//!
//! **Ignored.** Kernels before 6.13, which refuse it, and those in between, which do that a range at
//! a time: pages leave one by one there.
//!
//! Source: process_madvise(2), pidfd_open(2).

use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr;

use rustix::process::{PidfdFlags, getpid, pidfd_open};

use crate::memory::frames::FrameMemory;

/// What takes pages away.
pub(super) struct Leaving {
    /// This process, as the call wants to be told.
    process: Option<OwnedFd>,
}

/// Ranges of one call.
const TOGETHER: usize = 32;

impl Leaving {
    pub(super) fn new() -> Leaving {
        Leaving { process: pidfd_open(getpid(), PidfdFlags::empty()).ok() }
    }

    /// Takes `pages` out of `memory`; returns whether all of them are gone.
    ///
    /// # Safety
    /// S25: the caller has the pages locked, and their bytes are not needed.
    pub(super) unsafe fn empty_all(&self, memory: &FrameMemory, pages: &[u32]) -> bool {
        pages.chunks(TOGETHER).all(|part| {
            // SAFETY: S25, by the caller's word.
            let empty = |page: u32| unsafe { memory.empty(page..page + 1) };
            // SAFETY: S25, by the caller's word.
            let are_gone = unsafe { self.empty_at_once(memory, part) };
            are_gone || part.iter().all(|page| empty(*page).is_ok())
        })
    }

    /// # Safety
    /// As of [`Leaving::empty_all`].
    unsafe fn empty_at_once(&self, memory: &FrameMemory, pages: &[u32]) -> bool {
        let Some(process) = &self.process else { return false };
        let mut ranges = [libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 }; TOGETHER];
        let (mut nr, mut nr_bytes) = (0, 0);
        for &page in pages {
            let place = memory.addresses(page..page + 1);
            nr_bytes += place.len();
            match ranges[..nr].last_mut() {
                Some(last) if last.iov_base.addr() + last.iov_len == place.start => {
                    last.iov_len += place.len();
                }
                _ => {
                    let iov_base = ptr::with_exposed_provenance_mut(place.start);
                    ranges[nr] = libc::iovec { iov_base, iov_len: place.len() };
                    nr += 1;
                }
            }
        }
        let (process, advice) = (process.as_raw_fd(), libc::MADV_DONTNEED);
        // SAFETY: S24, S25 (the ranges are whole pages of the mapping, which are the caller's), S26
        // (live values of the layout that the manual page says).
        let result = unsafe {
            libc::syscall(libc::SYS_process_madvise, process, ranges.as_ptr(), nr, advice, 0)
        };
        usize::try_from(result) == Ok(nr_bytes)
    }
}

//! Batched removal of pages from a mapping.
//!
//! **Problem.** Unmapping a page makes every CPU that runs the user flush its translation: up to 17
//! us on a virtual machine, the largest cost of an eviction.
//!
//! **Idea.** `process_madvise` flushes many ranges together. A [pipe](PagePipe) holds the pages
//! that are still needed, including racing stores.
//!
//! **Ignored.** Kernels before 6.13 refuse the call, so pages leave one by one. Kernels before 6.16
//! flush per range. A process that enables page merging (KSM, `PR_SET_MEMORY_MERGE`) after it made
//! regions.
//!
//! Source: process_madvise(2), pidfd_open(2).

use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr;
use std::sync::Mutex;

use rustix::mm::{Advice, madvise};
use rustix::process::{PidfdFlags, getpid, pidfd_open};

use crate::fault::page_pipe::PagePipe;
use crate::memory::frames::FRAME_BYTES;

pub(super) struct Leaving {
    process: Option<OwnedFd>,
    pipe: Option<Mutex<PagePipe>>,
}

/// Ranges per call.
const TOGETHER: usize = 64;

const NOTHING: libc::iovec = libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 };

impl Leaving {
    pub(super) fn new() -> Leaving {
        let process = pidfd_open(getpid(), PidfdFlags::empty()).ok();
        Leaving { process, pipe: PagePipe::of_memory().ok().map(Mutex::new) }
    }

    /// Frees the memory of the ranges. Returns true if all of it was freed.
    ///
    /// # Safety
    /// The ranges are whole pages of user mappings and frames that the caller holds (S25, S4),
    /// without needed bytes.
    pub(super) unsafe fn empty_all(&self, ranges: impl Iterator<Item = Range<usize>>) -> bool {
        let (mut part, mut nr, mut are_gone) = ([NOTHING; TOGETHER], 0, true);
        for range in ranges {
            if let Some(last) = part[..nr].last_mut()
                && last.iov_base.addr() + last.iov_len == range.start
            {
                last.iov_len += range.len();
                continue;
            }
            if nr == part.len() {
                // SAFETY: S4, S25, by the caller's word.
                are_gone &= unsafe { self.empty(&part) };
                nr = 0;
            }
            let iov_base = ptr::with_exposed_provenance_mut(range.start);
            part[nr] = libc::iovec { iov_base, iov_len: range.len() };
            nr += 1;
        }
        // SAFETY: S4, S25, by the caller's word.
        unsafe { self.empty(&part[..nr]) && are_gone }
    }

    /// Removes pages, and copies their last bytes to the targets. Returns the number of pages
    /// taken, up to the pipe's capacity and the first absent page. Panics if the kernel refuses.
    ///
    /// # Safety
    /// As of [`Leaving::empty_all`], except that the bytes are kept. The targets are as many whole
    /// pages of frames that the caller holds (S4).
    pub(super) unsafe fn take_all(
        &self,
        sources: impl Iterator<Item = Range<usize>>,
        targets: impl Iterator<Item = Range<usize>>,
    ) -> usize {
        // After a panic, the pipe may still hold pages.
        let Some(Ok(pipe)) = self.pipe.as_ref().map(Mutex::lock) else { return 0 };
        let (mut from, mut to, mut nr) = ([NOTHING; TOGETHER], [NOTHING; TOGETHER], 0);
        let vector = |range: Range<usize>| libc::iovec {
            iov_base: ptr::with_exposed_provenance_mut(range.start),
            iov_len: range.len(),
        };
        for (source, target) in sources.zip(targets).take(TOGETHER.min(pipe.nr_pages())) {
            (from[nr], to[nr]) = (vector(source), vector(target));
            nr += 1;
        }
        // SAFETY: S24, S25, by the caller's word.
        let nr_held = unsafe { pipe.hold_memory(&from[..nr]) } / FRAME_BYTES;
        if nr_held == 0 {
            return 0;
        }
        // SAFETY: S25, by the caller's word: the pipe has the bytes.
        let are_gone = unsafe { self.empty(&from[..nr_held]) };
        assert!(are_gone, "S25: what cannot be unmapped cannot be called unmapped");
        // SAFETY: S4, by the caller's word.
        let read = unsafe { pipe.read_to(&to[..nr_held]) };
        read.expect("S25: the pipe holds as many pages");
        nr_held
    }

    /// # Safety
    /// As of [`Leaving::empty_all`].
    unsafe fn empty(&self, ranges: &[libc::iovec]) -> bool {
        // SAFETY: S4, S25, by the caller's word.
        if ranges.len() > 1 && unsafe { self.empty_at_once(ranges) } {
            return true;
        }
        ranges.iter().all(|range| {
            // SAFETY: S4, S25, by the caller's word.
            unsafe { madvise(range.iov_base, range.iov_len, Advice::LinuxDontNeed) }.is_ok()
        })
    }

    /// # Safety
    /// As of [`Leaving::empty_all`].
    unsafe fn empty_at_once(&self, ranges: &[libc::iovec]) -> bool {
        let Some(process) = &self.process else { return false };
        let (process, advice) = (process.as_raw_fd(), libc::MADV_DONTNEED);
        let (first, nr) = (ranges.as_ptr(), ranges.len());
        // SAFETY: S4, S25, by the caller's word, S9 (live values with the layout of the manual
        // page).
        let result =
            unsafe { libc::syscall(libc::SYS_process_madvise, process, first, nr, advice, 0) };
        usize::try_from(result) == Ok(ranges.iter().map(|range| range.iov_len).sum())
    }
}

//! Memory that leaves its place in many places at once: for other places, or not needed any more.
//!
//! **Problem.** To take a page out of a mapping, every CPU that runs the user is made to forget its
//! address, which costs more than all else of an eviction: up to 17 us on a virtual machine.
//!
//! **Idea.** `process_madvise` takes many ranges, and has the other CPUs forget them all at once.
//! What is needed, [a pipe](PagePipe) holds meanwhile, with all that was stored to it.
//!
//! **Ignored.** Kernels before 6.13 refuse it, and those before 6.16 have the CPUs forget a range
//! at a time: pages leave one by one there. A process that has the kernel merge its memory (KSM,
//! `PR_SET_MEMORY_MERGE`) only once it has regions, whose memory says before that it is not to be.
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

/// What takes memory away.
pub(super) struct Leaving {
    /// This process, as the call wants to be told.
    process: Option<OwnedFd>,
    /// Where the kernel holds pages by one.
    pipe: Option<Mutex<PagePipe>>,
}

/// Ranges of one call.
const TOGETHER: usize = 64;

const NOTHING: libc::iovec = libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 };

impl Leaving {
    pub(super) fn new() -> Leaving {
        let process = pidfd_open(getpid(), PidfdFlags::empty()).ok();
        Leaving { process, pipe: PagePipe::of_memory().ok().map(Mutex::new) }
    }

    /// Takes the memory of these ranges away; returns whether all of it is gone.
    ///
    /// # Safety
    /// They are whole pages of user mappings and frames that are the caller's (S25, S4), whose
    /// bytes are not needed.
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

    /// Takes pages away, and puts their last bytes into others; returns how many, as many as are
    /// held together, up to the first that is not there. Panics if the kernel refuses.
    ///
    /// # Safety
    /// As of [`Leaving::empty_all`], but for the bytes; the targets are whole pages of frames that
    /// are the caller's (S4), as many.
    pub(super) unsafe fn take_all(
        &self,
        sources: impl Iterator<Item = Range<usize>>,
        targets: impl Iterator<Item = Range<usize>>,
    ) -> usize {
        // After a panic the pipe may hold pages still.
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
        // SAFETY: S4, S25, by the caller's word, S9 (live values of the layout that the manual
        // page says).
        let result =
            unsafe { libc::syscall(libc::SYS_process_madvise, process, first, nr, advice, 0) };
        usize::try_from(result) == Ok(ranges.iter().map(|range| range.iov_len).sum())
    }
}

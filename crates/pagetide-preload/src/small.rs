//! Small read-only files are left to the kernel without asking the server.
//!
//! **Problem.** Asking costs more than reading, but the kernel's cache is outside the limit.
//! **Idea.** A process may leave a share of the limit in the kernel's page cache. Beyond that, a
//! file that was not cached at its opening is dropped when closed. If the file is managed, the open
//! breaks the lease.
//!
//! **Ignored.** Kernels without cachestat(2), descriptors that are never closed, concurrent
//! readers.
//!
//! Source: cachestat(2), posix_fadvise(2).

use crate::table::Entry;
use crate::{next, process};
use libc::c_int;
use pagetide_run::wire::SHORT_FILE_BYTES;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The share of the limit is 1 / PART.
const PART: u64 = 16;
const SYS_CACHESTAT: libc::c_long = 451;

static NR_BYTES: AtomicU64 = AtomicU64::new(0);

#[repr(C)]
#[derive(Default)]
struct Counts {
    nr_cached: u64,
    nr_dirty: u64,
    nr_written_back: u64,
    nr_evicted: u64,
    nr_evicted_recently: u64,
}

pub(crate) fn is_small(stat: &libc::stat, flags: c_int) -> bool {
    let is_only_read = flags & libc::O_ACCMODE == libc::O_RDONLY && flags & libc::O_TRUNC == 0;
    is_only_read && stat.st_size as u64 <= SHORT_FILE_BYTES
}

pub(crate) fn opened(fd: c_int, stat: &libc::stat) -> Entry {
    let len = stat.st_size as u64;
    let nr_bytes = NR_BYTES.fetch_add(len, Relaxed).saturating_add(len);
    if len > 0 && nr_bytes > process::limit() / PART && nr_cached(fd) == Some(0) {
        return Entry::Passing;
    }
    Entry::Kernel
}

/// Returns the number of the file's pages in the kernel's page cache, `None` if unknown.
pub(crate) fn nr_cached(fd: c_int) -> Option<u64> {
    let (whole, mut counts) = ([0_u64; 2], Counts::default());
    let (whole, to) = (process::address(&whole), std::ptr::from_mut(&mut counts) as usize);
    let arguments = [fd as usize, whole, to, 0, 0, 0];
    // SAFETY: a range and counts that live through the call (S20).
    unsafe { next::system(SYS_CACHESTAT, arguments) }.ok()?;
    Some(counts.nr_cached)
}

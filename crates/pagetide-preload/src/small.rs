//! Small read-only files are left to the kernel without asking the server.
//!
//! **Problem.** Asking costs more than reading, but the kernel's cache is outside the limit.
//! **Idea.** If a file is not cached at its opening, the library reports the path to the server,
//! which drops the file's pages when all small files exceed their part of the limit. Pages of a
//! file without a path that the server can follow are dropped at close. If the file is managed, the
//! open breaks the lease.
//!
//! **Ignored.** Kernels without cachestat(2), descriptors that are never closed, concurrent
//! readers.
//!
//! Source: cachestat(2), posix_fadvise(2).

use crate::table::Entry;
use crate::{next, process, small_reports};
use libc::c_int;
use pagetide_run::wire::SHORT_FILE_BYTES;

const SYS_CACHESTAT: libc::c_long = 451;

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

/// Reports a file that was opened, unless it was cached before.
pub(crate) fn opened(fd: c_int, stat: &libc::stat) -> Entry {
    let len = stat.st_size as u64;
    let is_known = len == 0 || nr_cached(fd) != Some(0) || small_reports::add(fd, stat, len, false);
    if is_known { Entry::Kernel } else { Entry::Passing }
}

/// Drops the clean pages of an open file.
pub(crate) fn drop_pages(fd: c_int) {
    // SAFETY: all arguments are numbers (S20).
    unsafe { next::posix_fadvise64(fd, 0, 0, libc::POSIX_FADV_DONTNEED) };
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

//! Small files that are only read: the kernel's, without asking the server.
//!
//! **Problem.** To ask costs more than to read them, and most are read once; but what the kernel
//! caches of them is outside the limit. **Idea.** A process may leave so many bytes of them in the
//! kernel's page cache; beyond that, it takes back what it has brought there: a file of which the
//! kernel had nothing when it was opened is dropped when it is closed.
//!
//! Coherent all the same: if the file is ours, the open breaks the lease, and it is the kernel's.
//!
//! **Ignored.** Kernels without cachestat(2), where nothing is dropped; files that are read through
//! a descriptor that is not closed; two processes that read one file at a time.
//!
//! Source: cachestat(2), posix_fadvise(2).

use crate::table::Entry;
use crate::{next, process};
use libc::c_int;
use pagetide_run::wire::SHORT_FILE_BYTES;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Of the run's limit, a process leaves this part in the kernel's page cache.
const PART: u64 = 16;
const SYS_CACHESTAT: libc::c_long = 451;

/// Bytes of small files that this process has opened.
static NR_BYTES: AtomicU64 = AtomicU64::new(0);

/// What cachestat(2) fills in.
#[repr(C)]
#[derive(Default)]
struct Counts {
    nr_cached: u64,
    nr_dirty: u64,
    nr_written_back: u64,
    nr_evicted: u64,
    nr_evicted_recently: u64,
}

/// Whether a file that is opened with `flags` is left to the kernel.
pub(crate) fn is_small(stat: &libc::stat, flags: c_int) -> bool {
    let is_only_read = flags & libc::O_ACCMODE == libc::O_RDONLY && flags & libc::O_TRUNC == 0;
    is_only_read && stat.st_size as u64 <= SHORT_FILE_BYTES
}

/// What the descriptor of a small file is, that was just opened.
pub(crate) fn opened(fd: c_int, stat: &libc::stat) -> Entry {
    let len = stat.st_size as u64;
    let nr_bytes = NR_BYTES.fetch_add(len, Relaxed).saturating_add(len);
    if len > 0 && nr_bytes > process::limit() / PART && nr_cached(fd) == Some(0) {
        return Entry::Passing;
    }
    Entry::Kernel
}

/// Pages of the file that the kernel has; `None` where it does not say.
fn nr_cached(fd: c_int) -> Option<u64> {
    let (whole, mut counts) = ([0_u64; 2], Counts::default());
    let (whole, to) = (process::address(&whole), std::ptr::from_mut(&mut counts) as usize);
    let arguments = [fd as usize, whole, to, 0, 0, 0];
    // SAFETY: a range and counts that live through the call (S20).
    unsafe { next::system(SYS_CACHESTAT, arguments) }.ok()?;
    Some(counts.nr_cached)
}

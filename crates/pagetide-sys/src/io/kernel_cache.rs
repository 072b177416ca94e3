//! What the kernel's page cache holds of a file.
//!
//! Problem: a program that compares itself with the kernel's page cache must know which of its
//! reads the kernel answered from memory. `preadv2(RWF_NOWAIT)` starts the very read it reports as
//! a miss, so asking that way changes the answer. `cachestat` only looks:
//!
//! ```text
//!   file   [0.......|####....|########|........]     # = in the kernel's page cache
//!   query           ^ offset, len ^                  -> pages cached, dirty, under write-back
//! ```
//!
//! Data: one call, one answer; nothing is kept. The answer is a snapshot: another thread may evict
//! a counted page before the caller reads it.
//!
//! Ignored: files on hugetlbfs (the kernel refuses them), kernels before 6.5 (they say `ENOSYS`).
//!
//! Source: cachestat(2), Linux 6.5.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// The system call's number; the same on every architecture, and newer than Debian 12's headers.
const SYS_CACHESTAT: libc::c_long = 451;

/// What the kernel's page cache holds of a range of a file, in base pages.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[repr(C)]
pub struct KernelCache {
    /// Pages in the cache.
    pub nr_cached: u64,
    /// Pages that wait for write-back.
    pub nr_dirty: u64,
    /// Pages being written back.
    pub nr_writeback: u64,
    /// Pages evicted, of which the kernel still knows.
    pub nr_evicted: u64,
    /// Pages evicted so recently that reading them now would count as a refault in the working set.
    pub nr_recently_evicted: u64,
}

#[repr(C)]
struct Range {
    offset: u64,
    len: u64,
}

/// Reads what the kernel's page cache holds of `len` bytes of `file` from `offset` on.
///
/// `len` 0 means to the end of the file.
///
/// # Errors
/// `ENOSYS` before Linux 6.5; `EPERM` for a file the caller may neither write nor owns;
/// `EOPNOTSUPP` for a file system without a page cache of this kind.
///
/// # Cost
/// One system call, about 0.3 us, plus the walk over the range.
pub fn read_kernel_cache(file: impl AsFd, offset: u64, len: u64) -> io::Result<KernelCache> {
    let range = Range { offset, len };
    let mut answer = KernelCache::default();
    // SAFETY: S9 (both structs live until the call returns, and have cachestat(2)'s layout; any
    // five words are an answer).
    let status = unsafe {
        libc::syscall(
            SYS_CACHESTAT,
            file.as_fd().as_raw_fd(),
            &raw const range,
            &raw mut answer,
            0_u32,
        )
    };
    if status == 0 { Ok(answer) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn pages_just_written_are_in_the_kernels_cache() {
        let mut file = tempfile::tempfile().expect("a temporary file");
        file.write_all(&[7; 8192]).expect("room for two pages");
        match read_kernel_cache(&file, 0, 8192) {
            Ok(answer) => assert_eq!(answer.nr_cached, 2),
            Err(error) => eprintln!("SKIPPED: cachestat is refused here: {error}"),
        }
    }

    #[test]
    fn range_past_the_end_holds_nothing() {
        let file = tempfile::tempfile().expect("a temporary file");
        if let Ok(answer) = read_kernel_cache(&file, 1 << 20, 4096) {
            assert_eq!(answer, KernelCache::default());
        }
    }
}

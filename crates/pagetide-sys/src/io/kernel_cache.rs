//! The pages of a file in the kernel's page cache.
//!
//! Problem: a comparison with the kernel must know which reads hit. `preadv2(RWF_NOWAIT)` starts
//! the read that it reports as a miss, but `cachestat` has no effect:
//!
//! ```text
//!   file   [0.......|####....|########|........]     # = in the kernel's page cache
//!   query           ^ offset, len ^                  -> pages cached, dirty, under write-back
//! ```
//!
//! A run also keeps files small that only the kernel can serve: [`write_back`], and
//! [`read_resident`] for the pages that the run did not bring in.
//!
//! Ignored: files on hugetlbfs (refused), kernels before 6.5 (`ENOSYS`). The answer is a snapshot.
//!
//! Source: cachestat(2), Linux 6.5. sync_file_range(2).

use pagetide_core::units::PAGE_BYTES;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd};

/// The same on all architectures, missing in Debian 12's headers.
const SYS_CACHESTAT: libc::c_long = 451;

/// Counts of a file range in the kernel's page cache, in base pages.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[repr(C)]
pub struct KernelCache {
    /// Pages in the cache.
    pub nr_cached: u64,
    /// Pages waiting for write-back.
    pub nr_dirty: u64,
    /// Pages under write-back.
    pub nr_writeback: u64,
    /// Evicted pages that the kernel remembers.
    pub nr_evicted: u64,
    /// Evicted pages that would count as working set refaults if read now.
    pub nr_recently_evicted: u64,
}

#[repr(C)]
struct Asked {
    offset: u64,
    len: u64,
}

/// Counts the cached pages of `len` bytes of `file` from `offset`, or to the end for `len` 0.
///
/// # Errors
/// Fails with `ENOSYS` before Linux 6.5, with `EPERM` if the caller neither owns nor may write the
/// file, and with `EOPNOTSUPP` if the file system has no such cache.
///
/// # Cost
/// One system call, about 0.3 us, plus the walk over the range.
pub fn read_kernel_cache(file: impl AsFd, offset: u64, len: u64) -> io::Result<KernelCache> {
    let range = Asked { offset, len };
    let mut answer = KernelCache::default();
    // SAFETY: S9 (both structs live until the call returns, and have cachestat(2)'s layout, and any
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

/// Writes back the file's dirty pages in the kernel's page cache. Waits for the pages that are
/// under write-back already, and with `whole` for all of them.
///
/// # Errors
/// Fails with the error of a write-back, or of sync_file_range(2).
pub fn write_back(file: impl AsFd, whole: bool) -> io::Result<()> {
    let after = if whole { libc::SYNC_FILE_RANGE_WAIT_AFTER } else { 0 };
    sync_range(file, libc::SYNC_FILE_RANGE_WAIT_BEFORE | libc::SYNC_FILE_RANGE_WRITE | after)
}

/// Starts the write-back of the file's dirty pages in the kernel's page cache. Waits only for room
/// in the device's queue.
///
/// # Errors
/// As [`write_back`].
pub fn start_write_back(file: impl AsFd) -> io::Result<()> {
    sync_range(file, libc::SYNC_FILE_RANGE_WRITE)
}

fn sync_range(file: impl AsFd, flags: libc::c_uint) -> io::Result<()> {
    // SAFETY: S9 (numbers only).
    let status = unsafe { libc::sync_file_range(file.as_fd().as_raw_fd(), 0, 0, flags) };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Returns the ranges of the file's first `len` bytes with pages in the kernel's page cache, in
/// bytes. After 4,096 system calls, each remaining range with any cached page is reported as a
/// whole. The remaining ranges may include the second half of the file.
///
/// # Errors
/// As [`read_kernel_cache`].
pub fn read_resident(file: impl AsFd, len: u64) -> io::Result<Vec<Range<u64>>> {
    const CALLS_MAX: u32 = 4096;
    let (file, page) = (file.as_fd(), PAGE_BYTES as u64);
    let (mut found, mut nr_calls) = (Vec::<Range<u64>>::new(), 0);
    let whole = 0..len.div_ceil(page);
    let mut left = vec![whole];
    while let Some(pages) = left.pop().filter(|pages| !pages.is_empty()) {
        let nr = pages.end - pages.start;
        let nr_cached = read_kernel_cache(file, pages.start * page, nr * page)?.nr_cached;
        nr_calls += 1;
        if nr_cached == 0 {
            continue;
        }
        if nr_cached < nr && nr_calls < CALLS_MAX {
            let middle = pages.start + nr / 2;
            left.extend([middle..pages.end, pages.start..middle]);
            continue;
        }
        let (start, end) = (pages.start * page, pages.end * page);
        match found.last_mut().filter(|last| last.end == start) {
            Some(last) => last.end = end,
            None => found.push(start..end),
        }
    }
    Ok(found)
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

    #[test]
    fn resident_ranges_are_the_cached_ones() {
        let file = tempfile::tempfile().expect("a temporary file");
        file.set_len(10 << 12).expect("a longer file");
        rustix::io::pwrite(&file, &[7; 8192], 4 << 12).expect("room for two pages");
        write_back(&file, true).expect("a healthy disk");
        match read_kernel_cache(&file, 0, 0) {
            Ok(answer) => assert_eq!(answer.nr_dirty, 0),
            Err(error) => return eprintln!("SKIPPED: cachestat is refused here: {error}"),
        }
        let written = 4 << 12..6 << 12;
        assert_eq!(read_resident(&file, 10 << 12).expect("an owned file"), vec![written]);
    }
}

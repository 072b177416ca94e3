//! The kernel's own mapping as atomic words, so that a benchmark runs the same safe code as on a
//! region.
//!
//! Invariants: S28. A touch past the end of a shrunken file ends the process with SIGBUS.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr;
use std::sync::atomic::AtomicU64;

use rustix::mm::{Advice, ProtFlags};

use super::mapped::Mapped;

/// A mapping that the kernel serves. Unmapped on drop.
pub struct KernelMapping(Mapped);

impl KernelMapping {
    /// Maps a file that is open for reading and writing, with `MAP_SHARED`.
    ///
    /// # Errors
    /// Fails with the error of mmap(2): not a mappable file, no access, no memory.
    pub fn of_file(file: &File) -> io::Result<KernelMapping> {
        let len = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
        Mapped::new(file.as_fd(), len, ProtFlags::READ | ProtFlags::WRITE).map(KernelMapping)
    }

    /// Maps private zeros on small pages, none of them present.
    ///
    /// # Errors
    /// Fails with the error of mmap(2): no memory.
    pub fn anonymous(len: usize) -> io::Result<KernelMapping> {
        let mapped = Mapped::anonymous(len)?;
        mapped.advise(Advice::LinuxNoHugepage)?;
        Ok(KernelMapping(mapped))
    }

    /// Stops readahead.
    ///
    /// # Errors
    /// Fails with the error of madvise(2).
    pub fn expect_random(&self) -> io::Result<()> {
        self.0.advise(Advice::Random)
    }

    /// Returns the whole mapping. Its words may change at any time.
    pub fn words(&self) -> &[AtomicU64] {
        self.0.words()
    }
}

/// Maps a file read-only, `MAP_SHARED`, until the process ends. Calls the C library by name, so
/// that a preloaded library can interpose. A store ends the process with SIGSEGV. `is_random` stops
/// readahead.
///
/// # Errors
/// Fails with the error of mmap(2) or madvise(2): not a mappable file, no access, no memory.
pub fn map_by_library(file: &File, is_random: bool) -> io::Result<&'static [AtomicU64]> {
    let len = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
    let (access, kind) = (libc::PROT_READ, libc::MAP_SHARED);
    // SAFETY: S1 (a fresh mapping overlaps nothing): no address is requested.
    let start = unsafe { libc::mmap(ptr::null_mut(), len, access, kind, file.as_raw_fd(), 0) };
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: S28 (the mapping just made): such advice changes no byte of it.
    if is_random && unsafe { libc::madvise(start, len, libc::MADV_RANDOM) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: S28 (mapped, page aligned, of that length, and never unmapped). The words are only
    // loaded.
    Ok(unsafe { std::slice::from_raw_parts(start.cast(), len / size_of::<AtomicU64>()) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::sync::atomic::Ordering::Relaxed;

    #[test]
    fn what_is_stored_is_in_the_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        fs::write(&path, [7; 8192]).expect("a file");
        let file = File::options().read(true).write(true).open(&path).expect("opened");
        let mapping = KernelMapping::of_file(&file).expect("mapped");
        mapping.expect_random().expect("advice");
        assert_eq!(mapping.words().len(), 1024);
        assert_eq!(mapping.words()[512].load(Relaxed), u64::from_ne_bytes([7; 8]));
        mapping.words()[512].store(0, Relaxed);
        assert_eq!(fs::read(&path).expect("read")[4096..][..9], [0, 0, 0, 0, 0, 0, 0, 0, 7]);
    }

    #[test]
    fn what_the_library_maps_is_the_files() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        fs::write(&path, [7; 8192]).expect("a file");
        let words = map_by_library(&File::open(&path).expect("opened"), true).expect("mapped");
        assert!(words.iter().all(|word| word.load(Relaxed) == u64::from_ne_bytes([7; 8])));
        assert_eq!(words.len(), 1024);
    }

    #[test]
    fn anonymous_memory_is_zero_and_takes_stores() {
        let mapping = KernelMapping::anonymous(8192).expect("mapped");
        mapping.words()[1023].store(9, Relaxed);
        let sum: u64 = mapping.words().iter().map(|word| word.load(Relaxed)).sum();
        assert_eq!(sum, 9);
    }
}

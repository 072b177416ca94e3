//! Memory as the kernel maps it, in words: what a region is measured against.
//!
//! Problem: a benchmark has to do to the kernel's mapping exactly what it does to a region's, from
//! safe code. Idea: the same face, atomic words.
//!
//! Invariants: S28. A file that shrinks under its mapping ends a touch past its end with SIGBUS.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr;
use std::sync::atomic::AtomicU64;

use rustix::mm::{Advice, ProtFlags};

use super::mapped::Mapped;

/// A mapping that the kernel serves, unmapped on drop.
pub struct KernelMapping(Mapped);

impl KernelMapping {
    /// Maps a file, open for reading and writing, for loads and stores: `MAP_SHARED`.
    ///
    /// # Errors
    /// What mmap(2) says: no file to be mapped, no access, no room.
    pub fn of_file(file: &File) -> io::Result<KernelMapping> {
        let len = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
        Mapped::new(file.as_fd(), len, ProtFlags::READ | ProtFlags::WRITE).map(KernelMapping)
    }

    /// Zeros of the process's own, on small pages, of which none is there before it is touched.
    ///
    /// # Errors
    /// What mmap(2) says: no room.
    pub fn anonymous(len: usize) -> io::Result<KernelMapping> {
        let mapped = Mapped::anonymous(len)?;
        mapped.advise(Advice::LinuxNoHugepage)?;
        Ok(KernelMapping(mapped))
    }

    /// Has the kernel read no more than what is touched.
    ///
    /// # Errors
    /// What madvise(2) says.
    pub fn expect_random(&self) -> io::Result<()> {
        self.0.advise(Advice::Random)
    }

    /// All of it: words that may change at any time.
    pub fn words(&self) -> &[AtomicU64] {
        self.0.words()
    }
}

/// Maps a file to be loaded from, `MAP_SHARED`, until the process ends: by the C library's
/// functions, in whose place a library that is loaded before it may put its own. A store ends the
/// process with SIGSEGV. With `is_random`, advised so.
///
/// # Errors
/// What mmap(2) and madvise(2) say: no file to be mapped, no access, no room.
pub fn map_by_library(file: &File, is_random: bool) -> io::Result<&'static [AtomicU64]> {
    let len = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
    let (access, kind) = (libc::PROT_READ, libc::MAP_SHARED);
    // SAFETY: S1 (a fresh mapping overlaps nothing): no address is asked for.
    let start = unsafe { libc::mmap(ptr::null_mut(), len, access, kind, file.as_raw_fd(), 0) };
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: S28 (the mapping just made): such advice changes no byte of it.
    if is_random && unsafe { libc::madvise(start, len, libc::MADV_RANDOM) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: S28 (mapped, page aligned, so long, and never unmapped); it is only loaded from.
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

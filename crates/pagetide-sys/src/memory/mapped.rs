//! An owned mapping of a file or of private memory, accessed by atomics.
//!
//! **Invariants.** S28: the mapping belongs only to its value, covers only bytes of the file, and
//! the file never shrinks.
//!
//! **Ignored.** The meaning of the bytes, see `shared` and `region`.
//!
//! Source: Linux mmap(2), memfd_create(2), fcntl(2) `F_SEAL_SHRINK`.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64};

use super::addresses;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous};

/// The file can neither shrink nor grow.
pub(crate) fn memory_file(name: &str, len: usize) -> io::Result<OwnedFd> {
    let file = memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    ftruncate(&file, len as u64)?;
    fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW)?;
    Ok(file)
}

/// One mapping, unmapped on drop.
pub(crate) struct Mapped {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: S28 (the mapping belongs to this value): nothing in it is tied to a thread.
unsafe impl Send for Mapped {}
// SAFETY: S28: shared accesses are atomic, or racing copies (S2).
unsafe impl Sync for Mapped {}

impl Mapped {
    /// Maps the first `len` bytes of a file that has them, aligned for huge pages. The address may
    /// be given away, so its provenance is exposed.
    pub(crate) fn new(file: BorrowedFd<'_>, len: usize, access: ProtFlags) -> io::Result<Mapped> {
        let start = addresses::reserve(len, ProtFlags::empty(), MapFlags::NORESERVE)?;
        let mapped = Mapped { start, len };
        let flags = MapFlags::SHARED | MapFlags::FIXED;
        // SAFETY: S28 (the addresses are this value's, and no other code knows them).
        unsafe { mmap(start.as_ptr().cast(), len, access, flags, file, 0) }?;
        start.as_ptr().expose_provenance();
        Ok(mapped)
    }

    pub(crate) fn anonymous(len: usize) -> io::Result<Mapped> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let start = addresses::reserve(len, access, MapFlags::empty())?;
        Ok(Mapped { start, len })
    }

    pub(crate) fn advise(&self, advice: Advice) -> io::Result<()> {
        debug_assert!(matches!(advice, Advice::Random | Advice::LinuxNoHugepage));
        // SAFETY: S28 (the mapping belongs to this value): such advice changes no byte of it.
        unsafe { madvise(self.start.as_ptr().cast(), self.len, advice) }?;
        Ok(())
    }

    pub(crate) fn keep_from_children(self) -> io::Result<Mapped> {
        // SAFETY: S28 (the mapping belongs to this value): this process keeps it as it is.
        unsafe { madvise(self.start.as_ptr().cast(), self.len, Advice::LinuxDontFork) }?;
        Ok(self)
    }

    /// Replaces the mapping by private zeros, for threads that may still read it.
    pub(crate) fn blank(&self) -> io::Result<()> {
        let start = self.start.as_ptr().cast();
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::PRIVATE | MapFlags::FIXED | MapFlags::NORESERVE;
        // SAFETY: S28 (the mapping belongs to this value, and is replaced as a whole): readers
        // expect any bytes (S2).
        unsafe { mmap_anonymous(start, self.len, access, flags) }?;
        Ok(())
    }

    /// Returns the whole mapping, for safe code. Read-only mappings are only loaded.
    #[inline]
    pub(crate) fn words(&self) -> &[AtomicU64] {
        let start = self.start.as_ptr().cast_const().cast();
        // SAFETY: S28 (mapped, page aligned, of that length). All code uses atomics and racing
        // copies (S2), or its own unsafe code.
        unsafe { std::slice::from_raw_parts(start, self.len / size_of::<AtomicU64>()) }
    }

    /// Returns the whole mapping as half words, for files that are accessed in no other way.
    #[inline]
    pub(crate) fn halves(&self) -> &[AtomicU32] {
        let start = self.start.as_ptr().cast_const().cast();
        // SAFETY: S28 (mapped, page aligned, of that length). All code uses atomics of this size.
        unsafe { std::slice::from_raw_parts(start, self.len / size_of::<AtomicU32>()) }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: S28 (the mapping belongs to this value, and slices borrow from it). Code with the
        // address knows its lifetime.
        unsafe { addresses::give_back(self.start.as_ptr(), self.len) };
    }
}

//! A mapping of a file or of a process's own memory, as long as a value lives.
//!
//! **Problem.** Memory that others see too, other processes or the user of a region, is a file
//! that is mapped more than once. **Idea.** One owner for each mapping, and atomics as the way in.
//!
//! **Invariants.** S28: the mapping belongs to its value alone, covers only what the file has, and
//! the file never shrinks.
//!
//! **Ignored.** What the memory means; that is its owner's (`shared`, `region`).
//!
//! Source: Linux mmap(2), memfd_create(2), fcntl(2) `F_SEAL_SHRINK`.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use super::addresses;
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous};

/// A memory file of `len` bytes, all zero, that can neither shrink nor grow.
pub(crate) fn memory_file(name: &str, len: usize) -> io::Result<OwnedFd> {
    let file = memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
    ftruncate(&file, len as u64)?;
    fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW)?;
    Ok(file)
}

/// One mapping of a memory file from its start, unmapped on drop.
pub(crate) struct Mapped {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: S28 (the mapping belongs to this value): nothing in it is tied to a thread.
unsafe impl Send for Mapped {}
// SAFETY: S28: what is shared of it is atomics, or read by copies that may race (S2).
unsafe impl Sync for Mapped {}

impl Mapped {
    /// Maps the first `len` bytes, which the file has, where huge pages of the file can be mapped
    /// as such. The address may be given away: its provenance is exposed.
    pub(crate) fn new(file: BorrowedFd<'_>, len: usize, access: ProtFlags) -> io::Result<Mapped> {
        let start = addresses::reserve(len, ProtFlags::empty(), MapFlags::NORESERVE)?;
        let mapped = Mapped { start, len };
        let flags = MapFlags::SHARED | MapFlags::FIXED;
        // SAFETY: S28 (the addresses are this value's, and nothing else was told of them).
        unsafe { mmap(start.as_ptr().cast(), len, access, flags, file, 0) }?;
        start.as_ptr().expose_provenance();
        Ok(mapped)
    }

    /// Maps zeros of this process's own.
    pub(crate) fn anonymous(len: usize) -> io::Result<Mapped> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let start = addresses::reserve(len, access, MapFlags::empty())?;
        Ok(Mapped { start, len })
    }

    /// Tells the kernel how it will be used: advice that changes no byte.
    pub(crate) fn advise(&self, advice: Advice) -> io::Result<()> {
        debug_assert!(matches!(advice, Advice::Random | Advice::LinuxNoHugepage));
        // SAFETY: S28 (the mapping belongs to this value): such advice changes no byte of it.
        unsafe { madvise(self.start.as_ptr().cast(), self.len, advice) }?;
        Ok(())
    }

    /// No child gets it by fork.
    pub(crate) fn keep_from_children(self) -> io::Result<Mapped> {
        // SAFETY: S28 (the mapping belongs to this value): this process keeps it as it is.
        unsafe { madvise(self.start.as_ptr().cast(), self.len, Advice::LinuxDontFork) }?;
        Ok(self)
    }

    /// Puts zeros that nothing else has in its place, for threads that may still look at it.
    pub(crate) fn blank(&self) -> io::Result<()> {
        let start = self.start.as_ptr().cast();
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::PRIVATE | MapFlags::FIXED | MapFlags::NORESERVE;
        // SAFETY: S28 (the mapping belongs to this value, and is replaced as a whole): what looks
        // at it expects any bytes (S2).
        unsafe { mmap_anonymous(start, self.len, access, flags) }?;
        Ok(())
    }

    /// All of it, for safe code. What is mapped read-only is only loaded.
    #[inline]
    pub(crate) fn words(&self) -> &[AtomicU64] {
        let start = self.start.as_ptr().cast_const().cast();
        // SAFETY: S28 (mapped, page aligned, so long); all code reaches it through atomics and
        // racing copies (S2), or by unsafe code of their own.
        unsafe { std::slice::from_raw_parts(start, self.len / size_of::<AtomicU64>()) }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: S28 (the mapping belongs to this value, and slices borrow from it); code that was
        // given its address was told how long that is good for.
        unsafe { addresses::give_back(self.start.as_ptr(), self.len) };
    }
}

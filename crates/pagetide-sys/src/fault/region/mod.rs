//! The memory of a region: an address range whose pages come and go, and the door behind it.
//!
//! **Problem.** A program wants plain memory: pointers, loads, stores, C code. Its pages must leave
//! when the limit says so, come back when touched, and be read and filled by us in peace while
//! other threads run.
//!
//! **Idea.** A memory file, mapped twice. The *user's* mapping is given away, and registered with
//! userfaultfd: whatever is not mapped there asks us first. The *back door* is ours: through it a
//! page is filled before the user can see it, and copied after the user can no longer write it.
//!
//! ```text
//!   user's mapping   | . | R | W | . | R |      . not mapped   R write-protected   W writable
//!                          |   |       |
//!   memory file      | - | p | p | p | p |      p a page       - a hole
//!                          |   |   |   |
//!   back door        |   |   |   |   |   |      frame memory, a page in the place of a frame
//! ```
//!
//! A frame that holds a region's page is its allowance: the arena gives the frame's own memory back
//! before the page gets any, so that both together are never more than the limit.
//!
//! **Data and invariants.** S24: both mappings live as long as this, are as long as the file, and
//! the user's is reached from here by atomics alone. S25: `access` says the most the user may do to
//! a page without a fault, and is changed by the holder of the page's LOCK alone: raised before the
//! page is mapped, lowered after it was unmapped or protected.
//!
//! **Ignored.** Huge pages. Memory that the kernel has pinned by an address of the user's mapping
//! (a device writing to it): that writes past every fault, and must not be asked for.
//!
//! Source: Linux documentation, "Userfaultfd" (admin-guide/mm/userfaultfd), minor faults.

use std::fmt;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

use once_cell::race::OnceBox;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::mm::{Advice, MprotectFlags, ProtFlags, madvise, mprotect};

use crate::fault::uffd::{Continued, Fault, Uffd, UffdError, UffdFeatures, UffdSource};
use crate::memory::frames::{FRAME_BYTES, FrameMemory};
use crate::memory::mapped::Mapped;

/// The most pages a region has: 2^32 - 1, just under 16 TiB.
pub const REGION_PAGES_MAX: u64 = u32::MAX as u64;

/// Why a region's memory could not be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RegionError {
    /// None, or more than [`REGION_PAGES_MAX`]; ask for a number in between.
    #[error("a region has 1 to {REGION_PAGES_MAX} pages of {FRAME_BYTES} bytes, not {nr_pages}")]
    PageCount {
        /// Pages asked for.
        nr_pages: u64,
    },
    /// Faults cannot be had: the message says what to change.
    #[error(transparent)]
    Uffd(#[from] UffdError),
    /// The kernel refused the file or a mapping of it; ask for less.
    #[error("{nr_pages} pages could not be mapped; ask for less")]
    Refused {
        /// Pages asked for.
        nr_pages: u64,
        /// What the kernel said.
        source: io::Error,
    },
}

impl RegionError {
    /// The kind of [`io::Error`] that says the same.
    pub fn kind(&self) -> io::ErrorKind {
        match self {
            RegionError::PageCount { .. } => io::ErrorKind::InvalidInput,
            RegionError::Uffd(error) => error.kind(),
            RegionError::Refused { source, .. } => source.kind(),
        }
    }
}

impl From<RegionError> for io::Error {
    fn from(error: RegionError) -> io::Error {
        io::Error::new(error.kind(), error)
    }
}

/// What the user of a region may do to a page without a fault.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum UserAccess {
    /// Nothing: it is not mapped.
    None,
    /// Read it: it is mapped write-protected.
    Read,
    /// Read and write it.
    Write,
}

/// An address range, its pages, and its faults. See the module.
///
/// # Concurrency
/// Shared freely. What is done to a page is done through its [`Lock`](crate::Lock).
pub struct RegionMemory {
    user: UserMapping,
    back: FrameMemory,
    uffd: Uffd,
    nr_pages: u32,
    /// A [`UserAccess`] a page, in parts that are made as their pages are first mapped.
    access: Box<[OnceBox<AccessPart>]>,
    /// Readable once handlers are to stop.
    stop: OwnedFd,
    /// Whether the kernel can map a page write-protected.
    maps_protected: AtomicBool,
}

/// Pages of a part of the access bytes: 16 MiB of contents.
const PART_PAGES: usize = 4096;

type AccessPart = [AtomicU8; PART_PAGES];

/// The mapping that is given away.
struct UserMapping(Mapped);

impl RegionMemory {
    /// Maps memory for `nr_pages` pages, all of them holes.
    ///
    /// # Errors
    /// [`RegionError`], with what to change.
    ///
    /// # Cost
    /// Some ten system calls; a byte a page of what is used. Whatever its length, nothing else of
    /// it but addresses is taken before it is touched.
    pub fn new(nr_pages: u64) -> Result<RegionMemory, RegionError> {
        let count = u32::try_from(nr_pages).ok().filter(|count| *count > 0);
        let count = count.ok_or(RegionError::PageCount { nr_pages })?;
        let refused = |source| RegionError::Refused { nr_pages, source };
        let uffd = Uffd::open()?;
        let back = FrameMemory::reserve_shared(count, false).map_err(refused)?;
        back.keep_from_children().map_err(refused)?;
        let len = count as usize * FRAME_BYTES;
        let user = UserMapping::new(&back, len).map_err(refused)?;
        // SAFETY: S24 (the mapping was just made, of the back door's file).
        unsafe { uffd.register(user.range(0..count)) }?;
        let stop = eventfd(0, EventfdFlags::CLOEXEC).map_err(|error| refused(error.into()))?;
        let access = (0..nr_pages.div_ceil(PART_PAGES as u64)).map(|_| OnceBox::new()).collect();
        let maps_protected = AtomicBool::new(true);
        Ok(RegionMemory { user, back, uffd, nr_pages: count, access, stop, maps_protected })
    }

    /// Pages there are.
    pub fn nr_pages(&self) -> u64 {
        self.nr_pages.into()
    }

    /// Where the user's mapping begins. Having the address is no right to what is there.
    pub fn base(&self) -> *mut u8 {
        self.user.base()
    }

    /// The user's mapping, for safe code: a thread that touches what is not mapped waits for
    /// one that serves faults, for ever if there is none.
    pub fn words(&self) -> &[AtomicU64] {
        self.user.0.words()
    }

    /// How faults are had.
    pub fn uffd_source(&self) -> UffdSource {
        self.uffd.source()
    }

    /// What the user may do to a page; it may change at any time, unless the caller has the page
    /// locked or pinned. `None` for pages there are not.
    pub fn access(&self, page: u64) -> UserAccess {
        let part = self.access.get((page / PART_PAGES as u64) as usize).and_then(OnceBox::get);
        let access = part.map(|part| &part[page as usize % PART_PAGES]);
        match access.map_or(0, |access| access.load(Ordering::Acquire)) {
            0 => UserAccess::None,
            1 => UserAccess::Read,
            _ => UserAccess::Write,
        }
    }

    /// The page at an address of the user's mapping.
    pub fn page_at(&self, address: usize) -> Option<u64> {
        let offset = address.checked_sub(self.base().addr())?;
        (offset < self.user.0.len()).then_some((offset / FRAME_BYTES) as u64)
    }

    /// Waits for faults, and calls `each` for those this thread got. `false` once
    /// [`RegionMemory::stop`] was called.
    ///
    /// # Errors
    /// What poll(2) or read(2) say.
    pub fn wait_for_faults(&self, each: impl FnMut(Fault)) -> io::Result<bool> {
        let mut waited = [
            PollFd::from_borrowed_fd(self.uffd.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(self.stop.as_fd(), PollFlags::IN),
        ];
        match poll(&mut waited, None) {
            Err(rustix::io::Errno::INTR) => return Ok(true),
            result => result?,
        };
        if !waited[1].revents().is_empty() {
            return Ok(false);
        }
        self.uffd.read_faults(each)?;
        Ok(true)
    }

    /// Has all threads in [`RegionMemory::wait_for_faults`] return, now and later.
    pub fn stop(&self) {
        // The counter cannot be full: each call adds one.
        let _ = rustix::io::write(&self.stop, &1_u64.to_ne_bytes());
    }

    /// Memory that the file holds, bytes: what the region's pages take.
    pub fn count_resident_bytes(&self) -> u64 {
        let file = self.back.file().expect("S24: the back door is of a file");
        // Blocks are of 512 bytes, whatever the file system.
        rustix::fs::fstat(file).map_or(0, |stat| stat.st_blocks as u64 * 512)
    }

    pub(crate) fn back(&self) -> &FrameMemory {
        &self.back
    }

    /// Lets the user read a page that is in the file, or write it, too; wakes threads that wait for
    /// it. Returns what was allowed: writing also where the kernel cannot map for reading alone.
    ///
    /// # Safety
    /// The caller has the page locked (S25), and no slice of it.
    pub(crate) unsafe fn map(&self, page: u32, write: bool) -> Result<UserAccess, UffdError> {
        let range = self.user.range(page..page + 1);
        let before = self.access(page.into());
        let write = write || before == UserAccess::Write;
        if before == UserAccess::Read && write {
            self.note(page, UserAccess::Write);
            self.uffd.protect(range, false)?;
            return Ok(UserAccess::Write);
        }
        let write = write || !self.maps_protected.load(Ordering::Relaxed);
        let wanted = if write { UserAccess::Write } else { UserAccess::Read };
        self.note(page, wanted.max(before));
        match self.uffd.continue_at(range.clone(), write)? {
            Continued::Mapped => {}
            Continued::AlreadyMapped if write => self.uffd.protect(range, false)?,
            Continued::AlreadyMapped => self.uffd.wake(range)?,
            Continued::UnknownMode => {
                self.maps_protected.store(false, Ordering::Relaxed);
                self.note(page, UserAccess::Write);
                self.uffd.continue_at(range, true)?;
                return Ok(UserAccess::Write);
            }
        }
        Ok(wanted.max(before))
    }

    /// Takes pages out of the user's mapping; their contents stay. Panics if the kernel refuses.
    ///
    /// # Safety
    /// The caller has all of them locked (S25).
    pub(crate) unsafe fn unmap(&self, pages: Range<u32>) {
        self.zap(pages.clone());
        pages.for_each(|page| self.note(page, UserAccess::None));
    }

    fn zap(&self, pages: Range<u32>) {
        let range = self.user.range(pages);
        let start = ptr::with_exposed_provenance_mut(range.start);
        // SAFETY: S24 (the range is the user's mapping, of a file that keeps the contents): the
        // next touch asks us.
        let result = unsafe { madvise(start, range.len(), Advice::LinuxDontNeed) };
        result.expect("S25: what cannot be unmapped cannot be called unmapped");
    }

    /// Takes writing away from a page; panics if the kernel refuses.
    ///
    /// # Safety
    /// The caller has the page locked (S25).
    pub(crate) unsafe fn protect(&self, pages: Range<u32>) {
        let result = self.uffd.protect(self.user.range(pages.clone()), true);
        result.expect("S25: what cannot be protected cannot be called protected");
        for page in pages {
            if self.access(page.into()) == UserAccess::Write {
                self.note(page, UserAccess::Read);
            }
        }
    }

    /// Takes a page out of the file, and so out of both mappings: its memory is free.
    ///
    /// # Safety
    /// The caller has the page locked (S25), and owns its contents exclusively (S4).
    pub(crate) unsafe fn punch(&self, page: u32) {
        // SAFETY: S4, by the caller's word.
        if unsafe { self.back.discard(page..page + 1) }.is_err() {
            // The memory is lost until the page comes back; the user must not have it meanwhile.
            self.zap(page..page + 1);
        }
        self.note(page, UserAccess::None);
    }

    /// Has the user's next touch of the page end in a signal: SIGBUS, or SIGSEGV where the kernel
    /// does not know how to poison.
    pub(crate) fn poison(&self, page: u32) {
        let range = self.user.range(page..page + 1);
        let knows_how = self.uffd.features().has(UffdFeatures::POISON);
        if knows_how && self.uffd.poison(range.clone()).is_ok() {
            return;
        }
        let start = ptr::with_exposed_provenance_mut(range.start);
        // SAFETY: S24 (the range is the user's mapping): taking access away changes no contents.
        let _ = unsafe { mprotect(start, range.len(), MprotectFlags::empty()) };
        let _ = self.uffd.wake(range);
    }

    /// Has the memory of a page come from `node`, and moves it there if it has some already; as far
    /// as the kernel likes to.
    pub(crate) fn place(&self, page: u32, node: u32) {
        // The kernel moves what no other process maps: where it refuses, the page stays.
        let _ = self.back.rebind(page..page + 1, node);
    }

    fn note(&self, page: u32, access: UserAccess) {
        let part = &self.access[page as usize / PART_PAGES];
        if access == UserAccess::None && part.get().is_none() {
            return;
        }
        let none = || AtomicU8::new(UserAccess::None as u8);
        let part = part.get_or_init(|| Box::new(std::array::from_fn(|_| none())));
        part[page as usize % PART_PAGES].store(access as u8, Ordering::Release);
    }
}

impl fmt::Debug for RegionMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RegionMemory({} pages at {:p})", self.nr_pages(), self.base())
    }
}

impl UserMapping {
    fn new(back: &FrameMemory, len: usize) -> io::Result<UserMapping> {
        let file = back.file().expect("S24: the back door is of a file");
        let mapped = Mapped::new(file, len, ProtFlags::READ | ProtFlags::WRITE)?;
        for advice in [Advice::LinuxDontFork, Advice::LinuxNoHugepage] {
            // SAFETY: S24 (the range is this mapping); the advice changes no contents.
            let result = unsafe { madvise(mapped.start().as_ptr().cast(), len, advice) };
            // A kernel built without huge pages answers EINVAL to what is only advice.
            if advice == Advice::LinuxDontFork {
                result?;
            }
        }
        Ok(UserMapping(mapped))
    }

    fn base(&self) -> *mut u8 {
        self.0.start().as_ptr()
    }

    /// The addresses of pages; panics when they are not the region's.
    fn range(&self, pages: Range<u32>) -> Range<usize> {
        let (start, end) = (pages.start as usize * FRAME_BYTES, pages.end as usize * FRAME_BYTES);
        assert!(start <= end && end <= self.0.len(), "S24: pages {pages:?} of {}", self.0.len());
        let base = self.base().addr();
        base + start..base + end
    }
}

#[cfg(test)]
mod tests;

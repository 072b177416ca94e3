//! The memory of a region: an address range with pages that are filled on faults and evicted.
//!
//! **Problem.** The program loads and stores anywhere, while the library evicts, fills, reads and
//! writes pages.
//!
//! **Idea.** The *user's mapping* is registered with userfaultfd. A page is filled in its frame,
//! moved or copied into the user's mapping, and moved back before the library writes or evicts it.
//!
//! ```text
//!   user's mapping   | . | R | W | . | R |      . absent   R write-protected   W writable
//!                          |   |       |        moved in, and back: see `lender`
//!   frames           | - | - | p | - | p |      p a page of another region   - a hole
//! ```
//!
//! **Data and invariants.** S24: the user's mapping lives as long as [`RegionMemory`], and is
//! accessed only by atomics and racing copies. S25: `access` holds the user's maximum access to
//! each page, and thereby the place of its bytes. Only the holder of the page's LOCK changes
//! `access`: raised before the page is moved in, lowered after it was moved back or protected.
//!
//! **Ignored.** Device I/O to the user's mapping, which bypasses faults and is forbidden.
//!
//! Source: Linux documentation, "Userfaultfd" (admin-guide/mm/userfaultfd).

use std::fmt;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use once_cell::race::OnceBox;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::mm::{MprotectFlags, mprotect};

use self::lender::UserPlace;
use crate::fault::uffd::{Fault, Uffd, UffdError, UffdFeatures, UffdSource};
use crate::memory::frames::{FRAME_BYTES, FrameMemory};

pub use self::huge::BLOCK_PAGES;
pub use self::lender::FrameLender;

mod huge;
mod leaving;
mod lender;

/// The maximum number of pages of a region: 2^32 - 1, just under 16 TiB.
pub const REGION_PAGES_MAX: u64 = u32::MAX as u64;

/// The reason why a region's memory could not be created.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RegionError {
    /// Zero pages, or more than [`REGION_PAGES_MAX`]. Ask for a number in between.
    #[error("a region has 1 to {REGION_PAGES_MAX} pages of {FRAME_BYTES} bytes, not {nr_pages}")]
    PageCount {
        /// Pages requested.
        nr_pages: u64,
    },
    /// Userfaultfd is not available. The message says how to enable it.
    #[error(transparent)]
    Uffd(#[from] UffdError),
    /// The kernel refused the mapping. Ask for fewer pages.
    #[error("{nr_pages} pages could not be mapped; ask for less")]
    Refused {
        /// Pages requested.
        nr_pages: u64,
        /// The kernel's error.
        source: io::Error,
    },
}

impl RegionError {
    /// Returns the matching [`io::ErrorKind`].
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

/// The user's access to a page without a fault.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum UserAccess {
    /// None. The page is not mapped.
    None,
    /// Read. The page is mapped write-protected.
    Read,
    /// Read and write.
    Write,
}

/// The receiver of a region's faults.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FaultDelivery {
    /// The thread that touched the page, by a signal. A system call that is given the address of an
    /// unmapped page fails with `EFAULT`.
    Signal,
    /// The threads in [`RegionMemory::wait_for_faults`].
    Message,
}

/// An address range, its pages, and its faults. See the module.
///
/// # Concurrency
/// Shared freely. A page is changed only through its [`Lock`](crate::Lock).
pub struct RegionMemory {
    user: FrameMemory,
    lender: Arc<FrameLender>,
    uffd: Uffd,
    delivery: FaultDelivery,
    /// One [`UserAccess`] per page. Parts are allocated when first needed.
    access: Box<[OnceBox<AccessPart>]>,
    /// Readable once waiting threads are to stop.
    stop: OwnedFd,
    /// True if the addresses belong to an `OwnedMemory` (S43).
    is_owned: bool,
}

/// 16 MiB of contents.
const PART_PAGES: usize = 4096;

struct AccessPart {
    pages: [AtomicU8; PART_PAGES],
    /// See `huge`.
    blocks: [AtomicU8; PART_PAGES / BLOCK_PAGES],
}

impl AccessPart {
    fn new() -> AccessPart {
        let none = |_| AtomicU8::new(UserAccess::None as u8);
        AccessPart { pages: std::array::from_fn(none), blocks: std::array::from_fn(none) }
    }

    fn block_of(&self, page: u32) -> &AtomicU8 {
        &self.blocks[page as usize % PART_PAGES / BLOCK_PAGES]
    }
}

impl RegionMemory {
    /// Reserves addresses for `nr_pages` absent pages, to be filled from the lender's frames.
    ///
    /// # Errors
    /// Fails with [`RegionError`], which names the remedy.
    ///
    /// # Cost
    /// About ten system calls, and one byte per page of each used part. Untouched pages take only
    /// addresses.
    pub fn new(
        nr_pages: u64,
        lender: &Arc<FrameLender>,
        delivery: FaultDelivery,
    ) -> Result<RegionMemory, RegionError> {
        let count = u32::try_from(nr_pages).ok().filter(|count| *count > 0);
        let count = count.ok_or(RegionError::PageCount { nr_pages })?;
        let refused = |source| RegionError::Refused { nr_pages, source };
        let uffd = match delivery {
            FaultDelivery::Signal => Uffd::open_for_signals(),
            FaultDelivery::Message => Uffd::open(),
        }?;
        let user = FrameMemory::reserve_thin(count).map_err(refused)?;
        user.keep_from_children().map_err(refused)?;
        // SAFETY: S24 (the mapping was just made, and is private).
        unsafe { uffd.register(user.addresses(0..count)) }?;
        let stop = eventfd(0, EventfdFlags::CLOEXEC).map_err(|error| refused(error.into()))?;
        let access = (0..nr_pages.div_ceil(PART_PAGES as u64)).map(|_| OnceBox::new()).collect();
        Ok(RegionMemory {
            user,
            lender: Arc::clone(lender),
            uffd,
            delivery,
            access,
            stop,
            is_owned: false,
        })
    }

    /// Returns the number of pages.
    pub fn nr_pages(&self) -> u64 {
        self.user.nr_frames().into()
    }

    /// Returns the first address. It gives no right to access the memory.
    pub fn base(&self) -> *mut u8 {
        self.user.frame_ptr(0)
    }

    /// Returns the user's mapping, for safe code. Touching an unmapped page faults. Without a
    /// server, the thread waits for ever, or the process ends.
    ///
    /// # Panics
    /// If the memory belongs to an [`OwnedMemory`](crate::OwnedMemory).
    pub fn words(&self) -> &[AtomicU64] {
        assert!(!self.is_owned, "S43: this memory is reached through its owner alone");
        self.user.cells()
    }

    /// Makes [`RegionMemory::words`] panic.
    pub(super) fn own(&mut self) {
        self.is_owned = true;
    }

    /// Returns the lender of the region's memory.
    pub fn lender(&self) -> &Arc<FrameLender> {
        &self.lender
    }

    /// Returns the receiver of the region's faults.
    pub fn delivery(&self) -> FaultDelivery {
        self.delivery
    }

    /// Returns the source of the userfaultfd.
    pub fn uffd_source(&self) -> UffdSource {
        self.uffd.source()
    }

    /// Returns the user's access to a page, `None` past the end. The access may change at any time
    /// unless the caller has the page locked or pinned.
    pub fn access(&self, page: u64) -> UserAccess {
        let part = self.access.get((page / PART_PAGES as u64) as usize).and_then(OnceBox::get);
        let access = part.map(|part| &part.pages[page as usize % PART_PAGES]);
        match access.map_or(0, |access| access.load(Ordering::Acquire)) {
            0 => UserAccess::None,
            1 => UserAccess::Read,
            _ => UserAccess::Write,
        }
    }

    /// Returns true if mapping the page allocates nothing.
    pub fn is_prepared(&self, page: u64) -> bool {
        let part = self.access.get((page / PART_PAGES as u64) as usize);
        part.is_some_and(|part| part.get().is_some())
    }

    /// Returns the page at an address of the user's mapping.
    pub fn page_at(&self, address: usize) -> Option<u64> {
        let page = address.checked_sub(self.base().addr())? / FRAME_BYTES;
        Some(page as u64).filter(|page| *page < self.nr_pages())
    }

    /// Waits for fault messages, and calls `each` for the received ones. Returns false after
    /// [`RegionMemory::stop`].
    ///
    /// # Errors
    /// Fails with the error of poll(2) or read(2).
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

    /// Makes all present and future calls of [`RegionMemory::wait_for_faults`] return.
    pub fn stop(&self) {
        let _ = rustix::io::write(&self.stop, &1_u64.to_ne_bytes());
    }

    /// Returns the resident bytes of the user's mapping, by `mincore`.
    ///
    /// # Cost
    /// About 10 ns per page of the region.
    pub fn count_mapped_bytes(&self) -> u64 {
        self.user.count_resident_bytes()
    }

    pub(crate) fn user(&self) -> &FrameMemory {
        &self.user
    }

    /// Maps a page, writable if `write` is set, and wakes waiting threads. Returns the user's
    /// access.
    ///
    /// # Safety
    /// The caller has the page locked (S25), and no slice of it. The frame is the page's.
    pub(crate) unsafe fn map(
        &self,
        page: u32,
        frame: u32,
        write: bool,
    ) -> Result<UserAccess, UffdError> {
        let place = self.place(page);
        match self.access(page.into()) {
            UserAccess::None => {
                let access = if write { UserAccess::Write } else { UserAccess::Read };
                self.note(page, access);
                // SAFETY: S25 (by the caller's word).
                let put = unsafe { self.lender.put_in(place, frame, write) };
                return put.map(|()| access).inspect_err(|_| self.note(page, UserAccess::None));
            }
            // Perhaps protected as part of a range.
            UserAccess::Read | UserAccess::Write if write => {
                self.note(page, UserAccess::Write);
                self.note_in_parts(page);
                self.uffd.protect(place.range(), false)?;
            }
            // A late or duplicate fault.
            _ if self.delivery == FaultDelivery::Message => self.uffd.wake(place.range())?,
            _ => {}
        }
        Ok(self.access(page.into()))
    }

    /// Maps consecutive unmapped pages with the bytes at `source`, without writing frames. Returns
    /// the number of pages mapped.
    ///
    /// # Safety
    /// As of [`RegionMemory::map`], for each page. `source` has bytes for all of them.
    pub(crate) unsafe fn fill(&self, pages: Range<u32>, source: usize, write: bool) -> u32 {
        let access = if write { UserAccess::Write } else { UserAccess::Read };
        for page in pages.clone() {
            assert_eq!(
                self.access(page.into()),
                UserAccess::None,
                "S25: filled where it is mapped"
            );
            self.note(page, access);
        }
        let place = (&self.uffd, &self.user);
        // SAFETY: S25 (by the caller's word).
        let nr_done = unsafe { self.lender.fill(place, pages.clone(), source, write) };
        (pages.start + nr_done..pages.end).for_each(|page| self.note(page, UserAccess::None));
        nr_done
    }

    /// As [`RegionMemory::fill`], with the bytes of consecutive frames, which are then emptied. The
    /// pages are in memory twice meanwhile.
    ///
    /// # Safety
    /// As of [`RegionMemory::map`], for each page.
    pub(crate) unsafe fn map_run(&self, pages: Range<u32>, frame: u32, write: bool) -> u32 {
        let frames = frame..frame + pages.len() as u32;
        let source = self.lender.arena().memory().addresses(frames.clone()).start;
        // SAFETY: S25 (by the caller's word): the frames are only read.
        let nr_done = unsafe { self.fill(pages, source, write) };
        // SAFETY: S4, S25 (by the caller's word): the pages are at the user's place now.
        unsafe { self.lender.empty_frames(frames.take(nr_done as usize)) };
        nr_done
    }

    /// Drops read-only pages and the memory of `frames`. Their bytes are lost. Pages stay mapped if
    /// the kernel refuses.
    ///
    /// # Safety
    /// The caller has the pages locked (S25), and the pages in the frames.
    pub(crate) unsafe fn drop_pages(&self, pages: &[u32], frames: &[u32]) {
        pages.iter().for_each(|page| self.split_around(*page));
        // SAFETY: S25 (by the caller's word).
        if unsafe { self.lender.empty_places(&self.user, pages, frames) } {
            pages.iter().for_each(|page| self.note(*page, UserAccess::None));
        }
    }

    /// Moves pages from the user's mapping into their frames. Panics if the kernel refuses.
    ///
    /// # Safety
    /// The caller has the pages locked (S25). The frames are theirs, in the same order.
    pub(crate) unsafe fn unmap_all(&self, pages: &[u32], frames: &[u32]) {
        pages.iter().for_each(|page| self.split_around(*page));
        // SAFETY: S25 (by the caller's word).
        let nr_taken = unsafe { self.lender.take_out_some(&self.user, pages, frames) };
        let (taken, others) = pages.split_at(nr_taken);
        taken.iter().for_each(|page| self.note(*page, UserAccess::None));
        for (page, frame) in others.iter().zip(&frames[nr_taken..]) {
            // SAFETY: S25 (by the caller's word).
            unsafe { self.unmap(*page, *frame) };
        }
    }

    /// Moves a page from the user's mapping into `frame`, if the page is mapped. Panics if the
    /// kernel refuses.
    ///
    /// # Safety
    /// The caller has the page locked (S25). The frame is the page's.
    pub(crate) unsafe fn unmap(&self, page: u32, frame: u32) {
        if self.access(page.into()) != UserAccess::None {
            self.split_around(page);
            // SAFETY: S25 (by the caller's word).
            unsafe { self.lender.take_out(self.place(page), frame) };
            self.note(page, UserAccess::None);
        }
    }

    /// Write-protects pages, given in order, in one call. Panics if the kernel refuses. Stores to
    /// pages between them may fault as well.
    ///
    /// # Safety
    /// The caller has the pages locked (S25).
    pub(crate) unsafe fn protect(&self, pages: impl Iterator<Item = u32> + Clone) {
        let writable = pages.filter(|page| self.access((*page).into()) == UserAccess::Write);
        let Some(first) = writable.clone().next() else { return };
        let last = writable.clone().last().unwrap_or(first);
        let result = self.uffd.protect(self.user.addresses(first..last + 1), true);
        result.expect("S25: what cannot be protected cannot be called protected");
        writable.for_each(|page| {
            self.note(page, UserAccess::Read);
            self.note_in_parts(page);
        });
    }

    /// Lets the user write consecutive mapped pages, in one call. If the kernel refuses, the next
    /// store faults again.
    ///
    /// # Safety
    /// The caller has the pages locked (S25), and no slice of them.
    pub(crate) unsafe fn unprotect(&self, pages: Range<u32>) {
        for page in pages.clone() {
            assert_ne!(
                self.access(page.into()),
                UserAccess::None,
                "S25: it has no access to raise"
            );
            self.note(page, UserAccess::Write);
            self.note_in_parts(page);
        }
        let _ = self.uffd.protect(self.user.addresses(pages), false);
    }

    /// Makes the user's next touch raise SIGBUS, or SIGSEGV without poison support. Does nothing if
    /// faults are signals.
    pub(crate) fn poison(&self, page: u32) {
        if self.delivery == FaultDelivery::Signal {
            return;
        }
        let range = self.place(page).range();
        let knows_how = self.uffd.features().has(UffdFeatures::POISON);
        if knows_how && self.uffd.poison(range.clone()).is_ok() {
            return;
        }
        let start = ptr::with_exposed_provenance_mut(range.start);
        // SAFETY: S24 (the range is the user's mapping): taking access away changes no contents.
        let _ = unsafe { mprotect(start, range.len(), MprotectFlags::empty()) };
        let _ = self.uffd.wake(range);
    }

    fn place(&self, page: u32) -> UserPlace<'_> {
        UserPlace { uffd: &self.uffd, memory: &self.user, page }
    }

    fn note(&self, page: u32, access: UserAccess) {
        let part = &self.access[page as usize / PART_PAGES];
        if access == UserAccess::None && part.get().is_none() {
            return;
        }
        let part = part.get_or_init(|| Box::new(AccessPart::new()));
        part.pages[page as usize % PART_PAGES].store(access as u8, Ordering::Release);
    }
}

impl fmt::Debug for RegionMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RegionMemory({} pages at {:p})", self.nr_pages(), self.base())
    }
}

#[cfg(test)]
mod tests;

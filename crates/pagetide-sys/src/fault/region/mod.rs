//! The memory of a region: an address range whose pages come and go.
//!
//! **Problem.** A program wants plain memory: pointers, loads, stores, C code. Its pages must leave
//! when the limit says so, come back when touched, and be read and filled by us in peace while
//! other threads run.
//!
//! **Idea.** The *user's mapping* is given away, and registered with userfaultfd: whatever is not
//! there asks us first. A page is filled in its frame, where the user cannot see it, and moves, or
//! is copied, into the user's mapping; before it is written by us, or leaves, it moves back.
//!
//! ```text
//!   user's mapping   | . | R | W | . | R |      . absent   R write-protected   W writable
//!                          |   |       |        moved in, and back: see `lender`
//!   frames           | - | - | p | - | p |      p a page of another place   - a hole
//! ```
//!
//! So a page is counted once, wherever it is: in its frame, or in place of it.
//!
//! **Data and invariants.** S24: the user's mapping lives as long as this, and is reached from here
//! by atomics and racing copies alone. S25: `access` says the most the user may do to a page
//! without a fault, and so where its bytes are; it is changed by the holder of the page's LOCK
//! alone: raised before the page is moved in, lowered after it was moved back or protected.
//!
//! **Ignored.** Memory that the kernel has pinned by an address of the user's mapping (a device
//! writing to it): that writes past every fault, and must not be asked for.
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
    /// The kernel refused the addresses; ask for less.
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

/// To what a region's faults are told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FaultDelivery {
    /// To the thread that touched the page, by a signal. A system call that is given an address
    /// whose page is not mapped fails with `EFAULT`.
    Signal,
    /// To threads that wait for them.
    Message,
}

/// An address range, its pages, and its faults. See the module.
///
/// # Concurrency
/// Shared freely. What is done to a page is done through its [`Lock`](crate::Lock).
pub struct RegionMemory {
    user: FrameMemory,
    lender: Arc<FrameLender>,
    uffd: Uffd,
    delivery: FaultDelivery,
    /// A [`UserAccess`] a page, in parts that are made as their pages are first mapped.
    access: Box<[OnceBox<AccessPart>]>,
    /// Readable once threads are to stop waiting for faults.
    stop: OwnedFd,
    /// Its addresses are another value's (S43).
    is_owned: bool,
}

/// Pages of a part of the access bytes: 16 MiB of contents.
const PART_PAGES: usize = 4096;

struct AccessPart {
    /// A [`UserAccess`] a page.
    pages: [AtomicU8; PART_PAGES],
    /// What is known of each block of [`BLOCK_PAGES`]: see `huge`.
    blocks: [AtomicU8; PART_PAGES / BLOCK_PAGES],
}

impl AccessPart {
    fn new() -> AccessPart {
        let none = |_| AtomicU8::new(UserAccess::None as u8);
        AccessPart { pages: std::array::from_fn(none), blocks: std::array::from_fn(none) }
    }

    /// Of the block that the region's page is in.
    fn block_of(&self, page: u32) -> &AtomicU8 {
        &self.blocks[page as usize % PART_PAGES / BLOCK_PAGES]
    }
}

impl RegionMemory {
    /// Addresses for `nr_pages` pages, all of them absent, whose memory will be that of frames.
    ///
    /// # Errors
    /// [`RegionError`], with what to change.
    ///
    /// # Cost
    /// Some ten system calls; a byte a page of what is used. Whatever its length, nothing else of
    /// it but addresses is taken before it is touched.
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

    /// Pages there are.
    pub fn nr_pages(&self) -> u64 {
        self.user.nr_frames().into()
    }

    /// Where the user's mapping begins. Having the address is no right to what is there.
    pub fn base(&self) -> *mut u8 {
        self.user.frame_ptr(0)
    }

    /// The user's mapping, for safe code: a touch of what is not mapped is a fault, and where none
    /// is served, the thread waits for ever, or the process ends.
    ///
    /// # Panics
    /// If the memory was made over to an [`OwnedMemory`](crate::OwnedMemory).
    pub fn words(&self) -> &[AtomicU64] {
        assert!(!self.is_owned, "S43: this memory is reached through its owner alone");
        self.user.cells()
    }

    /// Has its words reached by no one, from now on, but the one value that it is made over to.
    pub(super) fn own(&mut self) {
        self.is_owned = true;
    }

    /// What lends it memory.
    pub fn lender(&self) -> &Arc<FrameLender> {
        &self.lender
    }

    /// To what its faults are told.
    pub fn delivery(&self) -> FaultDelivery {
        self.delivery
    }

    /// How faults are had.
    pub fn uffd_source(&self) -> UffdSource {
        self.uffd.source()
    }

    /// What the user may do to a page; it may change at any time, unless the caller has the page
    /// locked or pinned. `None` for pages there are not.
    pub fn access(&self, page: u64) -> UserAccess {
        let part = self.access.get((page / PART_PAGES as u64) as usize).and_then(OnceBox::get);
        let access = part.map(|part| &part.pages[page as usize % PART_PAGES]);
        match access.map_or(0, |access| access.load(Ordering::Acquire)) {
            0 => UserAccess::None,
            1 => UserAccess::Read,
            _ => UserAccess::Write,
        }
    }

    /// Whether what is to be known of a page has its place: if not, mapping it allocates.
    pub fn is_prepared(&self, page: u64) -> bool {
        let part = self.access.get((page / PART_PAGES as u64) as usize);
        part.is_some_and(|part| part.get().is_some())
    }

    /// The page at an address of the user's mapping.
    pub fn page_at(&self, address: usize) -> Option<u64> {
        let page = address.checked_sub(self.base().addr())? / FRAME_BYTES;
        Some(page as u64).filter(|page| *page < self.nr_pages())
    }

    /// Waits for faults that are told as messages, and calls `each` for those this thread got.
    /// `false` once [`RegionMemory::stop`] was called.
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

    /// Memory that is at the user's place now, bytes: `mincore` over all of it.
    ///
    /// # Cost
    /// About 10 ns a page there could be.
    pub fn count_mapped_bytes(&self) -> u64 {
        self.user.count_resident_bytes()
    }

    /// The user's mapping, as a place of pages that are in it.
    pub(crate) fn user(&self) -> &FrameMemory {
        &self.user
    }

    /// Lets the user read a page that is in `frame`, or in place of it, or write it, too; wakes
    /// threads that wait for it. Returns what it may do now.
    ///
    /// # Safety
    /// The caller has the page locked (S25), and no slice of it; the frame is the page's.
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
            // It may also have been protected along with others.
            UserAccess::Read | UserAccess::Write if write => {
                self.note(page, UserAccess::Write);
                self.note_in_parts(page);
                self.uffd.protect(place.range(), false)?;
            }
            // Heard of late, or by two threads at once.
            _ if self.delivery == FaultDelivery::Message => self.uffd.wake(place.range())?,
            _ => {}
        }
        Ok(self.access(page.into()))
    }

    /// As [`RegionMemory::map`], of pages that follow each other and are not mapped, with the bytes
    /// from `source` on: their frames are not written. Returns how many are mapped then, the first.
    ///
    /// # Safety
    /// As of [`RegionMemory::map`], of each page; as many bytes can be read at `source`.
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

    /// As [`RegionMemory::fill`], for reading, with the bytes of frames that follow each other from
    /// `frame` on, which are emptied then. The pages are in memory twice while this lasts.
    ///
    /// # Safety
    /// As of [`RegionMemory::map`], of each page.
    pub(crate) unsafe fn map_run(&self, pages: Range<u32>, frame: u32) -> u32 {
        let frames = frame..frame + pages.len() as u32;
        let source = self.lender.arena().memory().addresses(frames.clone()).start;
        // SAFETY: S25 (by the caller's word): the frames are only read.
        let nr_done = unsafe { self.fill(pages, source, false) };
        // SAFETY: S4, S25 (by the caller's word): the pages are at the user's place now.
        unsafe { self.lender.empty_frames(frames.take(nr_done as usize)) };
        nr_done
    }

    /// Takes pages out of the user's mapping that it may only read, and gives back the memory of
    /// `frames`: their bytes are not needed. Where the kernel refuses, they stay.
    ///
    /// # Safety
    /// The caller has the pages locked (S25), and those in the frames.
    pub(crate) unsafe fn drop_pages(&self, pages: &[u32], frames: &[u32]) {
        pages.iter().for_each(|page| self.split_around(*page));
        // SAFETY: S25 (by the caller's word).
        if unsafe { self.lender.empty_places(&self.user, pages, frames) } {
            pages.iter().for_each(|page| self.note(*page, UserAccess::None));
        }
    }

    /// Takes pages out of the user's mapping, into their frames; panics if the kernel refuses.
    ///
    /// # Safety
    /// The caller has the pages locked (S25); the frames are theirs, in the same order.
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

    /// Takes a page out of the user's mapping, into `frame`, if it is there. Panics if the kernel
    /// refuses.
    ///
    /// # Safety
    /// The caller has the page locked (S25); the frame is the page's.
    pub(crate) unsafe fn unmap(&self, page: u32, frame: u32) {
        if self.access(page.into()) != UserAccess::None {
            self.split_around(page);
            // SAFETY: S25 (by the caller's word).
            unsafe { self.lender.take_out(self.place(page), frame) };
            self.note(page, UserAccess::None);
        }
    }

    /// Takes writing away from pages, in order, if the user may, in one call; panics if the kernel
    /// refuses. The next store to a page between them may be a fault, too.
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

    /// Has the user's next touch of the page end in a signal: SIGBUS, or SIGSEGV where the kernel
    /// does not know how to poison. Where faults are signals, the touch is one already.
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

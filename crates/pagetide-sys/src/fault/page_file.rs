//! A memory file that other processes map in place of a file's frames.
//!
//! **Problem.** Several processes map one file. Each page must be in memory once, and no process
//! may see an evicted or half-filled page.
//!
//! **Idea.** A mapped page has its bytes in the memory file, at its offset in the mapped file, and
//! its frame is empty. An absent page is a hole. A touch of a hole raises a signal (userfaultfd),
//! `UFFDIO_COPY` fills the hole, and punching a hole removes a page from all processes.
//!
//! ```text
//!   frames       | p | - | p |        p a page's bytes   - no memory
//!                     ^  |
//!        taken back   |  | put, whole
//!                     |  v
//!   memory file  | . | p | . | . |    . a hole: the next touch is a fault, in each process
//! ```
//!
//! **Writable pages.** Pages are mapped read-only, and stores fault. The page is recorded as
//! writable before a store is allowed, and [leaves through a pipe](super::page_pipe), which keeps
//! every store.
//!
//! **Data and invariants.** S33: a page's byte in `pages` states if the page's bytes are here, and
//! if other processes may store to them. Only the holder of the page's LOCK changes the byte:
//! raised after a put or before a store is allowed, cleared after punching the hole. The cache's
//! own mapping is registered too, so only a put fills a hole through it. Readers get a read-only
//! descriptor.
//!
//! **Ignored.** Pages past the capacity. Processes of the same user that change the memory file
//! without the library, and could trace the cache as well.
//!
//! Source: ioctl_userfaultfd(2), fallocate(2), madvise(2) `MADV_REMOVE`.

use std::fmt;
use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use once_cell::race::OnceBox;

use crate::fault::page_pipe::PagePipe;
use crate::fault::uffd::{StoreFault, Uffd, UffdError};
use crate::memory::frames::{FRAME_BYTES, FrameMemory};

/// The maximum number of pages of a page file.
pub const PAGE_FILE_PAGES_MAX: u64 = u32::MAX as u64;

/// Pages per part of `pages`: 16 MiB of contents.
const PART_PAGES: usize = 4096;

type Part = [AtomicU8; PART_PAGES];

/// The values of a page's byte: absent, here and read-only, here and writable by other processes.
const HOLE: u8 = 0;
const READ: u8 = 1;
const WRITTEN: u8 = 2;

/// The memory file and the state of its pages.
///
/// # Concurrency
/// Shared freely. A page is changed only through its [`Lock`](crate::Lock).
pub struct PageFile {
    memory: FrameMemory,
    uffd: Uffd,
    number: u64,
    pages: Box<[OnceBox<Part>]>,
    nr_held: AtomicU64,
    is_open: AtomicBool,
    /// Created with the first writable mapping.
    pipe: OnceBox<Mutex<PagePipe>>,
}

impl PageFile {
    /// Creates a memory file of `nr_pages` holes.
    ///
    /// # Errors
    /// Fails if the system refuses a userfaultfd, a descriptor or an address range.
    ///
    /// # Cost
    /// About ten system calls, two descriptors, and 8 bytes per 16 MiB.
    pub fn new(nr_pages: u64) -> io::Result<PageFile> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let count = u32::try_from(nr_pages).ok().filter(|count| *count > 0);
        let count = count.ok_or(io::ErrorKind::InvalidInput)?;
        let uffd = Uffd::open_for_files()?;
        let memory = FrameMemory::reserve_shared(count, false)?;
        memory.keep_from_children()?;
        // SAFETY: S33 (the mapping is new, and its memory file is private to this value).
        unsafe { uffd.register_absent(memory.addresses(0..count)) }?;
        let pages = (0..nr_pages.div_ceil(PART_PAGES as u64)).map(|_| OnceBox::new()).collect();
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Ok(PageFile {
            memory,
            uffd,
            number,
            pages,
            nr_held: 0.into(),
            is_open: true.into(),
            pipe: OnceBox::new(),
        })
    }

    /// Returns the memory file. Processes that may only read reopen the file read-only.
    pub fn file(&self) -> BorrowedFd<'_> {
        self.memory.file().expect("S33: made as a file")
    }

    /// Returns the unique number of this page file.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Returns the capacity in pages.
    pub fn nr_pages(&self) -> u64 {
        self.memory.nr_frames().into()
    }

    /// Returns the number of pages that are here.
    pub fn nr_held(&self) -> u64 {
        self.nr_held.load(Ordering::Relaxed)
    }

    /// Returns true if the page's bytes are here. The result may change at any time unless the
    /// caller has the page locked or pinned.
    #[inline]
    pub fn holds(&self, page: u64) -> bool {
        self.state(page) != HOLE
    }

    /// Returns true if other processes may store to the page. May change as for
    /// [`PageFile::holds`].
    #[inline]
    pub fn is_written(&self, page: u64) -> bool {
        self.state(page) == WRITTEN
    }

    #[inline]
    fn state(&self, page: u64) -> u8 {
        let part = self.pages.get((page / PART_PAGES as u64) as usize).and_then(OnceBox::get);
        part.map_or(HOLE, |part| part[page as usize % PART_PAGES].load(Ordering::Acquire))
    }

    /// Creates the pipe for writable pages.
    ///
    /// # Errors
    /// Fails if the system refuses a pipe, and with `Unsupported` if pipes of this kernel cannot
    /// hold pages.
    pub fn prepare_writers(&self) -> io::Result<()> {
        self.pipe
            .get_or_try_init(|| PagePipe::of_files().map(|pipe| Box::new(Mutex::new(pipe))))?;
        Ok(())
    }

    /// Returns true if other processes were ever allowed to write.
    pub fn has_writers(&self) -> bool {
        self.pipe.get().is_some()
    }

    /// Returns true if fills may put pages here without a waiting thread.
    pub fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Acquire)
    }

    /// Allows or forbids fills without a waiting thread. A thread that has a page locked may still
    /// put it here afterwards.
    pub fn set_open(&self, is_open: bool) {
        if self.is_open() != is_open {
            self.is_open.store(is_open, Ordering::Release);
        }
    }

    pub(crate) fn memory(&self) -> &FrameMemory {
        &self.memory
    }

    /// Puts pages here from contiguous bytes at `source`. After an error, the pages put so far stay
    /// recorded.
    ///
    /// # Safety
    /// S33: the caller has the pages locked, and their bytes are not here. The bytes at `source`
    /// are readable for all pages.
    pub(crate) unsafe fn put(&self, pages: Range<u32>, source: usize) -> Result<(), UffdError> {
        let mut at = pages.start;
        while at < pages.end {
            let range = self.memory.addresses(at..pages.end);
            let from = source + (at - pages.start) as usize * FRAME_BYTES;
            // SAFETY: S9, S33, guaranteed by the caller.
            let nr_done = unsafe { self.uffd.copy_some(&range, from, true) }? / FRAME_BYTES;
            if nr_done == 0 {
                // A process without a userfaultfd has touched the hole, which filled it with zeros.
                // SAFETY: S33: the zeros belong to no page.
                let emptied = unsafe { self.memory.discard(at..at + 1) };
                emptied.map_err(|source| UffdError::Call {
                    call: "MADV_REMOVE",
                    start: range.start as u64,
                    len: FRAME_BYTES as u64,
                    source,
                })?;
            }
            let end = at + nr_done as u32;
            (at..end).for_each(|page| self.note(page, READ));
            at = end;
        }
        Ok(())
    }

    /// Punches holes for pages that are here.
    ///
    /// Panics if the kernel refuses.
    ///
    /// # Safety
    /// S33: the caller has the pages locked, and needs none of their bytes.
    pub(crate) unsafe fn punch(&self, pages: Range<u32>) {
        // SAFETY: S33, guaranteed by the caller.
        let punched = unsafe { self.memory.discard(pages.clone()) };
        punched.expect("S33: what cannot be punched cannot be called gone");
        pages.for_each(|page| self.note(page, HOLE));
    }

    /// Lets a process store to a page.
    ///
    /// # Safety
    /// S33: the caller has the page locked, no slice of its bytes exists, and the bytes are here.
    pub(crate) unsafe fn let_write(&self, page: u32, fault: &StoreFault<'_>) {
        assert!(self.has_writers(), "S33: what may be written can leave");
        self.note(page, WRITTEN);
        // Otherwise the store does not happen, or faults again.
        let _ = fault.allow();
    }

    /// Removes pages from all processes, and calls `each` with the final bytes, including racing
    /// stores.
    ///
    /// Panics if the kernel refuses.
    ///
    /// # Safety
    /// S33: the caller has the pages locked, and their bytes are here.
    pub(crate) unsafe fn take_out(&self, pages: Range<u32>, mut each: impl FnMut(u32, &[u8])) {
        let pipe = self.pipe.get().expect("S33: what may be written can leave");
        let pipe = pipe.lock().unwrap_or_else(PoisonError::into_inner);
        let mut bytes = vec![0; pipe.nr_pages().min(pages.len()) * FRAME_BYTES];
        let mut at = pages.start;
        while at < pages.end {
            let nr = pipe.nr_pages().min((pages.end - at) as usize);
            let held = pipe.hold(self.file(), at, nr);
            held.expect("S33: what cannot be held cannot be taken");
            // SAFETY: S33, guaranteed by the caller. The pipe has the bytes.
            unsafe { self.punch(at..at + nr as u32) };
            let bytes = &mut bytes[..nr * FRAME_BYTES];
            pipe.read(bytes).expect("S33: the pipe holds as many pages");
            (at..).zip(bytes.chunks_exact(FRAME_BYTES)).for_each(|(page, bytes)| each(page, bytes));
            at += nr as u32;
        }
    }

    fn note(&self, page: u32, state: u8) {
        let part = &self.pages[page as usize / PART_PAGES];
        let none = || Box::new(std::array::from_fn(|_| AtomicU8::new(HOLE)));
        let place = &part.get_or_init(none)[page as usize % PART_PAGES];
        match (place.swap(state, Ordering::AcqRel), state) {
            (HOLE, READ | WRITTEN) => drop(self.nr_held.fetch_add(1, Ordering::Relaxed)),
            (READ | WRITTEN, HOLE) => drop(self.nr_held.fetch_sub(1, Ordering::Relaxed)),
            _ => {}
        }
    }
}

impl fmt::Debug for PageFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PageFile({} of {} pages)", self.nr_held(), self.nr_pages())
    }
}

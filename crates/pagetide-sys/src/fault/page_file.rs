//! A memory file in which other processes map a file's pages, in place of their frames.
//!
//! **Problem.** A file is mapped by several processes, of which none is to see a page that left,
//! nor half of one that comes, and each page is to be counted once.
//!
//! **Idea.** One memory file, offset for offset as the file. A page that is mapped has its bytes
//! here, and the frame that it holds has no memory of its own. What is not here is a hole, of which
//! each process's userfaultfd tells as a signal. A page is put here whole (`UFFDIO_COPY`), and
//! leaves all processes at once as a hole is punched.
//!
//! ```text
//!   frames       | p | - | p |        p a page's bytes   - no memory
//!                     ^  |
//!        taken back   |  | put, whole
//!                     |  v
//!   memory file  | . | p | . | . |    . a hole: the next touch is a fault, in each process
//! ```
//!
//! **Pages that others write.** A mapping that may be written is registered so that a page which
//! is not mapped there yet, and a store to one that is, are faults as well. Each page is mapped to
//! be read at first. A store is allowed one page at a time, by us, and noted before that; what was
//! noted [leaves by a pipe](super::page_pipe), with all that was stored to it.
//!
//! **Data and invariants.** S33: a page's byte in `pages` says whether its bytes are here, and
//! whether others may store to them; it is changed by the holder of the page's LOCK alone: raised
//! after the page was put, or before a store is allowed; cleared after its hole was punched. Our
//! mapping is registered as well, so that nothing but a put fills a hole by it. Others that only
//! read get a descriptor that can only read.
//!
//! **Ignored.** A page past the file's capacity: such a file is not mapped from here. Processes of
//! our own user that change the memory file past their library: they can trace us as well.
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

/// The most pages a page file has.
pub const PAGE_FILE_PAGES_MAX: u64 = u32::MAX as u64;

/// Pages of a part of what is known of them: 16 MiB of contents.
const PART_PAGES: usize = 4096;

type Part = [AtomicU8; PART_PAGES];

/// What a page's byte says: it is not here; it is, for others to read; or to write, as well.
const HOLE: u8 = 0;
const READ: u8 = 1;
const WRITTEN: u8 = 2;

/// A file's pages, where other processes map them. See the module.
///
/// # Concurrency
/// Shared freely. What is done to a page is done through its [`Lock`](crate::Lock).
pub struct PageFile {
    memory: FrameMemory,
    uffd: Uffd,
    number: u64,
    pages: Box<[OnceBox<Part>]>,
    nr_held: AtomicU64,
    is_open: AtomicBool,
    /// What pages leave by that others may write; there is none before one may.
    pipe: OnceBox<Mutex<PagePipe>>,
}

impl PageFile {
    /// A memory file for `nr_pages` pages, all of them holes.
    ///
    /// # Errors
    /// What the system says of userfaultfd, of descriptors and of addresses.
    ///
    /// # Cost
    /// Some ten system calls, two descriptors, and 8 bytes for each 16 MiB.
    pub fn new(nr_pages: u64) -> io::Result<PageFile> {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let count = u32::try_from(nr_pages).ok().filter(|count| *count > 0);
        let count = count.ok_or(io::ErrorKind::InvalidInput)?;
        let uffd = Uffd::open_for_files()?;
        let memory = FrameMemory::reserve_shared(count, false)?;
        memory.keep_from_children()?;
        // SAFETY: S33 (the mapping was just made, of a memory file that is ours).
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

    /// The memory file, to be opened anew by processes that may only read.
    pub fn file(&self) -> BorrowedFd<'_> {
        self.memory.file().expect("S33: made as a file")
    }

    /// Tells it from all others.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Pages that it has a place for.
    pub fn nr_pages(&self) -> u64 {
        self.memory.nr_frames().into()
    }

    /// Pages whose bytes are here.
    pub fn nr_held(&self) -> u64 {
        self.nr_held.load(Ordering::Relaxed)
    }

    /// Whether a page's bytes are here. It may change at any time, unless the caller has the page
    /// locked or pinned.
    #[inline]
    pub fn holds(&self, page: u64) -> bool {
        self.state(page) != HOLE
    }

    /// Whether others may be storing to a page; as [`PageFile::holds`].
    #[inline]
    pub fn is_written(&self, page: u64) -> bool {
        self.state(page) == WRITTEN
    }

    #[inline]
    fn state(&self, page: u64) -> u8 {
        let part = self.pages.get((page / PART_PAGES as u64) as usize).and_then(OnceBox::get);
        part.map_or(HOLE, |part| part[page as usize % PART_PAGES].load(Ordering::Acquire))
    }

    /// Sees to what it takes to let others write pages.
    ///
    /// # Errors
    /// What the system says of pipes; `Unsupported` where pages do not leave by them.
    pub fn prepare_writers(&self) -> io::Result<()> {
        self.pipe
            .get_or_try_init(|| PagePipe::of_files().map(|pipe| Box::new(Mutex::new(pipe))))?;
        Ok(())
    }

    /// Whether others ever could write pages.
    pub fn has_writers(&self) -> bool {
        self.pipe.get().is_some()
    }

    /// Whether pages may be put here by what has no thread that waits for them.
    pub fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Acquire)
    }

    /// Says so. After `false`, what has a page locked may still put it here; what locks it later
    /// does not.
    pub fn set_open(&self, is_open: bool) {
        if self.is_open() != is_open {
            self.is_open.store(is_open, Ordering::Release);
        }
    }

    /// Our mapping, as a place of pages that are here.
    pub(crate) fn memory(&self) -> &FrameMemory {
        &self.memory
    }

    /// Puts pages here, whose bytes are one after the other from `source` on. Where it fails, those
    /// that are here are noted.
    ///
    /// # Safety
    /// S33: the caller has the pages locked, and their bytes are not here; as many bytes can be
    /// read at `source`.
    pub(crate) unsafe fn put(&self, pages: Range<u32>, source: usize) -> Result<(), UffdError> {
        let mut at = pages.start;
        while at < pages.end {
            let range = self.memory.addresses(at..pages.end);
            let from = source + (at - pages.start) as usize * FRAME_BYTES;
            // SAFETY: S9, S33, by the caller's word.
            let nr_done = unsafe { self.uffd.copy_some(&range, from, true) }? / FRAME_BYTES;
            if nr_done == 0 {
                // A process without a userfaultfd has looked at the hole, and zeros are there.
                // SAFETY: S33: what is here is no page's.
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

    /// Punches the hole of pages whose bytes are here; panics if the kernel refuses.
    ///
    /// # Safety
    /// S33: the caller has the pages locked, and what is here is not needed.
    pub(crate) unsafe fn punch(&self, pages: Range<u32>) {
        // SAFETY: S33, by the caller's word.
        let punched = unsafe { self.memory.discard(pages.clone()) };
        punched.expect("S33: what cannot be punched cannot be called gone");
        pages.for_each(|page| self.note(page, HOLE));
    }

    /// Lets a process store to a page from now on.
    ///
    /// # Safety
    /// S33: the caller has the page locked, no slice of its bytes lives, and they are here.
    pub(crate) unsafe fn let_write(&self, page: u32, fault: &StoreFault<'_>) {
        assert!(self.has_writers(), "S33: what may be written can leave");
        self.note(page, WRITTEN);
        // Where it is refused, the store is not made, or it is a fault again.
        let _ = fault.allow();
    }

    /// Takes pages from all processes, which may be storing to them, and calls `each` with the last
    /// bytes of every one; panics if the kernel refuses.
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
            // SAFETY: S33, by the caller's word: the pipe has the bytes.
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

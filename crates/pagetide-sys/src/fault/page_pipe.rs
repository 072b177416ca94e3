//! Pages that leave while they may be stored to: a memory file's, by other processes, or a
//! region's, by its user.
//!
//! **Problem.** Bytes that are copied before the page is taken from its mappers lack the stores in
//! between, and once it is taken they are gone. No call protects a file's page for all of them; one
//! that protects a region's has each CPU forget its address, a page at a time.
//!
//! **Idea.** A pipe holds the page itself (splice(2) and vmsplice(2) take a reference, no bytes).
//! Then it is taken, after which nothing has it mapped; what is read from the pipe is final.
//!
//! ```text
//!   memory file  | p | --splice----> pipe holds p --punch----> no mapper --read--> its last bytes
//!   region       | p | --vmsplice--> pipe holds p --madvise--> no mapper --read--> its last bytes
//! ```
//!
//! **Invariant.** S25, S33: the kernel is seen to hold the page, not a copy, before the first is
//! taken.
//!
//! Source: splice(2), vmsplice(2), fallocate(2), userfaultfd(2).

use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::OnceLock;

use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_getpipe_size, fcntl_setpipe_size, pipe_with};

use crate::memory::frames::FRAME_BYTES;

/// Pages that are wanted in the pipe at once; a user may be allowed fewer.
const WANTED: usize = 64;

/// Holds pages on their way out.
pub(crate) struct PagePipe {
    input: std::fs::File,
    output: std::fs::File,
    nr_pages: usize,
}

impl PagePipe {
    /// One for pages of memory files.
    ///
    /// # Errors
    /// What the system says of pipes, and `Unsupported` where it copies.
    pub(crate) fn of_files() -> io::Result<PagePipe> {
        static HOLDS_PAGES: OnceLock<bool> = OnceLock::new();
        PagePipe::open_if(&HOLDS_PAGES, PagePipe::holds_pages_of_files)
    }

    /// One for pages of private memory.
    ///
    /// # Errors
    /// As of [`PagePipe::of_files`].
    pub(crate) fn of_memory() -> io::Result<PagePipe> {
        static HOLDS_PAGES: OnceLock<bool> = OnceLock::new();
        PagePipe::open_if(&HOLDS_PAGES, PagePipe::holds_pages_of_memory)
    }

    fn open_if(
        holds_pages: &OnceLock<bool>,
        probe: impl FnOnce(&PagePipe) -> io::Result<bool>,
    ) -> io::Result<PagePipe> {
        let pipe = PagePipe::open()?;
        match holds_pages.get_or_init(|| probe(&pipe).unwrap_or(false)) {
            true => Ok(pipe),
            false => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    fn open() -> io::Result<PagePipe> {
        let (output, input) = pipe_with(PipeFlags::CLOEXEC)?;
        // It has some room all the same.
        let _ = fcntl_setpipe_size(&input, WANTED * FRAME_BYTES);
        let nr_pages = (fcntl_getpipe_size(&input)? / FRAME_BYTES).clamp(1, WANTED);
        Ok(PagePipe { input: input.into(), output: output.into(), nr_pages })
    }

    /// Whether a page that was put in changes with the file.
    fn holds_pages_of_files(&self) -> io::Result<bool> {
        let file = crate::memory::mapped::memory_file("pagetide-probe", FRAME_BYTES)?;
        let mut found = [0; FRAME_BYTES];
        rustix::io::pwrite(&file, &[1; FRAME_BYTES], 0)?;
        self.hold(file.as_fd(), 0, 1)?;
        rustix::io::pwrite(&file, &[2; FRAME_BYTES], 0)?;
        self.read(&mut found)?;
        Ok(found == [2; FRAME_BYTES])
    }

    /// The same of memory.
    fn holds_pages_of_memory(&self) -> io::Result<bool> {
        #[repr(align(4096))]
        struct Page([u8; FRAME_BYTES]);
        let (mut page, mut found) = (Page([1; _]), [0; FRAME_BYTES]);
        let iov_base = std::ptr::from_mut(&mut page).cast();
        // SAFETY: S9 (the page lives).
        let nr_bytes =
            unsafe { self.hold_memory(&[libc::iovec { iov_base, iov_len: FRAME_BYTES }]) };
        page.0.fill(2);
        self.read(&mut found[..nr_bytes])?;
        Ok(found == [2; FRAME_BYTES])
    }

    /// Pages that it has room for.
    pub(crate) fn nr_pages(&self) -> usize {
        self.nr_pages
    }

    /// Holds `nr` pages of a memory file, from `first` on. The pipe is empty, and has room.
    pub(crate) fn hold(&self, file: BorrowedFd<'_>, first: u32, nr: usize) -> io::Result<()> {
        let mut at = u64::from(first) * FRAME_BYTES as u64;
        let end = at + (nr * FRAME_BYTES) as u64;
        while at < end {
            let len = (end - at) as usize;
            let flags = SpliceFlags::empty();
            match rustix::pipe::splice(file, Some(&mut at), &self.input, None, len, flags) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }

    /// Holds pages of private memory, as many as it has room for; returns how many bytes, up to the
    /// first page that is not there.
    ///
    /// # Safety
    /// They are whole pages of mappings that live.
    pub(crate) unsafe fn hold_memory(&self, pages: &[libc::iovec]) -> usize {
        let (input, first, nr) = (self.input.as_raw_fd(), pages.as_ptr(), pages.len());
        // SAFETY: S9 (live values of the layout that the manual page says); nothing is written, by
        // the caller's word for what is read.
        let nr_bytes = unsafe { libc::vmsplice(input, first, nr, libc::SPLICE_F_NONBLOCK) };
        usize::try_from(nr_bytes).unwrap_or(0)
    }

    /// The bytes of what it holds, to several places, which are no longer than that.
    ///
    /// # Safety
    /// The caller may write these places.
    pub(crate) unsafe fn read_to(&self, targets: &[libc::iovec]) -> io::Result<()> {
        let (output, first, nr) = (self.output.as_raw_fd(), targets.as_ptr(), targets.len());
        // SAFETY: S9 (live values of the layout that the manual page says), and the caller's word
        // for what is written.
        let nr_bytes = unsafe { libc::readv(output, first, nr as libc::c_int) };
        let nr_bytes = usize::try_from(nr_bytes).map_err(|_| io::Error::last_os_error())?;
        let is_all = nr_bytes == targets.iter().map(|target| target.iov_len).sum();
        if is_all { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }

    /// The bytes of what it holds, which it holds no longer.
    pub(crate) fn read(&self, target: &mut [u8]) -> io::Result<()> {
        (&self.output).read_exact(target)
    }
}

//! Removes pages that other processes, or a region's user, may be storing to.
//!
//! **Problem.** A copy made before unmapping lacks later stores, and afterwards the page is gone.
//! Protecting first is impossible for files, and flushes TLBs page by page for regions.
//!
//! **Idea.** A pipe holds the page itself: splice(2) and vmsplice(2) take a reference. Bytes read
//! from the pipe after unmapping are final.
//!
//! ```text
//!   memory file  | p | --splice----> pipe holds p --punch----> no mapper --read--> its last bytes
//!   region       | p | --vmsplice--> pipe holds p --madvise--> no mapper --read--> its last bytes
//! ```
//!
//! **Invariant.** S25, S33: a probe has shown that the kernel holds the page and not a copy.
//!
//! Source: splice(2), vmsplice(2), fallocate(2), userfaultfd(2).

use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::OnceLock;

use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_getpipe_size, fcntl_setpipe_size, pipe_with};

use crate::memory::frames::FRAME_BYTES;

/// The wanted capacity in pages. Users may have a lower limit.
const WANTED: usize = 64;

pub(crate) struct PagePipe {
    input: std::fs::File,
    output: std::fs::File,
    nr_pages: usize,
}

impl PagePipe {
    /// Opens a pipe for pages of memory files.
    ///
    /// # Errors
    /// Fails if the system refuses a pipe, and with `Unsupported` if the kernel copies pages.
    pub(crate) fn of_files() -> io::Result<PagePipe> {
        static HOLDS_PAGES: OnceLock<bool> = OnceLock::new();
        PagePipe::open_if(&HOLDS_PAGES, PagePipe::holds_pages_of_files)
    }

    /// Opens a pipe for pages of private memory.
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
        // On failure, the default capacity remains.
        let _ = fcntl_setpipe_size(&input, WANTED * FRAME_BYTES);
        let nr_pages = (fcntl_getpipe_size(&input)? / FRAME_BYTES).clamp(1, WANTED);
        Ok(PagePipe { input: input.into(), output: output.into(), nr_pages })
    }

    fn holds_pages_of_files(&self) -> io::Result<bool> {
        let file = crate::memory::mapped::memory_file("pagetide-probe", FRAME_BYTES)?;
        let mut found = [0; FRAME_BYTES];
        rustix::io::pwrite(&file, &[1; FRAME_BYTES], 0)?;
        self.hold(file.as_fd(), 0, 1)?;
        rustix::io::pwrite(&file, &[2; FRAME_BYTES], 0)?;
        self.read(&mut found)?;
        Ok(found == [2; FRAME_BYTES])
    }

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

    pub(crate) fn nr_pages(&self) -> usize {
        self.nr_pages
    }

    /// Holds `nr` pages of a memory file from `first`. The pipe is empty, with room for them.
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

    /// Holds pages up to the capacity and the first absent page. Returns the bytes held.
    ///
    /// # Safety
    /// The ranges are whole pages of live mappings.
    pub(crate) unsafe fn hold_memory(&self, pages: &[libc::iovec]) -> usize {
        let (input, first, nr) = (self.input.as_raw_fd(), pages.as_ptr(), pages.len());
        // SAFETY: S9 (live values with the layout of the manual page). Nothing is written, and the
        // caller vouches for the reads.
        let nr_bytes = unsafe { libc::vmsplice(input, first, nr, libc::SPLICE_F_NONBLOCK) };
        usize::try_from(nr_bytes).unwrap_or(0)
    }

    /// Reads the held bytes into several places, and releases the pages.
    ///
    /// # Safety
    /// The caller may write these places.
    pub(crate) unsafe fn read_to(&self, targets: &[libc::iovec]) -> io::Result<()> {
        let (output, first, nr) = (self.output.as_raw_fd(), targets.as_ptr(), targets.len());
        // SAFETY: S9 (live values with the layout of the manual page). The caller vouches for the
        // writes.
        let nr_bytes = unsafe { libc::readv(output, first, nr as libc::c_int) };
        let nr_bytes = usize::try_from(nr_bytes).map_err(|_| io::Error::last_os_error())?;
        let is_all = nr_bytes == targets.iter().map(|target| target.iov_len).sum();
        if is_all { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }

    /// Reads the held bytes, and releases the pages.
    pub(crate) fn read(&self, target: &mut [u8]) -> io::Result<()> {
        (&self.output).read_exact(target)
    }
}

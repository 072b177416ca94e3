//! Pages that leave a memory file while other processes may be storing to them.
//!
//! **Problem.** Bytes that are copied before the page is taken from its mappers lack the stores in
//! between, and once its hole is punched they are gone. No call protects a page for all of them.
//!
//! **Idea.** A pipe holds the page itself (splice(2) moves a reference, no bytes). The hole is
//! punched then, after which no process has the page mapped; what is read from the pipe is final.
//!
//! ```text
//!   memory file  | p | --splice--> pipe holds p --punch--> no mapper --read--> its last bytes
//! ```
//!
//! **Invariant.** S33: the kernel is seen to move the page, not a copy, before the first is taken.
//!
//! Source: splice(2), fallocate(2), userfaultfd(2).

use std::io::{self, Read};
use std::os::fd::BorrowedFd;
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
    /// # Errors
    /// What the system says of pipes, and `Unsupported` where it copies.
    pub(crate) fn new() -> io::Result<PagePipe> {
        static MOVES_PAGES: OnceLock<bool> = OnceLock::new();
        let pipe = PagePipe::open()?;
        let moves_pages = *MOVES_PAGES.get_or_init(|| pipe.moves_pages().unwrap_or(false));
        if moves_pages { Ok(pipe) } else { Err(io::ErrorKind::Unsupported.into()) }
    }

    fn open() -> io::Result<PagePipe> {
        let (output, input) = pipe_with(PipeFlags::CLOEXEC)?;
        // It has some room all the same.
        let _ = fcntl_setpipe_size(&input, WANTED * FRAME_BYTES);
        let nr_pages = (fcntl_getpipe_size(&input)? / FRAME_BYTES).clamp(1, WANTED);
        Ok(PagePipe { input: input.into(), output: output.into(), nr_pages })
    }

    /// Whether a page that was put in changes with the file.
    fn moves_pages(&self) -> io::Result<bool> {
        let file = crate::memory::mapped::memory_file("pagetide-probe", FRAME_BYTES)?;
        let mut found = [0; FRAME_BYTES];
        rustix::io::pwrite(&file, &[1; FRAME_BYTES], 0)?;
        self.hold(std::os::fd::AsFd::as_fd(&file), 0, 1)?;
        rustix::io::pwrite(&file, &[2; FRAME_BYTES], 0)?;
        self.read(&mut found)?;
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

    /// The bytes of what it holds, which it holds no longer.
    pub(crate) fn read(&self, target: &mut [u8]) -> io::Result<()> {
        (&self.output).read_exact(target)
    }
}

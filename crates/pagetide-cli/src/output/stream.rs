//! A pipe, a terminal or a device as output, with a slow or absent reader.
//!
//! ```text
//!   open    never waits. A pipe without a reader is refused. An opened pipe stays open until the
//!           process ends, so that the reader waits for the result
//!   write   waits for the reader. Fails if the reader is gone or takes nothing for PATIENCE, or if
//!           a signal asks this process to end
//! ```
//!
//! Each write is at most `PIPE_BUF` long, so a write to a ready pipe does not block, even if other
//! processes share the pipe in blocking mode.
//!
//! Source: Linux man pages fifo(7), pipe(7) "PIPE_BUF".

use crate::interrupt;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Longest time without progress of the reader.
const PATIENCE: Duration = Duration::from_secs(10);
/// Between checks of signals.
const TICK: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// Maximum of an atomic pipe write.
const CHUNK_BYTES: usize = 4096;

/// Pipes that stay open until the process ends.
static PIPES: Mutex<Vec<(PathBuf, Arc<Stream>)>> = Mutex::new(Vec::new());

#[derive(Debug)]
pub(super) struct Stream {
    file: File,
    written: AtomicU64,
    /// True after a timeout of the reader. Later writes do not wait.
    is_stuck: AtomicBool,
}

impl Stream {
    pub(super) fn new(file: File) -> Stream {
        Stream { file, written: AtomicU64::new(0), is_stuck: AtomicBool::new(false) }
    }

    /// Returns an already open pipe again. Fails if a pipe has no reader.
    pub(super) fn open(path: &Path) -> io::Result<Arc<Stream>> {
        let mut pipes = PIPES.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, stream)) = pipes.iter().find(|(at, _)| at == path) {
            return Ok(Arc::clone(stream));
        }
        let is_pipe = fs::metadata(path)?.file_type().is_fifo();
        let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
        let opened = File::options().write(true).custom_flags(flags).open(path);
        let file = opened.map_err(|error| match error.raw_os_error() {
            Some(libc::ENXIO) if is_pipe => without_reader(path),
            _ => error,
        })?;
        let stream = Arc::new(Stream::new(file));
        if is_pipe {
            pipes.push((path.to_owned(), Arc::clone(&stream)));
        }
        Ok(stream)
    }

    pub(super) fn written(&self) -> u64 {
        self.written.load(Relaxed)
    }

    /// Writes some of `bytes`. Fails if the reader is gone or takes nothing, or on a signal to end.
    pub(super) fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        let chunk = &bytes[..bytes.len().min(CHUNK_BYTES)];
        let begun = Instant::now();
        while !self.is_stuck.load(Relaxed) {
            if interrupt::is_set() {
                return Err(io::Error::other("a signal ended the wait for its reader"));
            }
            match self.try_write(chunk) {
                Ok(nr) => {
                    self.written.fetch_add(nr as u64, Relaxed);
                    return Ok(nr);
                }
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(Errno::PIPE) => {
                    let why = "its reader has gone, and the rest is lost";
                    return Err(io::Error::new(io::ErrorKind::BrokenPipe, why));
                }
                Err(error) => return Err(error.into()),
            }
            self.is_stuck.fetch_or(begun.elapsed() >= PATIENCE, Relaxed);
        }
        let secs = PATIENCE.as_secs();
        let why = format!("its reader has taken nothing for {secs} s, and the rest is lost");
        Err(io::Error::new(io::ErrorKind::TimedOut, why))
    }

    /// Waits up to one `TICK`.
    fn try_write(&self, chunk: &[u8]) -> Result<usize, Errno> {
        let mut fds = [PollFd::new(&self.file, PollFlags::OUT)];
        if poll(&mut fds, Some(&TICK))? == 0 {
            return Err(Errno::AGAIN);
        }
        rustix::io::write(&self.file, chunk)
    }
}

fn without_reader(path: &Path) -> io::Error {
    let path = path.display();
    let why = format!("no process reads this pipe: start its reader first, as in `cat {path} &`");
    io::Error::new(io::ErrorKind::NotConnected, why)
}

//! Write windows: a program's thread leaves a write's bytes in memory that it shares with the
//! server.
//!
//! ```text
//!   program                     pagetide run
//!   window    bytes, request -> the server's thread polls, and copies the bytes into the frames
//!             reply          <-
//! ```
//!
//! A thread's requests by the window and by the socket follow one another, because the thread waits
//! for each reply.

use super::Server;
use super::answer::Answer;
use crate::wire::{Op, REQUEST_BYTES, Request};
use pagetide_core::units::PAGE_BYTES;
use pagetide_sys::window::{BY_SOCKET, Posted, Window};
use rustix::io::Errno;
use std::io;
use std::sync::Arc;

/// Bytes of a copy between the window and the cache. They stay in the processor's first cache.
pub(super) const COPY_BYTES: usize = 16 << 10;

/// A thread's write window.
pub(super) struct ThreadWindow {
    pub(super) window: Window,
    /// Counts this window.
    _counted: Arc<()>,
}

impl ThreadWindow {
    /// Makes an empty window.
    ///
    /// # Errors
    /// Fails with the system's error, or with `EAGAIN` if there are enough windows.
    pub(super) fn new(server: &Server) -> io::Result<ThreadWindow> {
        let counted = server.count_window().ok_or(Errno::AGAIN)?;
        Ok(ThreadWindow { window: Window::new(server.window_bytes)?, _counted: counted })
    }

    /// Returns the posted write and its bytes, if there is a post. The write is `None` if the post
    /// is no valid request to write.
    pub(super) fn claim(&self) -> Option<(Posted, Option<(Request, Source<'_>)>)> {
        let posted = self.window.claim()?;
        let head: [[u8; 8]; REQUEST_BYTES / 8] = posted.request.map(u64::to_le_bytes);
        let request = Request::decode(head.as_flattened())
            .filter(|request| matches!(request.op, Op::Write | Op::WriteAt | Op::Append));
        let len = posted.nr_bytes.min(self.window.len() as u64) as usize;
        let source = Source::Window(&self.window, len);
        Some((posted, request.map(|request| (request, source))))
    }

    /// Answers a post. Returns true if the answer has to be sent by the socket as well.
    pub(super) fn answer(&self, post: &Posted, answer: &Answer) -> bool {
        let encoded = answer.reply.encode();
        let (words, _) = encoded.as_chunks();
        let mut reply = std::array::from_fn(|word| u64::from_le_bytes(words[word]));
        let is_by_socket = !answer.files.is_empty();
        if is_by_socket {
            reply[0] = BY_SOCKET;
        }
        self.window.answer(post, reply) || is_by_socket
    }
}

/// The bytes of a write.
#[derive(Clone, Copy)]
pub(super) enum Source<'a> {
    /// Bytes of a packet.
    Packet(&'a [u8]),
    /// The first bytes of a window, which the program may change meanwhile.
    Window(&'a Window, usize),
}

impl<'a> Source<'a> {
    pub(super) fn len(self) -> usize {
        match self {
            Source::Packet(bytes) => bytes.len(),
            Source::Window(_, len) => len,
        }
    }

    /// Returns the first `len` bytes, or all if there are fewer.
    pub(super) fn front(self, len: u64) -> Source<'a> {
        let len = len.min(self.len() as u64) as usize;
        match self {
            Source::Packet(bytes) => Source::Packet(&bytes[..len]),
            Source::Window(window, _) => Source::Window(window, len),
        }
    }

    /// Passes the bytes to `write` in order, with their offsets in the file, from `offset` on. Ends
    /// at the first failure. Returns the number of bytes that `write` has taken.
    ///
    /// # Errors
    /// Fails if the first call of `write` fails.
    pub(super) fn write_to<E>(
        self,
        offset: u64,
        mut write: impl FnMut(&[u8], u64) -> Result<usize, E>,
    ) -> Result<usize, E> {
        let (window, len) = match self {
            Source::Packet(bytes) => return write(bytes, offset),
            Source::Window(window, len) => (window, len),
        };
        let (mut copy, mut done) = ([0; COPY_BYTES], 0);
        while done < len {
            let at = offset + done as u64;
            // Whole pages of the file after the first part.
            let most = COPY_BYTES - at as usize % PAGE_BYTES;
            let part = &mut copy[..most.min(len - done)];
            window.copy(done, part);
            match write(part, at) {
                Ok(nr_bytes) => done += nr_bytes,
                Err(error) if done == 0 => return Err(error),
                Err(_) => break,
            }
        }
        Ok(done)
    }
}

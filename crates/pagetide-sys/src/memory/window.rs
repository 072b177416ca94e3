//! The write window: shared memory in which a thread of another process leaves a write's bytes and
//! its request for the server.
//!
//! **Problem.** A packet of a socket takes several system calls, two copies and an allocation.
//! **Idea.** One memory file per such thread. The thread copies the bytes and the request there,
//! and posts a count. Each side polls its word for a while, and a side that sleeps says so first.
//!
//! ```text
//!   client's words   posted | nr_bytes | client sleeps | request    written by the client
//!   server's words   answered | server sleeps | reply               written by the server
//!   bytes            the bytes of the posted write
//! ```
//!
//! A post is *free*, *posted* or *claimed*. The client may withdraw a post that is not claimed.
//!
//! **Invariants.** S29: the server's mapping covers the whole file, which cannot shrink. The client
//! may write any byte at any time, so the words are read once, and the bytes only by racing copies
//! (S2) in checked ranges.
//!
//! **Ignored.** A client that posts nonsense gets errors, as on the socket.
//!
//! Source: Linux memfd_create(2), fcntl(2) `F_SEAL_SHRINK`.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};

use rustix::mm::ProtFlags;

use crate::memory::copy::copy_out;
use crate::memory::frames::FRAME_BYTES;
use crate::memory::mapped::{Mapped, memory_file};

/// Words of a request.
pub const REQUEST_WORDS: usize = 6;
/// Words of a reply.
pub const REPLY_WORDS: usize = 5;
/// The first reply word if the reply comes by the socket, because it carries descriptors.
pub const BY_SOCKET: u64 = u64::MAX;
/// The offset of the bytes, in bytes.
pub const BYTES_AT: usize = FRAME_BYTES;

/// Twice the number of posts, plus 1 once the server has claimed the last one.
const POSTED: usize = 0;
const NR_BYTES: usize = 1;
const CLIENT_SLEEPS: usize = 2;
const REQUEST: usize = 8;
/// Number of answered posts. On another cache line than the client's words.
const ANSWERED: usize = 16;
const SERVER_SLEEPS: usize = 17;
const REPLY: usize = 24;

/// The two ends' words, at the start of the file.
///
/// # Concurrency
/// One thread of each process uses its end. Neither side blocks.
#[derive(Clone, Copy)]
pub struct Words<'a>(&'a [AtomicU64]);

/// A claimed request, as the client wrote it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Posted {
    /// The request's words.
    pub request: [u64; REQUEST_WORDS],
    /// The number of bytes, as claimed by the client.
    pub nr_bytes: u64,
    number: u64,
}

impl<'a> Words<'a> {
    /// Returns the words at the start of `page`, or `None` if it is too short.
    pub fn new(page: &'a [AtomicU64]) -> Option<Words<'a>> {
        page.get(..REPLY + REPLY_WORDS).map(Words)
    }

    /// Posts write number `number` of the client, from 1 on. Returns true if the server sleeps, and
    /// has to be woken by the socket.
    pub fn post(self, number: u64, request: [u64; REQUEST_WORDS], nr_bytes: u64) -> bool {
        self.0[REQUEST..].iter().zip(request).for_each(|(word, value)| word.store(value, Relaxed));
        self.0[NR_BYTES].store(nr_bytes, Relaxed);
        self.0[CLIENT_SLEEPS].store(0, Relaxed);
        self.0[POSTED].store(number << 1, SeqCst);
        self.0[SERVER_SLEEPS].load(SeqCst) != 0
    }

    /// Withdraws post `number`. Returns false if the server has claimed the post.
    pub fn withdraw(self, number: u64) -> bool {
        let before = (number - 1) << 1 | 1;
        self.0[POSTED].compare_exchange(number << 1, before, SeqCst, SeqCst).is_ok()
    }

    /// Returns the reply to post `number`, if it is there.
    pub fn answer_to(self, number: u64) -> Option<[u64; REPLY_WORDS]> {
        let is_there = self.0[ANSWERED].load(Acquire) == number;
        is_there.then(|| std::array::from_fn(|word| self.0[REPLY + word].load(Relaxed)))
    }

    /// Announces that the client sleeps until the server writes to the socket. Returns the reply if
    /// it came meanwhile. The client then must not sleep.
    pub fn announce_client_sleep(self, number: u64) -> Option<[u64; REPLY_WORDS]> {
        self.0[CLIENT_SLEEPS].store(1, SeqCst);
        if self.0[ANSWERED].load(SeqCst) != number || self.0[CLIENT_SLEEPS].swap(0, SeqCst) == 0 {
            return None;
        }
        self.answer_to(number)
    }

    /// Claims the posted request, if there is one.
    fn claim(self) -> Option<Posted> {
        let posted = self.0[POSTED].load(Acquire);
        if posted & 1 != 0 || posted == 0 {
            return None;
        }
        let request = std::array::from_fn(|word| self.0[REQUEST + word].load(Relaxed));
        let nr_bytes = self.0[NR_BYTES].load(Relaxed);
        self.0[POSTED].compare_exchange(posted, posted | 1, SeqCst, Relaxed).ok()?;
        Some(Posted { request, nr_bytes, number: posted >> 1 })
    }

    /// Answers a post. Returns true if the client sleeps, and needs the reply by the socket.
    fn answer(self, post: &Posted, reply: [u64; REPLY_WORDS]) -> bool {
        self.0[REPLY..].iter().zip(reply).for_each(|(word, value)| word.store(value, Relaxed));
        self.0[ANSWERED].store(post.number, SeqCst);
        self.0[CLIENT_SLEEPS].swap(0, SeqCst) != 0
    }
}

/// One thread's write window, at the server.
pub struct Window {
    file: OwnedFd,
    mapped: Mapped,
    len: usize,
}

impl Window {
    /// Creates a window for `len` bytes, which are rounded up to whole pages.
    ///
    /// # Errors
    /// Fails if memory or descriptors run out.
    pub fn new(len: usize) -> io::Result<Window> {
        let len = len.next_multiple_of(FRAME_BYTES);
        let file = memory_file("pagetide-window", BYTES_AT + len)?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let mapped = Mapped::new(file.as_fd(), BYTES_AT + len, access)?;
        Ok(Window { file, mapped, len })
    }

    /// Returns the file that the client maps.
    pub fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Returns the maximum number of bytes of a write.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if the window has no room for bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns true if there is a post to claim.
    pub fn is_posted(&self) -> bool {
        let posted = self.words().0[POSTED].load(Acquire);
        posted & 1 == 0 && posted != 0
    }

    /// Claims the posted request, if there is one.
    pub fn claim(&self) -> Option<Posted> {
        self.words().claim()
    }

    /// Announces that the server sleeps until the client writes to the socket. Returns false if a
    /// request came meanwhile. The server then must not sleep.
    pub fn may_sleep(&self) -> bool {
        let words = self.words();
        words.0[SERVER_SLEEPS].store(1, SeqCst);
        let posted = words.0[POSTED].load(SeqCst);
        posted & 1 != 0 || posted == 0
    }

    /// Announces that the server polls the window again.
    pub fn announce_awake(&self) {
        self.words().0[SERVER_SLEEPS].store(0, Relaxed);
    }

    /// Answers a post. Returns true if the client sleeps, and needs the reply by the socket.
    pub fn answer(&self, post: &Posted, reply: [u64; REPLY_WORDS]) -> bool {
        self.words().answer(post, reply)
    }

    /// Copies bytes of the posted write from byte `at` on. The client may change them meanwhile.
    ///
    /// # Cost
    /// The copy.
    pub fn copy(&self, at: usize, target: &mut [u8]) {
        copy_out(self.mapped.words(), BYTES_AT + at, target);
    }

    fn words(&self) -> Words<'_> {
        Words(&self.mapped.words()[..REPLY + REPLY_WORDS])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPLY_5: [u64; REPLY_WORDS] = [0, 5, 0, 5, 0];

    fn client(window: &Window) -> Mapped {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        Mapped::new(window.file(), BYTES_AT + window.len(), access).unwrap()
    }

    #[test]
    fn a_post_is_claimed_once_and_answered() {
        let window = Window::new(5000).unwrap();
        assert_eq!((window.len(), window.claim()), (8192, None));
        let there = client(&window);
        let words = Words::new(there.words()).unwrap();
        for number in 1..4 {
            assert!(!words.post(number, [number; REQUEST_WORDS], 5), "the server polls");
            assert_eq!(words.answer_to(number), None);
            let post = window.claim().unwrap();
            assert_eq!((post.request, post.nr_bytes), ([number; REQUEST_WORDS], 5));
            assert_eq!(window.claim(), None, "claimed once");
            assert!(!words.withdraw(number), "a claimed post stays");
            assert!(!window.answer(&post, REPLY_5), "the client polls");
            assert_eq!(words.answer_to(number), Some(REPLY_5));
        }
    }

    #[test]
    fn an_unclaimed_post_can_be_withdrawn() {
        let window = Window::new(1).unwrap();
        let there = client(&window);
        let words = Words::new(there.words()).unwrap();
        for _ in 0..2 {
            words.post(1, [1; REQUEST_WORDS], 0);
            assert!(words.withdraw(1));
            assert_eq!(window.claim(), None);
        }
        words.post(1, [7; REQUEST_WORDS], 0);
        assert_eq!(window.claim().map(|post| post.request[0]), Some(7));
    }

    #[test]
    fn an_end_that_sleeps_is_woken() {
        let window = Window::new(1).unwrap();
        let there = client(&window);
        let words = Words::new(there.words()).unwrap();
        assert!(window.may_sleep());
        assert!(words.post(1, [1; REQUEST_WORDS], 0), "the server has to be woken");
        assert!(!window.may_sleep(), "a request is there");
        window.announce_awake();
        let post = window.claim().unwrap();
        assert_eq!(words.announce_client_sleep(1), None);
        assert!(window.answer(&post, REPLY_5), "the client has to be woken");

        assert!(!words.post(2, [1; REQUEST_WORDS], 0));
        let post = window.claim().unwrap();
        assert!(!window.answer(&post, REPLY_5));
        assert_eq!(words.announce_client_sleep(2), Some(REPLY_5), "an answer is there");
    }

    #[test]
    fn bytes_come_from_where_the_client_put_them() {
        let window = Window::new(FRAME_BYTES).unwrap();
        let there = client(&window);
        there.words()[BYTES_AT / 8 + 1].store(u64::from_ne_bytes(*b"abcdefgh"), Relaxed);
        let mut bytes = [0; 4];
        window.copy(10, &mut bytes);
        assert_eq!(&bytes, b"cdef");
        assert!(rustix::fs::ftruncate(window.file(), 0).is_err());
    }
}

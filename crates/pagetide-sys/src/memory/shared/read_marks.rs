//! Pages that some thread of some process is reading from disk.
//!
//! **Problem.** Processes that miss the same page at the same time would each read the page.
//!
//! **Idea.** A thread marks a page before the read. Another thread that finds the mark waits until
//! the mark is gone, and then finds the page in the cache.
//!
//! ```text
//!   reader   mark, read, nobody waits? ----------> unmark
//!                              | else pass the page to the server, which unmarks and wakes
//!   waiter   mark is taken --> wait, at most WAIT_MAX --> look again
//! ```
//!
//! **Data and invariants.** A word of a shared memory file holds a hash of the marked page, and a
//! bit that someone waits. Marks are hints. Any process may overwrite a word: threads then read a
//! page twice, or wait for [`WAIT_MAX`]. So a mark whose thread was killed costs one wait.
//!
//! **Ignored.** Two pages with the same word: the second one is not marked.
//!
//! Source: futex(2).

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::io::Errno;
use rustix::mm::ProtFlags;
use rustix::thread::futex;

use crate::memory::mapped::{Mapped, memory_file};

/// Number of words, a power of two: 16 KiB.
const NR_WORDS: usize = 1 << 12;
const LEN: usize = NR_WORDS * size_of::<u32>();
/// A bit of a word: some thread waits.
const WAITED: u32 = 1;
/// The maximum time of a wait: several reads of a disk.
const WAIT_MAX: futex::Timespec = futex::Timespec { tv_sec: 0, tv_nsec: 20_000_000 };

/// The result of [`ReadMarks::mark`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mark {
    /// The caller has marked the page.
    Own,
    /// The word belongs to another page.
    None,
    /// Another thread is reading the page.
    Taken,
}

/// The mapped words.
///
/// # Concurrency
/// Shared freely, among processes too. Only [`ReadMarks::wait`] blocks.
pub struct ReadMarks {
    mapped: Mapped,
    file: Option<OwnedFd>,
}

impl ReadMarks {
    /// Creates a file of words.
    ///
    /// # Errors
    /// Fails if memory or descriptors run out.
    pub fn new() -> io::Result<ReadMarks> {
        let file = memory_file("pagetide-read-marks", LEN)?;
        let mapped = ReadMarks::map(file.as_fd())?;
        Ok(ReadMarks { mapped, file: Some(file) })
    }

    /// Maps the words of another process.
    ///
    /// # Errors
    /// Fails if the system refuses, or if the file is too short.
    pub fn open(file: BorrowedFd<'_>) -> io::Result<ReadMarks> {
        if (rustix::fs::fstat(file)?.st_size as u64) < LEN as u64 {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        Ok(ReadMarks { mapped: ReadMarks::map(file)?.keep_from_children()?, file: None })
    }

    fn map(file: BorrowedFd<'_>) -> io::Result<Mapped> {
        Mapped::new(file, LEN, ProtFlags::READ | ProtFlags::WRITE)
    }

    /// Makes all words inaccessible, see [`FrameView::blank`](super::FrameView::blank).
    ///
    /// # Errors
    /// Fails if the system refuses the mapping.
    pub fn blank(&self) -> io::Result<()> {
        self.mapped.blank()
    }

    /// Returns the file for other processes to open. `None` in these processes.
    pub fn file(&self) -> Option<BorrowedFd<'_>> {
        self.file.as_ref().map(AsFd::as_fd)
    }

    /// Marks page `index` of the file with this tag.
    #[inline]
    pub fn mark(&self, tag: u32, index: u64) -> Mark {
        let (word, key) = self.find(tag, index);
        match word.compare_exchange(0, key, Ordering::AcqRel, Ordering::Relaxed) {
            Ok(_) => Mark::Own,
            Err(now) if now & !WAITED == key => Mark::Taken,
            Err(_) => Mark::None,
        }
    }

    /// Removes a mark if no thread waits. Returns false if one waits.
    #[inline]
    pub fn unmark_unwaited(&self, tag: u32, index: u64) -> bool {
        let (word, key) = self.find(tag, index);
        let unmarked = word.compare_exchange(key, 0, Ordering::AcqRel, Ordering::Relaxed);
        unmarked != Err(key | WAITED)
    }

    /// Removes a mark, if there is one, and wakes all threads that wait. Returns true if one did.
    #[inline]
    pub fn unmark(&self, tag: u32, index: u64) -> bool {
        if self.unmark_unwaited(tag, index) {
            return false;
        }
        let (word, _) = self.find(tag, index);
        word.store(0, Ordering::Release);
        // Without a wake-up, threads wait for `WAIT_MAX`.
        let _ = futex::wake(word, futex::Flags::empty(), i32::MAX as u32);
        true
    }

    /// Waits until the page's mark is gone, or for a signal. Removes a mark that still exists after
    /// 20 ms.
    pub fn wait(&self, tag: u32, index: u64) {
        let (word, key) = self.find(tag, index);
        let waited = key | WAITED;
        let told = word.compare_exchange(key, waited, Ordering::AcqRel, Ordering::Relaxed);
        if told.is_err_and(|now| now != waited) {
            return;
        }
        let result = futex::wait(word, futex::Flags::empty(), waited, Some(&WAIT_MAX));
        if result == Err(Errno::TIMEDOUT) {
            self.unmark(tag, index);
        }
    }

    /// Returns the word of a page, and the page's hash, which is neither 0 nor [`WAITED`].
    #[inline]
    fn find(&self, tag: u32, index: u64) -> (&AtomicU32, u32) {
        const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
        let hash = (u64::from(tag).wrapping_mul(ODD) ^ index).wrapping_mul(ODD);
        let word = &self.mapped.halves()[(hash >> 52) as usize % NR_WORDS];
        (word, (hash >> 16) as u32 & !WAITED | 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn both() -> (ReadMarks, ReadMarks) {
        let here = ReadMarks::new().expect("16 KiB");
        let there = ReadMarks::open(here.file().expect("made here")).expect("as long");
        (here, there)
    }

    #[test]
    fn one_of_two_marks_a_page() {
        let (here, there) = both();
        assert_eq!(here.mark(1, 7), Mark::Own);
        assert_eq!(there.mark(1, 7), Mark::Taken);
        assert_eq!(there.mark(2, 7), Mark::Own, "another file");
        assert!(here.unmark_unwaited(1, 7));
        assert_eq!(there.mark(1, 7), Mark::Own);
    }

    #[test]
    fn a_waiting_thread_goes_on_when_the_mark_is_gone() {
        let (here, there) = both();
        assert_eq!(here.mark(3, 9), Mark::Own);
        std::thread::scope(|scope| {
            scope.spawn(|| there.wait(3, 9));
            // On a loaded machine, the wait may end before this thread looks.
            let is_waited = || {
                let before = here.find(3, 9).0.load(Ordering::Relaxed);
                before & WAITED != 0 || before == 0
            };
            while !is_waited() {
                std::thread::yield_now();
            }
            here.unmark(3, 9);
        });
        assert!(!here.unmark(3, 9), "nothing is marked");
    }

    #[test]
    fn a_mark_that_stays_ends_a_wait() {
        let (here, there) = both();
        assert_eq!(here.mark(3, 9), Mark::Own);
        there.wait(3, 10); // Not marked.
        there.wait(3, 9);
        assert_eq!(there.mark(3, 9), Mark::Own, "its thread may be gone");
    }

    #[test]
    fn any_bits_are_a_mark() {
        let (here, _) = both();
        let (word, _) = here.find(5, 5);
        word.store(u32::MAX, Ordering::Relaxed);
        assert_eq!(here.mark(5, 5), Mark::None);
        assert!(!here.unmark(5, 5));
        here.wait(5, 5);
    }
}

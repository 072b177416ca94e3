//! File positions that several processes read and move without a server.
//!
//! **Problem.** Asking the server for the position is a round trip between two threads, as long as
//! copying 100 KiB.
//!
//! **Idea.** The position of an open file description is a word in a shared memory file. A reader
//! moves it over its range by compare-and-swap, and then owns the range.
//!
//! ```text
//!   word:    63       42 ......... 0        reader   12K --CAS--> 16K, copies 12K..16K
//!          | closed |   position    |       reader               16K --CAS--> 20K, ...
//!                                           closed   the next reader asks the server
//! ```
//!
//! **Data and invariants.** A word belongs to one description for ever. A closed word does not
//! move: the closer holds the position. Any value is a valid position. There are two files. Clients
//! move the words of read-only descriptions, and a client that overwrites them breaks only these
//! positions. The words of writable descriptions are in a file that clients can only read
//! ([`PositionView`]).
//!
//! **Ignored.** Descriptions beyond [`NR_WORDS`].
//!
//! Source: the Open Group's read(), "atomic" with respect to the file offset.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use rustix::mm::ProtFlags;

use crate::memory::mapped::{Mapped, memory_file};

/// The maximum number of descriptions with a word: 1 MiB of words.
const NR_WORDS: u32 = 1 << 17;
/// A bit of a word that only the server moves.
const CLOSED: u64 = 1 << 63;
const POSITION: u64 = (1 << 43) - 1;

/// The mapped words.
///
/// # Concurrency
/// Shared freely, among processes too. Never blocks.
pub struct Positions {
    mapped: Mapped,
    file: Option<OwnedFd>,
    /// Words allocated, in the process that made the file.
    nr_taken: AtomicU32,
}

impl Positions {
    /// Creates a file of words.
    ///
    /// # Errors
    /// Fails if memory or descriptors run out.
    pub fn new() -> io::Result<Positions> {
        let file = memory_file("pagetide-positions", len())?;
        let mapped = Positions::map(file.as_fd())?;
        Ok(Positions { mapped, file: Some(file), nr_taken: AtomicU32::new(0) })
    }

    /// Maps the positions of another process.
    ///
    /// # Errors
    /// Fails if the system refuses, or if the file is too short.
    pub fn open(file: BorrowedFd<'_>) -> io::Result<Positions> {
        if (rustix::fs::fstat(file)?.st_size as u64) < len() as u64 {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        Positions::of(Positions::map(file)?)
    }

    /// Maps the positions of another process, which this process only looks at.
    ///
    /// # Errors
    /// Fails as [`Positions::open`] does.
    pub fn open_view(file: BorrowedFd<'_>) -> io::Result<PositionView> {
        if (rustix::fs::fstat(file)?.st_size as u64) < len() as u64 {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        Positions::of(Mapped::new(file, len(), ProtFlags::READ)?).map(PositionView)
    }

    fn of(mapped: Mapped) -> io::Result<Positions> {
        let mapped = mapped.keep_from_children()?;
        Ok(Positions { mapped, file: None, nr_taken: AtomicU32::new(NR_WORDS) })
    }

    /// Makes all positions inaccessible, see [`FrameView::blank`](super::FrameView::blank).
    ///
    /// # Errors
    /// Fails if the system refuses the mapping.
    pub fn blank(&self) -> io::Result<()> {
        self.mapped.blank()
    }

    fn map(file: BorrowedFd<'_>) -> io::Result<Mapped> {
        Mapped::new(file, len(), ProtFlags::READ | ProtFlags::WRITE)
    }

    /// Returns the file for other processes to open. `None` in these processes.
    pub fn file(&self) -> Option<BorrowedFd<'_>> {
        self.file.as_ref().map(AsFd::as_fd)
    }

    /// Allocates an unused word with `position`. `None` if no word is left. Never 0.
    pub fn take(&self, position: u64) -> Option<u32> {
        let one_more = |nr: u32| (nr + 1 < NR_WORDS).then_some(nr + 1);
        let before = self.nr_taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more);
        let number = before.ok()? + 1;
        self.set(number, position);
        Some(number)
    }

    /// Moves a position over the next `total` bytes, limited by the file's `len`. Returns the first
    /// byte and the number of bytes. `None` if the word is closed.
    #[inline]
    pub fn advance(&self, number: u32, total: u64, len: u64) -> Option<(u64, u64)> {
        let word = self.word(number);
        let mut now = word.load(Ordering::Relaxed);
        loop {
            let base = now & POSITION;
            let nr_bytes = total.min(len.saturating_sub(base));
            if now & CLOSED != 0 {
                return None;
            }
            let next = (base + nr_bytes).min(POSITION);
            match word.compare_exchange_weak(now, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return Some((base, nr_bytes)),
                Err(changed) => now = changed,
            }
        }
    }

    /// Replaces a position by `next` of the position. Returns the new position. `None` if the word
    /// is closed, or if `next` has no position.
    #[inline]
    pub fn update(&self, number: u32, next: impl Fn(u64) -> Option<u64>) -> Option<u64> {
        loop {
            let now = self.look(number)?;
            let to = next(now)?;
            if to == now || self.replace(number, now, to) {
                return Some(to);
            }
        }
    }

    /// Returns the position. `None` if the word is closed.
    #[inline]
    pub fn look(&self, number: u32) -> Option<u64> {
        let word = self.word(number).load(Ordering::Acquire);
        (word & CLOSED == 0).then_some(word & POSITION)
    }

    /// Returns the position.
    pub fn get(&self, number: u32) -> u64 {
        self.word(number).load(Ordering::Acquire) & POSITION
    }

    /// Sets the position, and opens the word.
    pub fn set(&self, number: u32, position: u64) {
        self.word(number).store(position & POSITION, Ordering::Release);
    }

    /// Moves a position from `expected` to `position`. Returns false if it had moved.
    pub fn replace(&self, number: u32, expected: u64, position: u64) -> bool {
        let word = self.word(number);
        let (release, relaxed) = (Ordering::AcqRel, Ordering::Relaxed);
        word.compare_exchange(expected & POSITION, position & POSITION, release, relaxed).is_ok()
    }

    /// Closes the word, and returns the position, which then belongs to the caller.
    pub fn close(&self, number: u32) -> u64 {
        self.word(number).fetch_or(CLOSED, Ordering::AcqRel) & POSITION
    }

    #[inline]
    fn word(&self, number: u32) -> &AtomicU64 {
        &self.mapped.words()[(number % NR_WORDS) as usize]
    }
}

/// Mapped words that this process cannot write.
///
/// # Concurrency
/// Shared freely. Never blocks.
pub struct PositionView(Positions);

impl PositionView {
    /// Returns the position. `None` if the word is closed.
    #[inline]
    pub fn get(&self, number: u32) -> Option<u64> {
        self.0.look(number)
    }

    /// Makes all positions inaccessible, see [`Positions::blank`].
    ///
    /// # Errors
    /// Fails if the system refuses the mapping.
    pub fn blank(&self) -> io::Result<()> {
        self.0.blank()
    }
}

fn len() -> usize {
    NR_WORDS as usize * size_of::<u64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn both() -> (Positions, Positions) {
        let here = Positions::new().expect("a MiB");
        let there = Positions::open(here.file().expect("made here")).expect("as long");
        (here, there)
    }

    #[test]
    fn two_readers_share_a_file_out() {
        let (here, there) = both();
        let number = here.take(0).expect("the first");
        let drain = |positions: &Positions| {
            let mut ranges = Vec::new();
            while let Some((base, 1..)) = positions.advance(number, 7, 10_000) {
                ranges.push(base);
            }
            ranges
        };
        let mut all = std::thread::scope(|scope| {
            let other = scope.spawn(|| drain(&there));
            let mut all = drain(&here);
            all.extend(other.join().expect("no panic"));
            all
        });
        all.sort_unstable();
        assert!(all.iter().copied().eq((0..10_000).step_by(7)), "each range once: {}", all.len());
        assert_eq!(here.get(number), 10_000, "the last one ends where the file does");
    }

    #[test]
    fn a_closed_word_does_not_move() {
        let (here, there) = both();
        let number = here.take(40).expect("the first");
        assert_eq!(there.advance(number, 10, 100), Some((40, 10)));
        assert_eq!(here.close(number), 50);
        assert_eq!(there.advance(number, 10, 100), None);
        assert!(!there.replace(number, 50, 60));
        assert_eq!(here.get(number), 50);
    }

    #[test]
    fn a_word_moves_to_any_position_and_others_only_look() {
        let (here, there) = both();
        let number = here.take(40).expect("the first");
        let look = Positions::open_view(here.file().expect("made here")).expect("as long");
        assert_eq!(there.update(number, |now| now.checked_sub(50)), None);
        assert_eq!(there.update(number, |now| now.checked_sub(15)), Some(25));
        assert_eq!(look.get(number), Some(25));
        here.close(number);
        assert_eq!((there.update(number, Some), look.get(number)), (None, None));
        here.set(number, 7);
        assert_eq!((there.update(number, Some), look.get(number)), (Some(7), Some(7)));
    }

    #[test]
    fn any_bits_are_a_position_and_any_number_a_word() {
        let (here, there) = both();
        let number = here.take(0).expect("the first");
        here.word(number).store(u64::MAX >> 1, Ordering::Relaxed);
        assert_eq!(
            there.advance(number, u64::MAX, u64::MAX),
            Some((POSITION, u64::MAX - POSITION))
        );
        assert_eq!(there.get(number), POSITION);
        assert_eq!(there.advance(u32::MAX, 3, 100), Some((0, 3)));
    }

    #[test]
    fn words_are_given_once() {
        let (here, _) = both();
        let mut places: Vec<u32> = std::iter::from_fn(|| here.take(0)).collect();
        assert_eq!(places.len() as u32, NR_WORDS - 1);
        places.dedup();
        assert_eq!((places.len() as u32, places[0]), (NR_WORDS - 1, 1));
    }
}

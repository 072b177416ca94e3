//! File positions that several processes move by themselves.
//!
//! **Problem.** A read at the file position asks its server only where that is: a round trip of two
//! threads for each call, which takes as long as copying 100 KiB.
//!
//! **Idea.** The position of an open file description is a word in a memory file that all processes
//! under a server map. A reader moves it over what it is about to read, by compare-and-swap: the
//! range is then its own alone.
//!
//! ```text
//!   word:    63       42 ......... 0        reader   12K --CAS--> 16K, copies 12K..16K
//!          | closed |   position    |       reader               16K --CAS--> 20K, ...
//!                                           closed   the next reader asks the server
//! ```
//!
//! **Data and invariants.** A word is one description's for ever. A closed one does not move again:
//! the closer has the position instead. Every value is a position: bits that make none are
//! not looked at, so that a process that scribbles over the file moves what it has mapped, and
//! breaks nothing else. Servers therefore give words to descriptions that cannot write.
//!
//! **Ignored.** Descriptions beyond [`NR_PLACES`]: they have no word.
//!
//! Source: the Open Group's read(), "atomic" with respect to the file offset.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use rustix::mm::ProtFlags;

use crate::memory::mapped::{Mapped, memory_file};

/// Descriptions that can have a word: a MiB of them.
pub const NR_PLACES: u32 = 1 << 17;
/// Only the server moves it.
const CLOSED: u64 = 1 << 63;
/// The bits of a position.
const POSITION: u64 = (1 << 43) - 1;

/// The words, mapped.
///
/// # Concurrency
/// Shared freely, among processes too. Never waits.
pub struct Positions {
    mapped: Mapped,
    file: Option<OwnedFd>,
    /// Words that were given away; where the file was made.
    nr_taken: AtomicU32,
}

impl Positions {
    /// A new file of words.
    ///
    /// # Errors
    /// What the system says: of memory, or of descriptors.
    pub fn new() -> io::Result<Positions> {
        let file = memory_file("pagetide-positions", len())?;
        let mapped = Positions::map(file.as_fd())?;
        Ok(Positions { mapped, file: Some(file), nr_taken: AtomicU32::new(0) })
    }

    /// The positions of another process.
    ///
    /// # Errors
    /// What the system says; or the file is shorter than it should be.
    pub fn open(file: BorrowedFd<'_>) -> io::Result<Positions> {
        if (rustix::fs::fstat(file)?.st_size as u64) < len() as u64 {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mapped = Positions::map(file)?.keep_from_children()?;
        Ok(Positions { mapped, file: None, nr_taken: AtomicU32::new(NR_PLACES) })
    }

    /// Moves none from here on, and cannot: see [`FrameView::blank`](super::FrameView::blank).
    ///
    /// # Errors
    /// What the system says of mappings.
    pub fn blank(&self) -> io::Result<()> {
        self.mapped.blank()
    }

    fn map(file: BorrowedFd<'_>) -> io::Result<Mapped> {
        Mapped::new(file, len(), ProtFlags::READ | ProtFlags::WRITE)
    }

    /// What another process opens; `None` there.
    pub fn file(&self) -> Option<BorrowedFd<'_>> {
        self.file.as_ref().map(AsFd::as_fd)
    }

    /// A word for a description that is at `position`, never another's; `None` if there are
    /// no more. Never 0.
    pub fn take(&self, position: u64) -> Option<u32> {
        let one_more = |nr: u32| (nr + 1 < NR_PLACES).then_some(nr + 1);
        let before = self.nr_taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more);
        let place = before.ok()? + 1;
        self.set(place, position);
        Some(place)
    }

    /// Moves a position over the next `total` bytes of a file of `len`, as far as it has them;
    /// returns where they begin, and how many they are. `None` if the word is closed.
    #[inline]
    pub fn advance(&self, place: u32, total: u64, len: u64) -> Option<(u64, u64)> {
        let word = self.word(place);
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

    /// Where the position is.
    pub fn get(&self, place: u32) -> u64 {
        self.word(place).load(Ordering::Acquire) & POSITION
    }

    /// Moves a position to `position`, and opens the word.
    pub fn set(&self, place: u32, position: u64) {
        self.word(place).store(position & POSITION, Ordering::Release);
    }

    /// Moves a position from `expected` to `position`, unless it has moved already. Returns whether
    /// it did.
    pub fn replace(&self, place: u32, expected: u64, position: u64) -> bool {
        let word = self.word(place);
        let (release, relaxed) = (Ordering::AcqRel, Ordering::Relaxed);
        word.compare_exchange(expected & POSITION, position & POSITION, release, relaxed).is_ok()
    }

    /// From here on, the caller alone has the position, and this is it.
    pub fn close(&self, place: u32) -> u64 {
        self.word(place).fetch_or(CLOSED, Ordering::AcqRel) & POSITION
    }

    #[inline]
    fn word(&self, place: u32) -> &AtomicU64 {
        &self.mapped.words()[(place % NR_PLACES) as usize]
    }
}

fn len() -> usize {
    NR_PLACES as usize * size_of::<u64>()
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
        let place = here.take(0).expect("the first");
        let drain = |positions: &Positions| {
            let mut ranges = Vec::new();
            while let Some((base, 1..)) = positions.advance(place, 7, 10_000) {
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
        assert_eq!(here.get(place), 10_000, "the last one ends where the file does");
    }

    #[test]
    fn a_closed_word_does_not_move() {
        let (here, there) = both();
        let place = here.take(40).expect("the first");
        assert_eq!(there.advance(place, 10, 100), Some((40, 10)));
        assert_eq!(here.close(place), 50);
        assert_eq!(there.advance(place, 10, 100), None);
        assert!(!there.replace(place, 50, 60));
        assert_eq!(here.get(place), 50);
    }

    #[test]
    fn any_bits_are_a_position_and_any_number_a_place() {
        let (here, there) = both();
        let place = here.take(0).expect("the first");
        here.word(place).store(u64::MAX >> 1, Ordering::Relaxed);
        assert_eq!(there.advance(place, u64::MAX, u64::MAX), Some((POSITION, u64::MAX - POSITION)));
        assert_eq!(there.get(place), POSITION);
        assert_eq!(there.advance(u32::MAX, 3, 100), Some((0, 3)));
    }

    #[test]
    fn words_are_given_once() {
        let (here, _) = both();
        let mut places: Vec<u32> = std::iter::from_fn(|| here.take(0)).collect();
        assert_eq!(places.len() as u32, NR_PLACES - 1);
        places.dedup();
        assert_eq!((places.len() as u32, places[0]), (NR_PLACES - 1, 1));
    }
}

//! The position of an open file description.
//!
//! Problem: a request for the position costs more than the copy of the bytes. Idea: the position
//! moves to a word in shared memory (`pagetide_sys::shared::Positions`).
//!
//! ```text
//!   Own     in the server       the first calls
//!    | a second read, or an lseek of a position that has moved
//!    v
//!   Shared  in shared memory    read-only description: programs read and seek by themselves
//!    |                          writable description: programs only see the position
//!    | the kernel takes the file, or the word holds a value that was never stored
//!    v
//!   Own
//! ```
//!
//! Processes may write the words of read-only descriptions, but not the words of writable ones. A
//! process that corrupts shared words must not move other processes' writes. A write of several
//! packets holds the position in the server until its end, so that no process sees the position
//! between two packets.

use crate::errno::Errno;
use crate::wire::SHOWN;
use pagetide_sys::shared::Positions;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// The shared words of a run.
pub(super) struct Words {
    /// Positions of read-only descriptions, which processes move.
    moved: Arc<Positions>,
    /// Positions of writable descriptions, which processes only read.
    shown: Arc<Positions>,
    shown_file: Arc<OwnedFd>,
}

impl Words {
    /// Makes the files of words.
    ///
    /// # Errors
    /// Fails with the system's error if memory or descriptors run out.
    pub(super) fn new() -> io::Result<Words> {
        let (moved, shown) = (Positions::new()?, Positions::new()?);
        let file = shown.file().ok_or(Errno::BADF)?;
        let shown_file = super::identity::open_read_only(file)?;
        Ok(Words { moved: Arc::new(moved), shown: Arc::new(shown), shown_file })
    }

    /// Returns the files for processes to map: writable, and read-only.
    pub(super) fn files(&self) -> Option<[BorrowedFd<'_>; 2]> {
        Some([self.moved.file()?, self.shown_file.as_fd()])
    }
}

pub(super) enum Position {
    /// In the server.
    Own(u64),
    /// In the shared word with this number.
    Shared(Arc<Positions>, u32),
    /// In the server during a call. The word with this number is closed meanwhile.
    Held(u64, Arc<Positions>, u32),
}

impl Position {
    pub(super) fn get(&self) -> u64 {
        match self {
            Position::Own(position) | Position::Held(position, ..) => *position,
            Position::Shared(positions, number) => positions.get(*number),
        }
    }

    pub(super) fn set(&mut self, to: u64) {
        match self {
            Position::Own(position) | Position::Held(position, ..) => *position = to,
            Position::Shared(positions, number) => positions.set(*number, to),
        }
    }

    /// Replaces the position by `next` of the position. Returns `None` if `next` does.
    pub(super) fn update(&mut self, next: impl Fn(u64) -> Option<u64>) -> Option<u64> {
        loop {
            let now = self.get();
            let to = next(now)?;
            if self.replace(now, to) {
                return Some(to);
            }
            if self.get() == now {
                self.close();
            }
        }
    }

    /// Moves the position over the next `total` bytes, or to the end of a file of `len` bytes.
    /// Returns the old position and the number of bytes.
    pub(super) fn advance(&mut self, total: u64, len: u64) -> (u64, u64) {
        if let Position::Shared(positions, number) = self
            && let Some(range) = positions.advance(*number, total, len)
        {
            return range;
        }
        if let Position::Held(position, ..) = self {
            let (base, nr_bytes) = (*position, total.min(len.saturating_sub(*position)));
            *position = base + nr_bytes;
            return (base, nr_bytes);
        }
        let base = self.close();
        let nr_bytes = total.min(len.saturating_sub(base));
        *self = Position::Own(base + nr_bytes);
        (base, nr_bytes)
    }

    /// Moves the position from `expected` to `to`. Returns false if the position is another.
    pub(super) fn replace(&mut self, expected: u64, to: u64) -> bool {
        match self {
            Position::Own(position) | Position::Held(position, ..) => {
                let is_expected = *position == expected;
                if is_expected {
                    *position = to;
                }
                is_expected
            }
            Position::Shared(positions, number) => positions.replace(*number, expected, to),
        }
    }

    /// Moves the position to a shared word if needed, and returns the word's number as in
    /// [`Reply::word`](crate::wire::Reply::word). Returns 0 if no word is free.
    pub(super) fn share(&mut self, words: &Words, is_writable: bool) -> u32 {
        match self {
            Position::Own(position) => {
                let positions = if is_writable { &words.shown } else { &words.moved };
                if let Some(number) = positions.take(*position) {
                    *self = Position::Shared(Arc::clone(positions), number);
                }
            }
            Position::Held(position, positions, number) => {
                positions.set(*number, *position);
                *self = Position::Shared(Arc::clone(positions), *number);
            }
            Position::Shared(..) => {}
        }
        match self {
            Position::Shared(_, number) if is_writable => *number | SHOWN,
            Position::Shared(_, number) => *number,
            _ => 0,
        }
    }

    /// Closes the shared word until the next [`Position::share`].
    pub(super) fn hold(&mut self) {
        if let Position::Shared(positions, number) = self {
            *self = Position::Held(positions.close(*number), Arc::clone(positions), *number);
        }
    }

    /// Moves the position back to the server. Returns the position.
    pub(super) fn close(&mut self) -> u64 {
        let position = match self {
            Position::Shared(positions, number) => positions.close(*number),
            Position::Own(position) | Position::Held(position, ..) => *position,
        };
        *self = Position::Own(position);
        position
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shared_position_is_what_readers_made_it() {
        let words = Words::new().expect("two MiB");
        let positions = Arc::clone(&words.moved);
        let mut position = Position::Own(5);
        let number = position.share(&words, false);
        assert_eq!(position.share(&words, false), number, "one word is enough");
        assert_eq!(positions.advance(number, 10, 100), Some((5, 10)));
        assert_eq!(position.advance(10, 100), (15, 10));
        assert_eq!(position.update(|now| now.checked_sub(20)), Some(5));
        assert_eq!(position.update(|now| now.checked_sub(20)), None);
        assert_eq!(positions.advance(number, 200, 100), Some((5, 95)));
        assert_eq!(position.close(), 100);
        assert_eq!(positions.advance(number, 1, 200), None, "readers have to ask");
        assert_eq!(position.advance(1, 200), (100, 1));
    }

    #[test]
    fn a_word_that_somebody_else_closed_is_given_up() {
        let words = Words::new().expect("two MiB");
        for move_on in [
            |position: &mut Position| position.advance(10, 100).0 + 10,
            |position: &mut Position| position.update(|now| Some(now + 10)).expect("it moves"),
        ] {
            let mut position = Position::Own(5);
            let number = position.share(&words, false);
            words.moved.close(number);
            assert_eq!(move_on(&mut position), 15);
            assert!(matches!(position, Position::Own(15)));
            assert!(position.share(&words, false) > number, "and has another");
        }
    }

    #[test]
    fn a_position_that_a_call_holds_is_not_seen() {
        let words = Words::new().expect("two MiB");
        let mut position = Position::Own(5);
        let number = position.share(&words, true);
        assert_eq!(number & SHOWN, SHOWN);
        let seen = || words.shown.look(number & !SHOWN);
        assert_eq!(seen(), Some(5));
        position.hold();
        position.set(9);
        assert_eq!((position.get(), seen()), (9, None));
        assert_eq!((position.advance(3, 100), position.get(), seen()), ((9, 3), 12, None));
        position.set(9);
        assert_eq!(position.share(&words, true), number, "the same word");
        assert_eq!(seen(), Some(9));
        assert_eq!((position.close(), seen()), (9, None));
    }
}

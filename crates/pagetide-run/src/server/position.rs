//! The position of an open file description.
//!
//! Problem: a reader needs the position, and a request for the position costs more than the copy of
//! the bytes. Idea: the second read of a read-only description moves the position to a word in
//! shared memory. Readers move the word without requests (`pagetide_sys::shared::Positions`).
//!
//! ```text
//!   Own     in the server      read and write, append, lseek
//!    | a second read of a read-only description
//!    v
//!   Shared  in shared memory    read of any process; read and lseek in the server
//!    | the kernel takes the file, or the word holds a value that was never stored
//!    v
//!   Own
//! ```
//!
//! The server keeps the positions of writable descriptions. A process that corrupts shared words
//! must not move other processes' writes.

use pagetide_sys::shared::Positions;
use std::sync::Arc;

pub(super) enum Position {
    /// In the server.
    Own(u64),
    /// In the shared word with this number.
    Shared(Arc<Positions>, u32),
}

impl Position {
    pub(super) fn get(&self) -> u64 {
        match self {
            Position::Own(position) => *position,
            Position::Shared(positions, place) => positions.get(*place),
        }
    }

    pub(super) fn set(&mut self, to: u64) {
        match self {
            Position::Own(position) => *position = to,
            Position::Shared(positions, place) => positions.set(*place, to),
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
        if let Position::Shared(positions, place) = self
            && let Some(range) = positions.advance(*place, total, len)
        {
            return range;
        }
        let base = self.close();
        let nr_bytes = total.min(len.saturating_sub(base));
        *self = Position::Own(base + nr_bytes);
        (base, nr_bytes)
    }

    /// Moves the position from `expected` to `to`. Returns false if the position is another.
    pub(super) fn replace(&mut self, expected: u64, to: u64) -> bool {
        match self {
            Position::Own(position) if *position == expected => {
                *position = to;
                true
            }
            Position::Own(_) => false,
            Position::Shared(positions, place) => positions.replace(*place, expected, to),
        }
    }

    /// Returns the number of the shared word. Moves the position there first if needed. Returns 0
    /// if no word is free.
    pub(super) fn share(&mut self, positions: &Arc<Positions>) -> u32 {
        if let Position::Own(position) = self
            && let Some(place) = positions.take(*position)
        {
            *self = Position::Shared(Arc::clone(positions), place);
        }
        match self {
            Position::Own(_) => 0,
            Position::Shared(_, place) => *place,
        }
    }

    /// Moves the position back to the server. Returns the position.
    pub(super) fn close(&mut self) -> u64 {
        if let Position::Shared(positions, place) = self {
            *self = Position::Own(positions.close(*place));
        }
        self.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shared_position_is_what_readers_made_it() {
        let positions = Arc::new(Positions::new().expect("a MiB"));
        let mut position = Position::Own(5);
        let place = position.share(&positions);
        assert_eq!(position.share(&positions), place, "one word is enough");
        assert_eq!(positions.advance(place, 10, 100), Some((5, 10)));
        assert_eq!(position.advance(10, 100), (15, 10));
        assert_eq!(position.update(|now| now.checked_sub(20)), Some(5));
        assert_eq!(position.update(|now| now.checked_sub(20)), None);
        assert_eq!(positions.advance(place, 200, 100), Some((5, 95)));
        assert_eq!(position.close(), 100);
        assert_eq!(positions.advance(place, 1, 200), None, "readers have to ask");
        assert_eq!(position.advance(1, 200), (100, 1));
    }

    #[test]
    fn a_word_that_somebody_else_closed_is_given_up() {
        let positions = Arc::new(Positions::new().expect("a MiB"));
        for move_on in [
            |position: &mut Position| position.advance(10, 100).0 + 10,
            |position: &mut Position| position.update(|now| Some(now + 10)).expect("it moves"),
        ] {
            let mut position = Position::Own(5);
            let place = position.share(&positions);
            positions.close(place);
            assert_eq!(move_on(&mut position), 15);
            assert!(matches!(position, Position::Own(15)));
            assert!(position.share(&positions) > place, "and has another");
        }
    }
}

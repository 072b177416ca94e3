//! Where an open file description reads and writes next.
//!
//! Problem: a reader at the position need only know where that is, and asking costs more than
//! the bytes do. Idea: a description that can only be read, and is read there more than once, has
//! its position in a word that its readers move by themselves (`pagetide_sys::shared::Positions`).
//!
//! ```text
//!   Own     here         read and write, append, lseek
//!    | a second read of a description that cannot write
//!    v
//!   Shared  in a word    its readers, wherever they are; read and lseek here, by the same means
//!    | the kernel takes the file, or the word says what was never written there
//!    v
//!   Own
//! ```
//!
//! Those that can write keep it here: a process that scribbles over the words must not make others
//! write where they did not mean to.

use pagetide_sys::shared::Positions;
use std::sync::Arc;

/// A description's position.
pub(super) enum Position {
    /// Known here alone.
    Own(u64),
    /// In the word of that number.
    Shared(Arc<Positions>, u32),
}

impl Position {
    /// Where it is.
    pub(super) fn get(&self) -> u64 {
        match self {
            Position::Own(position) => *position,
            Position::Shared(positions, place) => positions.get(*place),
        }
    }

    /// Moves it.
    pub(super) fn set(&mut self, to: u64) {
        match self {
            Position::Own(position) => *position = to,
            Position::Shared(positions, place) => positions.set(*place, to),
        }
    }

    /// Moves it to where `next` says from where it is; `None` where that says so.
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

    /// Moves it over the next `total` bytes of a file of `len`, as far as it has them; returns
    /// where they begin, and how many they are.
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

    /// Moves it from `expected` to `to`, if it is there still.
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

    /// The number of its word, to which it moves if it has none; 0 where there are no more.
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

    /// From here on, no process moves it; returns where it is.
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

//! Memory of a caller that is copied into, and need not be initialised.
//!
//! **Problem.** Zeroing a buffer before a read costs as much as the read of a page. A `&mut [u8]`
//! of uninitialised bytes is undefined behaviour. **Idea.** Copies go to raw memory, and the number
//! of initialised bytes is counted.
//!
//! ```text
//!   |<------ filled ------>|            |
//!   |         |<-- window -->|          |   the next copy fills the window, and then:
//!   |<------- filled ------->|          |
//! ```
//!
//! **Invariants.** S57: the bytes before `filled` are initialised. Nothing stores uninitialised
//! bytes, so that a target may be made of initialised bytes too.

use std::fmt;
use std::mem::MaybeUninit;
use std::ops::Range;

/// The target of a copy out of a frame: bytes, or a [`Target`]. A copy fills all of it.
pub trait CopyTarget: sealed::Fillable {}

pub(crate) mod sealed {
    /// Methods for the copies of this crate.
    pub trait Fillable {
        /// Returns exclusive, writable memory, and its length.
        fn place(&mut self) -> (*mut u8, usize);

        /// Takes note that the memory is initialised.
        fn note_filled(&mut self);
    }
}

impl CopyTarget for [u8] {}
impl<const N: usize> CopyTarget for [u8; N] {}
impl CopyTarget for Target<'_> {}

impl sealed::Fillable for [u8] {
    #[inline]
    fn place(&mut self) -> (*mut u8, usize) {
        (self.as_mut_ptr(), self.len())
    }

    #[inline]
    fn note_filled(&mut self) {}
}

impl<const N: usize> sealed::Fillable for [u8; N] {
    #[inline]
    fn place(&mut self) -> (*mut u8, usize) {
        self.as_mut_slice().place()
    }

    #[inline]
    fn note_filled(&mut self) {}
}

/// Memory to copy into, part by part.
pub struct Target<'t> {
    memory: &'t mut [MaybeUninit<u8>],
    filled: usize,
    window: Range<usize>,
}

impl<'t> Target<'t> {
    /// Takes memory that need not be initialised. The window is all of it.
    #[inline]
    pub fn new(memory: &'t mut [MaybeUninit<u8>]) -> Target<'t> {
        let window = 0..memory.len();
        Target { memory, filled: 0, window }
    }

    /// Takes initialised bytes.
    #[inline]
    pub fn of(bytes: &'t mut [u8]) -> Target<'t> {
        let (start, len) = (bytes.as_mut_ptr().cast::<MaybeUninit<u8>>(), bytes.len());
        // SAFETY: S57 (only initialised bytes are stored): the same memory, exclusively borrowed.
        Target::new(unsafe { std::slice::from_raw_parts_mut(start, len) })
    }

    /// Returns the length of the window.
    #[inline]
    pub fn len(&self) -> usize {
        self.window.end - self.window.start
    }

    /// Returns true if the window has no bytes.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Moves the window. Panics if `window` leaves the memory.
    #[inline]
    pub fn select(&mut self, window: Range<usize>) {
        assert!(window.start <= window.end && window.end <= self.memory.len(), "S57: {window:?}");
        self.window = window;
    }

    /// Shortens the window to its first `len` bytes.
    #[inline]
    pub fn truncate(&mut self, len: usize) {
        self.window.end = self.window.end.min(self.window.start + len);
    }

    /// Fills the window. Panics unless `source` is as long.
    pub fn write(&mut self, source: &[u8]) {
        let window = self.window.clone();
        self.memory[window].write_copy_of_slice(source);
        sealed::Fillable::note_filled(self);
    }

    /// Returns the first `len` bytes. Panics if they were not all filled, from the first one on.
    #[inline]
    pub fn into_filled(self, len: usize) -> &'t mut [u8] {
        assert!(len <= self.filled, "S57: {len} bytes of {} filled", self.filled);
        let start = self.memory.as_mut_ptr().cast::<u8>();
        // SAFETY: S57 (bytes before `filled` are initialised), for the life of the borrow.
        unsafe { std::slice::from_raw_parts_mut(start, len) }
    }
}

impl sealed::Fillable for Target<'_> {
    #[inline]
    fn place(&mut self) -> (*mut u8, usize) {
        let window = &mut self.memory[self.window.clone()];
        (window.as_mut_ptr().cast(), window.len())
    }

    #[inline]
    fn note_filled(&mut self) {
        if self.window.start <= self.filled {
            self.filled = self.filled.max(self.window.end);
        }
    }
}

impl fmt::Debug for Target<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Target({:?}, {} of {} filled)", self.window, self.filled, self.memory.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_bytes_filled_from_the_first_one_on_are_returned() {
        let mut memory = [MaybeUninit::uninit(); 8];
        let mut target = Target::new(&mut memory);
        target.select(0..3);
        target.write(b"abc");
        target.select(3..6);
        target.truncate(2);
        target.write(b"de");
        target.select(6..8);
        target.write(b"xy");
        assert_eq!(target.into_filled(5), b"abcde");
    }

    #[test]
    #[should_panic(expected = "S57: 4 bytes of 3 filled")]
    fn bytes_that_were_not_filled_are_refused() {
        let mut memory = [MaybeUninit::uninit(); 8];
        let mut target = Target::new(&mut memory);
        target.select(0..3);
        target.write(b"abc");
        target.into_filled(4);
    }

    #[test]
    fn initialised_bytes_are_a_target_too() {
        let mut bytes = *b"abcd";
        let mut target = Target::of(&mut bytes);
        target.select(1..2);
        target.write(b"x");
        assert_eq!(&bytes, b"axcd");
    }
}

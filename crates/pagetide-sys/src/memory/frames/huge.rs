//! Huge pages for a memory file: which part of it is to be made of them next.
//!
//! **Problem.** Private memory gets huge pages by advice, as it is touched; a memory file only
//! where the administrator has allowed it for all files (`shmem_enabled`), which is nearly nowhere.
//! In small ones, each frame costs a page fault here and a part of one in each process that looks
//! at it, and reaches the device as a piece of its own.
//!
//! **Idea.** `MADV_COLLAPSE` makes a huge page of a block whatever is allowed, as long as there is
//! anything in it. It takes from 0.1 to 5 ms, as long as clearing 2 MiB takes: so a worker does it
//! ahead of the frames' use, as far ahead as there is memory in use, and leaves out what they
//! would have to wait for.
//!
//! ```text
//!             in use           front     being made, made
//!   blocks  |#|#|#|#|#|#|#|#|#|#| | | |+|+|+|+|+| | | | |
//!                                 skipped   at most 64 MiB ahead
//! ```
//!
//! A thread about to use many frames has their blocks made itself, or waits for the worker: where
//! memory comes slowly, it would run past the front, and small pages stay small.
//!
//! **Data and invariants.** A state for each whole block, which rises until the block is withheld
//! and allowed again: nothing is made twice, nor what is in use. One thread makes blocks at a time.
//!
//! **Ignored.** Failure: what is not made huge is made of small pages, as it would have been.
//! Frames that are not used front to back: there are fewer huge pages then.
//!
//! Source: Linux madvise(2), `MADV_COLLAPSE` (6.1 and later).

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// Bytes of a huge page.
pub(super) const BLOCK_BYTES: usize = 2 << 20;
/// Blocks made ahead, at most.
const AHEAD_MAX: usize = 32;
/// Blocks made with one call: each call waits for all processors once.
const STEP_MAX: usize = 4;
/// Blocks next to the front, which is there before they are made.
const SKIPPED: usize = 2;

const NEW: u8 = 0;
const MAKING: u8 = 1;
const MADE: u8 = 2;
const USED: u8 = 3;

/// What is known of each block.
pub(super) struct HugeBlocks {
    states: Box<[AtomicU8]>,
    nr_used: AtomicUsize,
    /// The block that was the last to come into use.
    front: AtomicUsize,
    /// A block has come into use since the last question.
    has_moved: AtomicBool,
    /// Held while blocks are made.
    making: Mutex<()>,
}

impl HugeBlocks {
    /// Those of `len` bytes; what follows the last whole one is none.
    pub(super) fn new(len: usize) -> HugeBlocks {
        HugeBlocks {
            states: (0..len / BLOCK_BYTES).map(|_| AtomicU8::new(NEW)).collect(),
            nr_used: AtomicUsize::new(0),
            front: AtomicUsize::new(0),
            has_moved: AtomicBool::new(false),
            making: Mutex::new(()),
        }
    }

    /// Byte `at` is about to be used.
    #[inline]
    pub(super) fn note_use(&self, at: usize) {
        let block = at / BLOCK_BYTES;
        if self.states.get(block).is_some_and(|state| state.load(Relaxed) != USED) {
            self.move_front(block);
        }
    }

    #[cold]
    fn move_front(&self, block: usize) {
        if self.states[block].swap(USED, Relaxed) != USED {
            self.nr_used.fetch_add(1, Relaxed);
            self.front.store(block, Relaxed);
            self.has_moved.store(true, Relaxed);
        }
    }

    /// Whether there may be something to make; true for one caller.
    #[inline]
    pub(super) fn has_moved(&self) -> bool {
        self.has_moved.load(Relaxed) && self.has_moved.swap(false, Relaxed)
    }

    /// Has the next blocks made, given as bytes; what `make` answers, or `None` if that is enough
    /// for now.
    pub(super) fn make_next<T>(&self, make: impl FnOnce(Range<usize>) -> T) -> Option<T> {
        let _alone = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        let blocks = self.next()?;
        Some(self.make(blocks, make))
    }

    /// Has the blocks of these bytes made that are still new; when it returns, no thread is at
    /// them.
    pub(super) fn make_all(&self, bytes: Range<usize>, mut make: impl FnMut(Range<usize>)) {
        let blocks = bytes.start / BLOCK_BYTES..bytes.end.div_ceil(BLOCK_BYTES);
        for block in blocks.start..blocks.end.min(self.states.len()) {
            if self.states[block].load(Relaxed) <= MAKING {
                let _alone = self.making.lock().unwrap_or_else(PoisonError::into_inner);
                if self.take(block) {
                    self.make(block..block + 1, &mut make);
                }
            }
        }
    }

    /// The blocks of these bytes are not to be made; when it returns, no thread is at them.
    pub(super) fn withhold(&self, bytes: Range<usize>) {
        let _alone = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        self.set(bytes, USED);
    }

    /// The blocks of these bytes may be made, as if they had never been used.
    pub(super) fn allow(&self, bytes: Range<usize>) {
        self.set(bytes, NEW);
    }

    fn set(&self, bytes: Range<usize>, state: u8) {
        let end = (bytes.end / BLOCK_BYTES).min(self.states.len());
        for block in &self.states[bytes.start / BLOCK_BYTES..end] {
            block.store(state, Relaxed);
        }
    }

    fn make<T>(&self, blocks: Range<usize>, make: impl FnOnce(Range<usize>) -> T) -> T {
        let made = make(blocks.start * BLOCK_BYTES..blocks.end * BLOCK_BYTES);
        for state in &self.states[blocks] {
            state.fetch_max(MADE, Relaxed);
        }
        made
    }

    fn take(&self, block: usize) -> bool {
        self.states[block].compare_exchange(NEW, MAKING, Relaxed, Relaxed).is_ok()
    }

    /// The next blocks to make, for the caller alone.
    fn next(&self) -> Option<Range<usize>> {
        let nr_used = self.nr_used.load(Relaxed);
        let first = self.front.load(Relaxed) + 1;
        let end = (first + nr_used.min(AHEAD_MAX)).min(self.states.len());
        // At the start no worker is fast enough.
        let first = first + SKIPPED.min(nr_used / 2);
        let is_new = |block: &usize| self.states[*block].load(Relaxed) == NEW;
        let start = (first..end).find(is_new)?;
        let nr = (start..end).take(STEP_MAX).take_while(|block| self.take(*block)).count();
        (nr > 0).then_some(start..start + nr)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is made next, in blocks.
    fn next(blocks: &HugeBlocks) -> Option<Range<usize>> {
        blocks.make_next(in_blocks)
    }

    fn in_blocks(bytes: Range<usize>) -> Range<usize> {
        bytes.start / BLOCK_BYTES..bytes.end / BLOCK_BYTES
    }

    fn use_block(blocks: &HugeBlocks, block: usize) {
        blocks.note_use(block * BLOCK_BYTES + 8192);
    }

    #[test]
    fn as_much_is_made_ahead_as_is_in_use() {
        let blocks = HugeBlocks::new(100 * BLOCK_BYTES);
        assert_eq!(next(&blocks), None, "nobody has used anything");
        use_block(&blocks, 0);
        assert_eq!((next(&blocks), next(&blocks)), (Some(1..2), None));
        use_block(&blocks, 1);
        assert_eq!((next(&blocks), next(&blocks)), (Some(3..4), None), "block 2 is too near");
        (2..10).for_each(|block| use_block(&blocks, block));
        assert_eq!(next(&blocks), Some(12..16));
        assert_eq!(next(&blocks), Some(16..20));
        assert_eq!(next(&blocks), None);
        use_block(&blocks, 10);
        assert_eq!((next(&blocks), next(&blocks)), (Some(20..22), None), "11 are in use");
    }

    #[test]
    fn what_is_in_use_is_not_made() {
        let blocks = HugeBlocks::new(8 * BLOCK_BYTES);
        [4, 5, 0].into_iter().for_each(|block| use_block(&blocks, block));
        assert_eq!((next(&blocks), next(&blocks)), (Some(2..4), None));
    }

    #[test]
    fn who_wants_blocks_has_those_made_that_nobody_made() {
        let blocks = HugeBlocks::new(8 * BLOCK_BYTES);
        let all = |bytes: Range<usize>| {
            let mut made = Vec::new();
            blocks.make_all(bytes, |bytes| made.push(in_blocks(bytes)));
            made
        };
        [0, 5].into_iter().for_each(|block| use_block(&blocks, block));
        assert_eq!(next(&blocks), Some(7..8), "two are in use, the next is too near");
        assert_eq!(all(3 * BLOCK_BYTES + 4096..6 * BLOCK_BYTES + 4096), [3..4, 4..5, 6..7]);
        assert!(all(3 * BLOCK_BYTES..8 * BLOCK_BYTES).is_empty(), "made, or in use");
        assert!(all(7 * BLOCK_BYTES..9 * BLOCK_BYTES).is_empty(), "there is no block 8");
    }

    #[test]
    fn who_wants_a_block_waits_for_who_makes_it() {
        let blocks = HugeBlocks::new(4 * BLOCK_BYTES);
        use_block(&blocks, 0);
        let is_made = AtomicBool::new(false);
        let (begun, begins) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                blocks.make_next(|_| {
                    begun.send(()).expect("somebody waits");
                    (0..100).for_each(|_| std::thread::yield_now());
                    is_made.store(true, Relaxed);
                })
            });
            begins.recv().expect("the thread makes one");
            blocks.make_all(BLOCK_BYTES..2 * BLOCK_BYTES, |_| panic!("made twice"));
            assert!(is_made.load(Relaxed));
        });
    }

    #[test]
    fn what_is_withheld_is_not_made() {
        let blocks = HugeBlocks::new(8 * BLOCK_BYTES);
        (0..2).for_each(|block| use_block(&blocks, block));
        blocks.withhold(3 * BLOCK_BYTES..8 * BLOCK_BYTES);
        assert_eq!(next(&blocks), None);
        blocks.make_all(4 * BLOCK_BYTES..8 * BLOCK_BYTES, |_| panic!("made"));
        blocks.allow(3 * BLOCK_BYTES..8 * BLOCK_BYTES);
        assert_eq!(next(&blocks), Some(3..4));
    }

    #[test]
    fn a_part_of_a_block_is_none() {
        let blocks = HugeBlocks::new(2 * BLOCK_BYTES + 4096);
        use_block(&blocks, 2);
        assert!(!blocks.has_moved());
        use_block(&blocks, 0);
        assert_eq!((next(&blocks), next(&blocks)), (Some(1..2), None));
    }

    #[test]
    fn a_block_is_news_once() {
        let blocks = HugeBlocks::new(4 * BLOCK_BYTES);
        use_block(&blocks, 0);
        assert!(blocks.has_moved() && !blocks.has_moved());
        use_block(&blocks, 0);
        assert!(!blocks.has_moved());
        next(&blocks);
        use_block(&blocks, 1);
        assert!(blocks.has_moved(), "also one that was made");
    }
}

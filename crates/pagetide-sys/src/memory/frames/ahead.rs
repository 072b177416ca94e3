//! Which blocks of a memory file are made huge pages of before they are used.
//!
//! **Problem.** The kernel makes huge pages of a memory file only where it is told to, block by
//! block. That takes less than touching the frames one by one, unless the machine is a virtual one
//! whose host has taken free memory back: it takes back whole blocks, so that small pages are at
//! hand, and a huge one waits for the host.
//!
//! **Idea.** Each block is asked for once. After one that was slow to come, a few are left to small
//! pages; what is in use becomes huge later, when there is time.
//!
//! Source: Linux madvise(2), `MADV_COLLAPSE` (6.1 and later); Linux documentation, "Free Page
//! Reporting" (mm/free_page_reporting).

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

/// CPU time of the caller from which a huge page is slow: clearing one takes a tenth to a quarter.
const SLOW_NS: u64 = 1_000_000;
/// Blocks left out after a slow one: were all slow, it would be an eighth of the time.
const NR_LEFT_OUT: u32 = 4;

/// What is known of each block.
#[derive(Default)]
pub(super) struct HugeAhead {
    asked: Box<[AtomicBool]>,
    nr_left_out: AtomicU32,
}

impl HugeAhead {
    pub(super) fn new(nr_blocks: usize) -> HugeAhead {
        let asked = (0..nr_blocks).map(|_| AtomicBool::new(false)).collect();
        HugeAhead { asked, nr_left_out: AtomicU32::new(0) }
    }

    pub(super) fn nr_blocks(&self) -> usize {
        self.asked.len()
    }

    /// Whether the caller is to have this block made; there is one such caller, if any.
    #[inline]
    pub(super) fn is_next(&self, block: usize) -> bool {
        let is_new = |asked: &AtomicBool| !asked.load(Relaxed) && !asked.swap(true, Relaxed);
        self.asked.get(block).is_some_and(is_new) && !self.leaves_out()
    }

    fn leaves_out(&self) -> bool {
        self.nr_left_out.fetch_update(Relaxed, Relaxed, |nr| nr.checked_sub(1)).is_ok()
    }

    /// A block took its caller so long.
    pub(super) fn note(&self, cpu_ns: u64) {
        if cpu_ns > SLOW_NS {
            self.nr_left_out.store(NR_LEFT_OUT, Relaxed);
        }
    }

    /// These blocks are used again after their memory was given back: they may be asked for again.
    pub(super) fn forget(&self, blocks: Range<usize>) {
        let end = blocks.end.min(self.asked.len());
        for asked in &self.asked[blocks.start.min(end)..end] {
            asked.store(false, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_block_is_asked_for_once_and_again_after_it_was_forgotten() {
        let ahead = HugeAhead::new(3);
        let ask = || [0, 1, 2, 3].map(|block| ahead.is_next(block));
        assert_eq!(ask(), [true, true, true, false]);
        assert_eq!(ask(), [false; 4]);
        ahead.forget(1..9);
        assert_eq!(ask(), [false, true, true, false]);
    }

    #[test]
    fn after_a_slow_block_some_are_left_out() {
        let ahead = HugeAhead::new(100);
        let next = |from: usize| (from..100).position(|block| ahead.is_next(block));
        assert_eq!(next(0), Some(0));
        ahead.note(SLOW_NS);
        assert_eq!(next(1), Some(0), "it was not slow");
        ahead.note(SLOW_NS + 1);
        assert_eq!(next(2), Some(4));
        assert_eq!(next(7), Some(0));
    }
}

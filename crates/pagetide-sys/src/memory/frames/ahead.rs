//! Huge pages in a memory file before its blocks are used.
//!
//! **Problem.** The kernel makes huge pages in a memory file only on request. A huge page is faster
//! than touching its frames one by one, unless a virtual machine's host has taken back free memory.
//!
//! **Idea.** Each block is requested once. After a slow request, a few blocks stay small until idle
//! time.
//!
//! Source: Linux madvise(2), `MADV_COLLAPSE` (6.1 and later), and the Linux documentation, "Free
//! Page Reporting" (mm/free_page_reporting).

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

/// The CPU time of a slow request. Clearing takes 10 to 25 % of this.
const SLOW_NS: u64 = 1_000_000;
/// Blocks skipped after a slow one. Limits the cost to an eighth if all are slow.
const NR_LEFT_OUT: u32 = 4;

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

    /// At most one caller per block gets true.
    #[inline]
    pub(super) fn is_next(&self, block: usize) -> bool {
        let is_new = |asked: &AtomicBool| !asked.load(Relaxed) && !asked.swap(true, Relaxed);
        self.asked.get(block).is_some_and(is_new) && !self.leaves_out()
    }

    fn leaves_out(&self) -> bool {
        self.nr_left_out.fetch_update(Relaxed, Relaxed, |nr| nr.checked_sub(1)).is_ok()
    }

    pub(super) fn note(&self, cpu_ns: u64) {
        if cpu_ns > SLOW_NS {
            self.nr_left_out.store(NR_LEFT_OUT, Relaxed);
        }
    }

    /// Allows new requests for blocks that are used again.
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

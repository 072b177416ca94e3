//! Sizing: the hit ratio for other memory sizes.
//!
//! **Problem.** A running page cache should tell how much memory the program needs, at no cost to
//! hits. Refault distances cover only larger memories.
//!
//! **Idea.** Sample pages by hash: all uses of a page, or none. Keep the exact LRU stack of the
//! sample, deeper than memory. A use at some stack distance is a hit in memory of that size, scaled
//! by the sampling rate.
//!
//! ```text
//!   page --hash--> one in 2^shift? --no--> nothing (the folio has no flag: no work on a hit)
//!                        | yes
//!                        v
//!   stack of sampled pages   p7 p2 p9 | p4 p1 ......... p8 |   distance 5 --> histogram
//!                            top      ^ the memory's size  ^ capacity: deeper pages are new
//! ```
//!
//! **Data and invariants.** The rate 1 in 2^shift samples 512 to 1024 pages of memory (256 to 512
//! up to 128 MiB). The stack holds eight times as many, in at most 310 KB. Distance buckets are a
//! sixteenth wide, exact up to 16.
//!
//! A hot page in or out of the sample shifts all ratios. The reader therefore supplies the number
//! of all accesses, and the difference counts at the shortest distance ("SHARDS adj").
//!
//! **Ignored.** Policies other than LRU. Readahead: a page is new until used. Pages below the stack
//! are new: see [`ReuseCounts::frames_known`].
//!
//! **Sources.** Waldspurger, Park, Garthwaite and Ahmad, "Efficient MRC Construction with SHARDS",
//! FAST
//! 2015. Mattson, Gecsei, Slutz and Traiger, "Evaluation techniques for storage hierarchies", IBM
//!       Systems Journal 9(2), 1970.

mod counts;
mod lru_stack;
#[cfg(test)]
mod tests;

pub use counts::{NR_GROUPS, ReuseCounts};

use crate::ids::PageIndex;
use lru_stack::LruStack;

/// Maximum of sampled resident pages, less up to [`SMALL_FRAMES`] because hits are faster there.
const RESIDENT_MAX: u64 = 1024;
const RESIDENT_MAX_SMALL: u64 = 512;
/// 128 MiB.
const SMALL_FRAMES: u32 = 32 << 10;
/// Depth of the stack, in memory sizes.
const DEPTH: u32 = 8;
const CAPACITY_MIN: u32 = 64;

/// Hash of a page, which selects and identifies sampled pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageKey(u64);

impl PageKey {
    /// Hashes page `index` of `file`. The file number must be spread over 64 bits.
    #[inline]
    pub const fn of(file: u64, index: PageIndex) -> PageKey {
        // MurmurHash3 finalizer, less one multiplication.
        let mut word = file ^ index.0.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        word = (word ^ (word >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
        PageKey(word ^ (word >> 29))
    }

    /// Name on the stack: never 0, independent of the sampling bits.
    fn name(self) -> u32 {
        ((self.0 >> 32) as u32).max(1)
    }

    fn group(self) -> usize {
        (self.0 >> 61) as usize % NR_GROUPS
    }
}

/// Sampling rate: one page in 2^shift.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SampleRate {
    shift: u8,
}

impl SampleRate {
    /// Returns the rate for a memory of `nr_frames`.
    pub const fn for_frames(nr_frames: u32) -> SampleRate {
        let is_small = nr_frames <= SMALL_FRAMES;
        let resident_max = if is_small { RESIDENT_MAX_SMALL } else { RESIDENT_MAX };
        let shares = (nr_frames as u64).div_ceil(resident_max);
        SampleRate { shift: shares.next_power_of_two().trailing_zeros() as u8 }
    }

    /// Returns the rate of one page in 2^`shift`, at most 2^63.
    #[inline]
    pub const fn of_shift(shift: u8) -> SampleRate {
        SampleRate { shift: if shift < 63 { shift } else { 63 } }
    }

    /// Returns the shift.
    pub const fn shift(self) -> u8 {
        self.shift
    }

    /// Returns true if the page is sampled.
    #[inline]
    pub const fn takes(self, page: PageKey) -> bool {
        page.0 & ((1 << self.shift) - 1) == 0
    }
}

/// LRU stack of the sampled pages, with distance counts.
///
/// # Concurrency
/// The caller serializes.
///
/// # Cost
/// O(1) a use, amortized.
#[derive(Clone, Debug)]
pub struct ReuseSample {
    rate: SampleRate,
    stack: LruStack,
    counts: ReuseCounts,
}

impl ReuseSample {
    /// Creates an empty stack for a memory of `nr_frames`.
    pub fn new(nr_frames: u32) -> ReuseSample {
        let rate = SampleRate::for_frames(nr_frames);
        let nr_resident = nr_frames >> rate.shift;
        let capacity = (nr_resident * DEPTH).next_power_of_two().max(CAPACITY_MIN);
        let stack = LruStack::new(capacity);
        ReuseSample { rate, stack, counts: ReuseCounts::new(rate, capacity) }
    }

    /// Returns the sampling rate.
    pub fn rate(&self) -> SampleRate {
        self.rate
    }

    /// Records a use. Ignores pages outside the sample.
    pub fn access(&mut self, page: PageKey) {
        if self.rate.takes(page) {
            let distance = self.stack.use_page(page.name());
            self.counts.count(page.group(), distance);
        }
    }

    /// Forgets a discarded page.
    pub fn discard(&mut self, page: PageKey) {
        if self.rate.takes(page) {
            self.stack.forget(page.name());
        }
    }

    /// Returns the counts.
    pub fn counts(&self) -> &ReuseCounts {
        &self.counts
    }

    /// Panics on a broken invariant. O(capacity).
    pub fn validate(&self) {
        self.stack.validate();
    }
}

//! Sizing: what the hit ratio would have been with less memory, or with more.
//!
//! **Problem.** "How much memory does this need?" is asked of a page cache that runs, not of a
//! trace recorded beforehand. Refault distances answer for more memory than there is; nothing that
//! a policy knows anyway answers for less, and both must come from a hit path with no time for it.
//!
//! **Idea.** Follow a few pages only, chosen by the hash of their name: all uses of a page or none.
//! Among them, keep the exact LRU stack, as deep as there is room: below the memory's size and
//! above it alike. A page found so many places down would have hit in a memory of so many times the
//! share.
//!
//! ```text
//!   page --hash--> one in 2^shift? --no--> nothing (the folio has no flag: no work on a hit)
//!                        | yes
//!                        v
//!   stack of sampled pages   p7 p2 p9 | p4 p1 ......... p8 |   distance 5 --> histogram
//!                            top      ^ the memory's size  ^ capacity: what lies deeper is new
//! ```
//!
//! **Data and invariants.** One page in 2^shift is followed, so that 512 to 1024 of the pages that
//! fit into memory are (256 to 512 up to 128 MiB); the stack holds eight times as many, and its
//! memory is fixed: at most 310 KB. Distances are counted in buckets a sixteenth wide; up to 16
//! they are exact. Where everything is followed (a memory of up to 512 frames) and distances are
//! short, the curve is the exact one.
//!
//! A hot page in or out of the sample shifts all ratios alike. So the reader of the counts says how
//! many accesses there were in all; what the sample has too many or too few of is counted at the
//! shortest distance (the paper's "SHARDS adj"). That also makes good for uses that got lost.
//!
//! **Ignored.** Which policy runs: the curve is LRU's. Readahead: a page is new until it is used.
//! Pages that lie deeper than the stack count as new: [`ReuseCounts::frames_known`] says from
//! where.
//!
//! **Sources.** Waldspurger, Park, Garthwaite and Ahmad, "Efficient MRC Construction with SHARDS",
//! FAST 2015; Mattson, Gecsei, Slutz and Traiger, "Evaluation techniques for storage hierarchies",
//! IBM Systems Journal 9(2), 1970.

mod counts;
mod lru_stack;
#[cfg(test)]
mod tests;

pub use counts::{NR_GROUPS, ReuseCounts};

use crate::ids::PageIndex;
use lru_stack::LruStack;

/// Sampled pages that fit into memory, at most; and in one of up to [`SMALL_FRAMES`], whose hits
/// are so quick that following more of them would be felt.
const RESIDENT_MAX: u64 = 1024;
const RESIDENT_MAX_SMALL: u64 = 512;
/// 128 MiB.
const SMALL_FRAMES: u32 = 32 << 10;
/// How many memories deep the stack is.
const DEPTH: u32 = 8;
/// The least the stack holds.
const CAPACITY_MIN: u32 = 64;

/// A page's name, hashed: what decides whether it is followed, and tells it from others that are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageKey(u64);

impl PageKey {
    /// The page `index` of `file`, a number that tells files apart and is spread over all 64 bits.
    #[inline]
    pub const fn of(file: u64, index: PageIndex) -> PageKey {
        // The finalizer of MurmurHash3, a multiplication short.
        let mut word = file ^ index.0.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        word = (word ^ (word >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
        PageKey(word ^ (word >> 29))
    }

    /// What the stack knows it by: never 0, and none of the bits that the sample goes by.
    fn name(self) -> u32 {
        ((self.0 >> 32) as u32).max(1)
    }

    /// By bits that the sample does not go by.
    fn group(self) -> usize {
        (self.0 >> 61) as usize % NR_GROUPS
    }
}

/// Which pages are followed: one in 2^shift.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SampleRate {
    shift: u8,
}

impl SampleRate {
    /// The rate for a memory of `nr_frames`.
    pub const fn for_frames(nr_frames: u32) -> SampleRate {
        let is_small = nr_frames <= SMALL_FRAMES;
        let resident_max = if is_small { RESIDENT_MAX_SMALL } else { RESIDENT_MAX };
        let shares = (nr_frames as u64).div_ceil(resident_max);
        SampleRate { shift: shares.next_power_of_two().trailing_zeros() as u8 }
    }

    /// One page in 2^`shift`, at most in 2^63.
    #[inline]
    pub const fn of_shift(shift: u8) -> SampleRate {
        SampleRate { shift: if shift < 63 { shift } else { 63 } }
    }

    /// One page in 2^shift is followed.
    pub const fn shift(self) -> u8 {
        self.shift
    }

    /// Whether the page is followed.
    #[inline]
    pub const fn takes(self, page: PageKey) -> bool {
        page.0 & ((1 << self.shift) - 1) == 0
    }
}

/// The LRU stack of the pages that are followed, and how deep the used ones were found.
///
/// # Concurrency
/// The caller serializes.
///
/// # Cost
/// O(1) a use: a look-up, and a sum over at most 48 small numbers; once in as many uses as the
/// stack has places, the stack is moved together.
#[derive(Clone, Debug)]
pub struct ReuseSample {
    rate: SampleRate,
    stack: LruStack,
    counts: ReuseCounts,
}

impl ReuseSample {
    /// An empty stack, as fits a memory of `nr_frames`.
    pub fn new(nr_frames: u32) -> ReuseSample {
        let rate = SampleRate::for_frames(nr_frames);
        let nr_resident = nr_frames >> rate.shift;
        let capacity = (nr_resident * DEPTH).next_power_of_two().max(CAPACITY_MIN);
        let stack = LruStack::new(capacity);
        ReuseSample { rate, stack, counts: ReuseCounts::new(rate, capacity) }
    }

    /// Which pages are followed.
    pub fn rate(&self) -> SampleRate {
        self.rate
    }

    /// The page was used. Pages that are not followed are nothing to it.
    pub fn access(&mut self, page: PageKey) {
        if self.rate.takes(page) {
            let distance = self.stack.use_page(page.name());
            self.counts.count(page.group(), distance);
        }
    }

    /// The page was thrown away with what was in it: its next use is its first.
    pub fn discard(&mut self, page: PageKey) {
        if self.rate.takes(page) {
            self.stack.forget(page.name());
        }
    }

    /// What was counted so far.
    pub fn counts(&self) -> &ReuseCounts {
        &self.counts
    }

    /// Counts, and panics if an invariant is broken. O(capacity).
    pub fn validate(&self) {
        self.stack.validate();
    }
}

//! A count-min sketch: approximate access frequencies of pages.
//!
//! ```text
//!   page --hash--> one 4-bit counter in each of 4 rows, all incremented; the minimum is the answer
//!          row 0  ..3.......        row 1  ......9...        (pages that collide share a
//!          row 2  .......3..        row 3  5.........         counter, which is then too high)
//! ```
//!
//! Counters stop at 15. After ten increments per frame all are halved. Memory: 4 rows of one
//! counter per frame, rounded up to a power of two, times 4: 8 to 16 bytes a frame.
//!
//! Ignored: the papers' doorkeeper (a Bloom filter for first accesses), which saves memory only.
//! Sources: Cormode and Muthukrishnan, "An improved data stream summary", 2005; Einziger, Friedman
//! and Manes, "TinyLFU: a highly efficient cache admission policy", 2017.

use crate::ids::PageId;
use alloc::boxed::Box;
use alloc::vec;

const NR_ROWS: u64 = 4;
const WORD_COUNTERS: u64 = 16;
const COUNTER_BITS: u64 = 4;
const COUNTER_MAX: u64 = 15;
/// The low three bits of each counter, for halving.
const HALF_MASK: u64 = 0x7777_7777_7777_7777;
/// Increments per frame between two halvings.
const SAMPLE_FACTOR: u64 = 10;

#[derive(Debug)]
pub(super) struct Sketch {
    /// Counters of all rows, 16 per word.
    words: Box<[u64]>,
    row_mask: u64,
    increments: u64,
    increments_max: u64,
}

impl Sketch {
    pub(super) fn new(nr_frames: u64) -> Sketch {
        let row_len = (nr_frames * 4).next_power_of_two().max(WORD_COUNTERS);
        Sketch {
            words: vec![0; (NR_ROWS * row_len / WORD_COUNTERS) as usize].into(),
            row_mask: row_len - 1,
            increments: 0,
            increments_max: SAMPLE_FACTOR * nr_frames,
        }
    }

    /// Counts an access. O(1), and O(frames) every [`SAMPLE_FACTOR`] accesses per frame.
    pub(super) fn increment(&mut self, page: PageId) {
        let mut is_counted = false;
        for row in 0..NR_ROWS {
            let (word, shift) = self.position(page, row);
            if self.words[word] >> shift & COUNTER_MAX < COUNTER_MAX {
                self.words[word] += 1 << shift;
                is_counted = true;
            }
        }
        self.increments += u64::from(is_counted);
        if self.increments >= self.increments_max {
            self.halve();
        }
    }

    /// Returns the recent access count of a page. Only halvings make it too low.
    pub(super) fn estimate(&self, page: PageId) -> u64 {
        let counters = (0..NR_ROWS).map(|row| {
            let (word, shift) = self.position(page, row);
            self.words[word] >> shift & COUNTER_MAX
        });
        counters.min().unwrap_or(0)
    }

    fn halve(&mut self) {
        for word in &mut self.words {
            *word = *word >> 1 & HALF_MASK;
        }
        self.increments /= 2;
    }

    fn position(&self, page: PageId, row: u64) -> (usize, u64) {
        let column = mix(page.index.0 ^ mix(u64::from(page.mapping.0) << 2 | row)) & self.row_mask;
        let counter = row * (self.row_mask + 1) + column;
        ((counter / WORD_COUNTERS) as usize, counter % WORD_COUNTERS * COUNTER_BITS)
    }
}

/// Applies the finaliser of SplitMix64.
fn mix(value: u64) -> u64 {
    let mut mixed = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{MappingId, PageIndex};

    fn page(index: u64) -> PageId {
        PageId { mapping: MappingId(1), index: PageIndex(index) }
    }

    #[test]
    fn a_few_pages_are_counted_exactly_up_to_fifteen() {
        let mut sketch = Sketch::new(1000);
        for index in 0..20 {
            (0..index).for_each(|_| sketch.increment(page(index)));
        }
        for index in 0..20 {
            assert_eq!(sketch.estimate(page(index)), index.min(15), "page {index}");
        }
        let elsewhere = PageId { mapping: MappingId(2), index: PageIndex(9) };
        assert_eq!(sketch.estimate(elsewhere), 0);
    }

    #[test]
    fn estimates_halve_after_ten_accesses_a_frame() {
        let mut sketch = Sketch::new(100);
        (0..8).for_each(|_| sketch.increment(page(0)));
        for index in 1..992 {
            sketch.increment(page(index));
        }
        assert_eq!(sketch.estimate(page(0)), 8);
        sketch.increment(page(992));
        assert_eq!(sketch.estimate(page(0)), 4);
    }
}

//! Runs: contiguous frames, filled at once.
//!
//! **Problem.** A device request has a limited number of memory pieces. A stream that reuses single
//! frames scatters them more and more.
//!
//! **Idea.** Cut the largest free block. Pages that arrive together also leave together, so a freed
//! run is a run again.
//!
//! ```text
//!   free   [ 64 ]  [    128    ]  [  ] [ ] []      wanted: 256
//!   runs   [ 64 ]  [    128    ]                   the rest is not taken from small blocks.
//!                                                  Next time, without runs, 256 are evicted
//! ```
//!
//! **Data and invariants.** A run is a split block (`zone/held.rs`). Runs stay above LOW. The
//! minimum length grows with memory: long runs are rare in small memory, and short runs scatter
//! large memory.
//!
//! **Ignored.** Blocks split by other small pages.
//!
//! **Source.** Original, after the larger folios of Linux's readahead.

use super::{AllocRequest, Zone};
use crate::ids::{FrameId, Order};
use crate::page_alloc::WatermarkLevel;
use core::ops::Range;

/// Frames taken ahead of use, at most (2 MiB), and as a divisor of memory.
const STOCK_MAX: u64 = 512;
const STOCK_PARTS: u64 = 256;
/// Shortest run, as a divisor of the stock, and in frames.
const RUN_PARTS: u64 = 8;
const RUN_MIN: u64 = 4;

/// Smallest request that evicts ahead, frames.
const EVICTION_MIN: u64 = 64;

/// Returns the maximum of frames taken in runs at a time, of `nr_frames`.
pub fn stock_max(nr_frames: u64) -> u64 {
    (nr_frames / STOCK_PARTS).clamp(1, STOCK_MAX)
}

/// Returns the shortest run, in frames, of `nr_frames`.
pub fn run_min(nr_frames: u64) -> u64 {
    (stock_max(nr_frames) / RUN_PARTS).max(RUN_MIN)
}

impl Zone {
    /// Takes the largest block of at most `nr_max` frames, if long enough. Each frame is freed
    /// alone.
    ///
    /// # Cost
    /// O(orders), and a word for each frame.
    pub fn alloc_run(&mut self, nr_max: u64) -> Option<Range<FrameId>> {
        let largest = nr_max.checked_ilog2()?.min(Order::MAX.0.into());
        let shortest = run_min(self.nr_frames().into()).next_power_of_two().ilog2();
        (shortest as u8..=largest as u8).rev().map(Order).find_map(|order| {
            let first = self.alloc(&AllocRequest::fast(order))?;
            self.split_held(first, order, Order::BASE);
            Some(first..FrameId(first.0 + order.nr_frames()))
        })
    }

    /// Returns the frames to free after `nr` frames were not found in runs: `nr`, or 0 if memory is
    /// not short or `nr` is small.
    pub fn run_target(&self, nr: u64) -> u64 {
        let enough = self.watermarks.mark(WatermarkLevel::High) + nr;
        if nr >= EVICTION_MIN && self.nr_free() < enough { nr } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page_alloc::ZoneConfig;
    use alloc::vec::Vec;

    const NR_FRAMES: u32 = 16_384;

    fn zone() -> Zone {
        Zone::new(ZoneConfig::with_frames(NR_FRAMES))
    }

    fn len(run: Option<Range<FrameId>>) -> Option<u32> {
        run.map(|run| run.end.0 - run.start.0)
    }

    #[test]
    fn the_largest_block_within_the_wish_is_taken() {
        let mut zone = zone();
        assert_eq!(len(zone.alloc_run(512)), Some(512));
        assert_eq!(len(zone.alloc_run(511)), Some(256));
        assert_eq!(len(zone.alloc_run(8)), Some(8));
        assert_eq!(len(zone.alloc_run(7)), None, "too small to be a run");
        assert_eq!(len(zone.alloc_run(0)), None);
        zone.validate();
    }

    #[test]
    fn frames_of_a_run_are_freed_alone_and_are_a_run_again() {
        let mut zone = zone();
        let run = zone.alloc_run(512).expect("all is free");
        for frame in run.start.0..run.end.0 {
            zone.free(FrameId(frame), Order::BASE);
        }
        zone.validate();
        assert_eq!(zone.nr_free(), NR_FRAMES.into());
        assert_eq!(zone.alloc_run(512), Some(run));
    }

    #[test]
    fn runs_end_at_low() {
        let mut zone = zone();
        let taken: u32 = core::iter::from_fn(|| len(zone.alloc_run(512))).sum();
        let low = zone.watermarks().mark(WatermarkLevel::Low);
        assert!(zone.nr_free() >= low && zone.nr_free() <= low + 8, "{} free", zone.nr_free());
        assert_eq!(u64::from(taken) + zone.nr_free(), NR_FRAMES.into());
    }

    #[test]
    fn as_much_is_freed_as_is_missing_where_memory_is_short() {
        let mut zone = zone();
        assert_eq!(zone.run_target(512), 0, "all is free");
        let high = zone.watermarks().mark(WatermarkLevel::High);
        let one = AllocRequest::fast(Order::BASE).at(None);
        let mut held = Vec::new();
        while zone.nr_free() > high {
            held.push(zone.alloc(&one).expect("more than HIGH is free"));
        }
        assert_eq!(zone.run_target(512), 512);
        assert_eq!(zone.run_target(63), 0);
        held.drain(..511).for_each(|frame| zone.free(frame, Order::BASE));
        assert_eq!(zone.run_target(512), 512, "in small pieces");
        zone.free(held[0], Order::BASE);
        assert_eq!(zone.run_target(512), 0);
    }

    #[test]
    fn a_stock_is_a_small_part_of_memory() {
        let memories = [1, 64, 2048, 16_384, 1 << 20];
        assert_eq!(memories.map(stock_max), [1, 1, 8, 64, 512]);
        assert_eq!(memories.map(run_min), [4, 4, 4, 8, 64]);
    }
}

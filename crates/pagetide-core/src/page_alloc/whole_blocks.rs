//! Selects the blocks to empty before memory is given up.
//!
//! **Problem.** Each frame given up alone takes a system call and a TLB flush. **Idea.** Whole
//! blocks take one for 512 frames: pages in mostly free blocks move to free frames elsewhere.
//!
//! ```text
//!   [..#..][.####][..##.][#.###]       . free, 9
//!   [.....][#####][.....][#####]       blocks 0 and 2 are freest: move 3 pages
//! ```
//!
//! **Ignored.** Movability of the pages. **Source.** Original, after the kernel's memory
//! compaction.

use super::PCP_HUGE_ORDER;
use crate::ids::FrameId;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::cmp::Reverse;

/// Returns the numbers of the [`PCP_HUGE_ORDER`] blocks with the fewest moves, as many as `free`
/// fills.
///
/// # Cost
/// O(frames log blocks).
pub fn blocks_to_empty(free: impl IntoIterator<Item = FrameId>) -> Vec<u32> {
    let mut nr_free_in = BTreeMap::<u32, u32>::new();
    for frame in free {
        *nr_free_in.entry(block_of(frame)).or_default() += 1;
    }
    let nr_free: u32 = nr_free_in.values().sum();
    let mut blocks: Vec<u32> = nr_free_in.keys().copied().collect();
    blocks.sort_by_key(|block| Reverse(nr_free_in[block]));
    blocks.truncate((nr_free / PCP_HUGE_ORDER.nr_frames()) as usize);
    blocks
}

/// Returns the number of a frame's [`PCP_HUGE_ORDER`] block.
pub const fn block_of(frame: FrameId) -> u32 {
    frame.0 >> PCP_HUGE_ORDER.0
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: u32 = PCP_HUGE_ORDER.nr_frames();

    #[test]
    fn the_emptiest_are_chosen_and_as_many_as_can_be_filled() {
        let of = |block: u32, nr: u32| (block * BLOCK..block * BLOCK + nr).map(FrameId);
        let free = of(0, 200).chain(of(1, 500)).chain(of(3, 300)).chain(of(7, 23));
        assert_eq!(blocks_to_empty(free.clone()), [1]);
        assert_eq!(blocks_to_empty(free.chain(of(4, 1))), [1, 3]);
        assert_eq!(blocks_to_empty(of(2, BLOCK - 1)), []);
    }
}

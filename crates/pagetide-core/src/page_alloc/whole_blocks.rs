//! Which blocks to have whole, of frames that are free all over the place.
//!
//! **Problem.** Memory that is given up frame by frame takes a system call, and a flush of all
//! translations, for each. **Idea.** As many frames in whole blocks take one for 512: the pages in
//! blocks that are mostly free move to the free frames of the others.
//!
//! ```text
//!   [..#..][.####][..##.][#.###]       . free, 9
//!   [.....][#####][.....][#####]       the first and the third have most: 3 pages moved
//! ```
//!
//! **Deliberately ignored.** Which of the pages can be moved: the caller finds out.
//!
//! Source: our own, after the kernel's memory compaction.

use super::PCP_HUGE_ORDER;
use crate::ids::FrameId;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::cmp::Reverse;

/// The blocks of [`PCP_HUGE_ORDER`] that are made whole with the fewest moves: as many as the
/// `free` frames fill, each by its number, which is that of its first frame in blocks.
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

/// The block of [`PCP_HUGE_ORDER`] that a frame lies in.
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

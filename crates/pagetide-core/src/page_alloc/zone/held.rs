//! Splits and joins of blocks in use.
//!
//! **Problem.** A block of 2 MiB may be used and freed in small parts, or halves handed on as one.
//!
//! **Idea.** The first frame's word holds the order, so nothing moves.
//!
//! ```text
//!   held:  [8                      15]      order 3, freed as one
//!             split into order 1 |  ^
//!                                v  | three joins
//!   held:  [8  9][10 11][12 13][14 15]      each freed alone
//! ```
//!
//! **Data and invariants.** Nothing becomes free, so no count changes. These words change under the
//! zone's lock, because the zone reads them.
//!
//! **Ignored.** Contents, and blocks on per-CPU lists.
//!
//! **Source.** Splits as in Linux's higher-order pages. Joins are original.

use super::Zone;
use crate::ids::{FrameId, Order};
use crate::page_alloc::buddy::buddy_of;
use crate::page_alloc::frame_table::FrameState;

impl Zone {
    /// Splits the caller's block at `frame` into blocks of order `into`, each freed alone.
    ///
    /// # Panics
    /// If no block of `order` was allocated there, or `into` exceeds `order`.
    ///
    /// # Cost
    /// One word for each part.
    pub fn split_held(&mut self, frame: FrameId, order: Order, into: Order) {
        assert!(into <= order, "{frame} of order {order} cannot be split into order {into}");
        self.assert_held(frame, order);
        let end = frame.0 + order.nr_frames();
        for part in (frame.0..end).step_by(into.nr_frames() as usize) {
            self.buddy.table.set_allocated(FrameId(part), into);
        }
        self.stats.nr_blocks_split += u64::from(into < order);
    }

    /// Joins two blocks of `order` held by the caller, and returns the first frame.
    ///
    /// Returns `None`, without a change, unless the blocks are buddies below the largest order.
    ///
    /// # Panics
    /// If either is not an allocated block of `order`.
    pub fn join_held(&mut self, halves: [FrameId; 2], order: Order) -> Option<FrameId> {
        halves.iter().for_each(|half| self.assert_held(*half, order));
        let (first, second) = (halves[0].min(halves[1]), halves[0].max(halves[1]));
        if order >= Order::MAX || buddy_of(first, order) != second {
            return None;
        }
        self.buddy.table.set_interior(second);
        self.buddy.table.set_allocated(first, Order(order.0 + 1));
        self.stats.nr_blocks_joined += 1;
        Some(first)
    }

    fn assert_held(&self, frame: FrameId, order: Order) {
        let state = self.buddy.table.state(frame);
        assert!(
            state == FrameState::Allocated(order),
            "no block of order {order} is held at {frame}, which is {state:?}"
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page_alloc::{AllocRequest, ZoneConfig};
    use alloc::vec::Vec;

    fn take(zone: &mut Zone, order: u8) -> FrameId {
        zone.alloc(&AllocRequest::fast(Order(order)).at(None)).expect("a free block")
    }

    fn zone(nr_frames: u32) -> Zone {
        Zone::new(ZoneConfig::with_frames(nr_frames))
    }

    #[test]
    fn parts_are_freed_alone_and_merge_again() {
        let mut zone = zone(4096);
        let huge = take(&mut zone, 9);
        zone.split_held(huge, Order(9), Order(0));
        zone.validate();
        assert_eq!(zone.nr_free(), 4096 - 512, "all of it is still held");
        // Every second frame: nothing can merge.
        let frames = || (huge.0..huge.0 + 512).map(FrameId);
        frames().step_by(2).for_each(|frame| zone.free(frame, Order(0)));
        zone.validate();
        assert_eq!(zone.free_blocks().nr_blocks(Order(0)), 256);
        frames().skip(1).step_by(2).for_each(|frame| zone.free(frame, Order(0)));
        zone.validate();
        assert_eq!(zone.free_blocks().nr_blocks(Order::MAX), 4, "as before");
        assert_eq!(zone.stats().nr_blocks_split, 1);
    }

    #[test]
    fn a_split_goes_to_any_lower_order() {
        for into in 0..=10 {
            let mut zone = zone(4096);
            let first = take(&mut zone, 10);
            zone.split_held(first, Order(10), Order(into));
            zone.validate();
            let parts: Vec<FrameId> =
                (first.0..first.0 + 1024).step_by(1 << into).map(FrameId).collect();
            for part in parts {
                assert_eq!(zone.table().state(part), FrameState::Allocated(Order(into)));
                zone.free(part, Order(into));
            }
            zone.validate();
            assert_eq!(zone.nr_free(), 4096);
        }
    }

    #[test]
    fn halves_join_in_either_order_up_to_the_largest() {
        let mut zone = zone(1024);
        let blocks: Vec<FrameId> = (0..128).map(|_| take(&mut zone, 3)).collect();
        for order in (3..10).map(Order) {
            let step = 2 * order.nr_frames();
            for first in (0..1024).step_by(step as usize).map(FrameId) {
                let second = FrameId(first.0 + order.nr_frames());
                let halves = if order.0 % 2 == 0 { [first, second] } else { [second, first] };
                assert_eq!(zone.join_held(halves, order), Some(first));
            }
            zone.validate();
        }
        assert_eq!(zone.table().state(blocks[0]).order_of_head(blocks[0]), Order::MAX);
        assert_eq!((zone.nr_free(), zone.stats().nr_blocks_joined), (0, 127));
        zone.free(FrameId(0), Order::MAX);
        zone.validate();
        assert_eq!(zone.nr_free(), 1024);
    }

    #[test]
    fn only_the_halves_of_one_block_join() {
        let mut zone = zone(4096);
        let blocks: Vec<FrameId> = (0..4).map(|_| take(&mut zone, 2)).collect();
        assert_eq!(blocks, [0, 4, 8, 12].map(FrameId));
        assert_eq!(zone.join_held([blocks[1], blocks[2]], Order(2)), None, "of two blocks");
        assert_eq!(zone.join_held([blocks[0], blocks[0]], Order(2)), None, "one half twice");
        let largest = [take(&mut zone, 10), take(&mut zone, 10)];
        assert_eq!(largest, [1024, 2048].map(FrameId));
        assert_eq!(zone.join_held(largest, Order(10)), None, "nothing is larger");
        assert_eq!(zone.stats().nr_blocks_joined, 0);
        zone.validate();
    }

    #[test]
    #[should_panic(expected = "no block of order o2 is held at Fx0")]
    fn a_block_of_another_order_is_not_split() {
        let mut zone = zone(64);
        let frame = take(&mut zone, 3);
        zone.split_held(frame, Order(2), Order(0));
    }

    #[test]
    #[should_panic(expected = "no block of order o0 is held at Fx1, which is Free(o0)")]
    fn a_free_half_is_not_joined() {
        let mut zone = zone(64);
        let frame = take(&mut zone, 0);
        zone.join_held([frame, FrameId(frame.0 + 1)], Order(0));
    }
}

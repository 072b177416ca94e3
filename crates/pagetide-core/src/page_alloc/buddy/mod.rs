//! The buddy allocator: free blocks of 2^0 to 2^10 frames, split on demand and merged when freed.
//!
//! **Problem.** Hand out runs of several lengths quickly, and recover long runs.
//!
//! **Idea.** A block of order o starts at a multiple of 2^o, so it has one buddy: the first frame
//! differs in bit o. Freeing merges a block with a free buddy.
//!
//! ```text
//!  order 3   [8                    15]        take order 0: 8
//!  order 2   [8       11][12       15]  keep 12 (o2)
//!  order 1   [8  9][10 11]              keep 10 (o1)
//!  order 0   [8][9]                     keep  9 (o0), hand out 8
//! ```
//!
//! **Data and invariants.** *Every frame is in exactly one block, a free block is on the list of
//! its order, and no two free buddies are unmerged.* Freed blocks go to the head of the list, for
//! warm reuse, or to the tail if the next merge has a free buddy, to let them grow.
//!
//! **Cost.** O(orders) to take and free.
//!
//! **Ignored.** Watermarks, which the zone checks.
//!
//! **Source.** Linux 6.18's buddy allocator. K. Knowlton, "A fast storage allocator", CACM 8(10),
//! 1965.

use alloc::sync::Arc;

use super::frame_table::{FrameList, FrameState, FrameTable, Kind};
use super::free_blocks::{FreeBlocks, ORDERS};
use crate::ids::{FrameId, Order};

#[derive(Debug)]
pub(super) struct Buddy {
    pub(super) table: Arc<FrameTable>,
    lists: [FrameList; ORDERS],
    pub(super) blocks: FreeBlocks,
    pub(super) nr_free: u64,
    offline: FrameList,
    pub(super) nr_offline: u64,
}

impl Buddy {
    /// Frames from `nr_online` on are offline.
    pub(super) fn new(nr_frames: u32, nr_online: u32) -> Buddy {
        assert!(nr_online <= nr_frames, "{nr_online} frames online of {nr_frames}");
        let mut buddy = Buddy {
            table: Arc::new(FrameTable::new(nr_frames)),
            lists: [FrameList::EMPTY; ORDERS],
            blocks: FreeBlocks::default(),
            nr_free: 0,
            offline: FrameList::EMPTY,
            nr_offline: 0,
        };
        for_each_aligned_block(0, nr_online, |frame, order| buddy.link_tail(frame, order));
        for_each_aligned_block(nr_online, nr_frames, |frame, order| {
            buddy.put_offline(frame, order);
        });
        buddy
    }

    pub(super) fn nr_frames(&self) -> u32 {
        self.table.nr_frames()
    }

    /// Takes a block from the smallest sufficient one. The caller then sets the state.
    pub(super) fn take(&mut self, order: Order) -> Option<FrameId> {
        let (found, frame) = (order.0..=Order::MAX.0)
            .find_map(|o| self.lists[usize::from(o)].head().map(|frame| (Order(o), frame)))?;
        self.unlink(frame, found);
        for half in (order.0..found.0).rev().map(Order) {
            self.link_head(FrameId(frame.0 + half.nr_frames()), half);
        }
        Some(frame)
    }

    /// Frees an unlisted block and merges it.
    pub(super) fn put(&mut self, frame: FrameId, order: Order) {
        let (mut frame, mut order) = (frame, order);
        while order < Order::MAX {
            let buddy = buddy_of(frame, order);
            if !self.can_merge(buddy, order) {
                break;
            }
            self.unlink(buddy, order);
            self.table.set_interior(FrameId(frame.0.max(buddy.0)));
            frame = FrameId(frame.0 & buddy.0);
            order = Order(order.0 + 1);
        }
        if self.will_likely_merge(frame, order) {
            self.link_tail(frame, order);
        } else {
            self.link_head(frame, order);
        }
    }

    fn can_merge(&self, buddy: FrameId, order: Order) -> bool {
        buddy.0 < self.nr_frames() && self.table.state(buddy) == FrameState::Free(order)
    }

    /// Returns true if the merged block would have a free buddy.
    fn will_likely_merge(&self, frame: FrameId, order: Order) -> bool {
        let above = Order(order.0 + 1);
        if above >= Order::MAX {
            return false;
        }
        let merged = FrameId(frame.0 & !order.nr_frames());
        let buddy = buddy_of(merged, above);
        self.can_merge(buddy, above)
    }

    pub(super) fn put_offline(&mut self, frame: FrameId, order: Order) {
        self.offline.push_head(&self.table, frame, Kind::Offline, order);
        self.nr_offline += u64::from(order.nr_frames());
    }

    /// Takes the last offline block, at most `nr_max` (not 0) frames of it.
    pub(super) fn take_offline(&mut self, nr_max: u32) -> Option<(FrameId, Order)> {
        let frame = self.offline.head()?;
        let FrameState::Offline(found) = self.table.state(frame) else {
            panic!("{frame} is on the offline list but is {:?}", self.table.state(frame));
        };
        self.offline.remove(&self.table, frame);
        self.nr_offline -= u64::from(found.nr_frames());
        let target = found.min(order_within(nr_max));
        for order in (target.0..found.0).rev().map(Order) {
            self.put_offline(FrameId(frame.0 + order.nr_frames()), order);
        }
        Some((frame, target))
    }

    fn unlink(&mut self, frame: FrameId, order: Order) {
        self.lists[usize::from(order.0)].remove(&self.table, frame);
        self.blocks.subtract(order);
        self.nr_free -= u64::from(order.nr_frames());
    }

    fn link_head(&mut self, frame: FrameId, order: Order) {
        self.lists[usize::from(order.0)].push_head(&self.table, frame, Kind::Free, order);
        self.count_linked(order);
    }

    fn link_tail(&mut self, frame: FrameId, order: Order) {
        self.lists[usize::from(order.0)].push_tail(&self.table, frame, Kind::Free, order);
        self.count_linked(order);
    }

    fn count_linked(&mut self, order: Order) {
        self.blocks.add(order);
        self.nr_free += u64::from(order.nr_frames());
    }
}

pub(super) const fn buddy_of(frame: FrameId, order: Order) -> FrameId {
    FrameId(frame.0 ^ order.nr_frames())
}

/// Returns the largest order of at most `nr_frames` (not 0) frames.
pub(super) const fn order_within(nr_frames: u32) -> Order {
    let order = nr_frames.ilog2() as u8;
    if order < Order::MAX.0 { Order(order) } else { Order::MAX }
}

/// Cuts `start..end` into the fewest aligned blocks, in address order.
fn for_each_aligned_block(start: u32, end: u32, mut visit: impl FnMut(FrameId, Order)) {
    let mut frame = start;
    while frame < end {
        let aligned = Order(frame.trailing_zeros().min(u32::from(Order::MAX.0)) as u8);
        let order = aligned.min(order_within(end - frame));
        visit(FrameId(frame), order);
        frame += order.nr_frames();
    }
}

#[cfg(test)]
mod tests;

mod validate;

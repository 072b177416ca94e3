//! The buddy allocator: free blocks of 2^0 to 2^10 frames, split on demand and merged when freed.
//!
//! **Problem.** Hand out runs of frames of several lengths, quickly, and get long runs back.
//!
//! **Idea.** Every block of order o starts at a multiple of 2^o, so it has exactly one buddy: the
//! block whose first frame differs in bit o. Splitting makes a block and its buddy; freeing a block
//! whose buddy is free joins them again.
//!
//! ```text
//!  order 3   [8                    15]        take order 0: 8
//!  order 2   [8       11][12       15]  keep 12 (o2)
//!  order 1   [8  9][10 11]              keep 10 (o1)
//!  order 0   [8][9]                     keep  9 (o0), hand out 8
//! ```
//!
//! **Data and invariants.** One sentence: *every frame is in exactly one block; a free block is on
//! the list of its order; and no two free buddies are left unmerged*.
//! Lists are threaded through the [`FrameTable`]. Freed blocks go to the head of their list, to be
//! reused while warm, or to the tail when the block they would merge into has a free buddy itself:
//! left alone, they will likely grow.
//!
//! Cost: O(orders) for taking and freeing.
//!
//! **Deliberately ignored.** How much may be taken: watermarks are the zone's business. //!
//! Source: the page allocator specification, section 2; K. Knowlton, "A fast storage allocator",
//! CACM 8(10), 1965.

use alloc::sync::Arc;

use super::frame_table::{FrameList, FrameState, FrameTable, Kind};
use super::free_blocks::{FreeBlocks, ORDERS};
use crate::ids::{FrameId, Order};

/// The free and offline blocks of one zone.
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
    /// Frames below `nr_online` are free; the others are offline.
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

    /// Takes a block of `order` from the smallest large enough one.
    ///
    /// The caller owns the block's word now, and writes what the block is.
    pub(super) fn take(&mut self, order: Order) -> Option<FrameId> {
        let (found, frame) = (order.0..=Order::MAX.0)
            .find_map(|o| self.lists[usize::from(o)].head().map(|frame| (Order(o), frame)))?;
        self.unlink(frame, found);
        for half in (order.0..found.0).rev().map(Order) {
            self.link_head(FrameId(frame.0 + half.nr_frames()), half);
        }
        Some(frame)
    }

    /// Frees a block that is on no list, merging it as far as it goes.
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

    /// Whether the block that this one and its buddy would make has a free buddy itself.
    fn will_likely_merge(&self, frame: FrameId, order: Order) -> bool {
        let above = Order(order.0 + 1);
        if above >= Order::MAX {
            return false;
        }
        let merged = FrameId(frame.0 & !order.nr_frames());
        let buddy = buddy_of(merged, above);
        self.can_merge(buddy, above)
    }

    /// Puts a block that is on no list out of service.
    pub(super) fn put_offline(&mut self, frame: FrameId, order: Order) {
        self.offline.push_head(&self.table, frame, Kind::Offline, order);
        self.nr_offline += u64::from(order.nr_frames());
    }

    /// Takes the offline block put there last, at most `nr_max` frames of it. `nr_max` is not 0.
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

/// The block's one possible partner at this order.
pub(super) const fn buddy_of(frame: FrameId, order: Order) -> FrameId {
    FrameId(frame.0 ^ order.nr_frames())
}

/// The largest order of at most `nr_frames` frames, which is not 0.
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

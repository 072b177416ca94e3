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
//! the list of its order and its pageblock's type; and no two free buddies are left unmerged*.
//! Lists are threaded through the [`FrameTable`]. Freed blocks go to the head of their list, to be
//! reused while warm, or to the tail when the block they would merge into has a free buddy itself:
//! left alone, they will likely grow.
//!
//! Cost: O(orders) for taking and freeing; the fallback (`fallback.rs`) may walk one pageblock per
//! order and type.
//!
//! **Deliberately ignored.** How much may be taken: watermarks are the zone's business.
//!
//! Source: the page allocator specification, section 2; K. Knowlton, "A fast storage allocator",
//! CACM 8(10), 1965.

use alloc::sync::Arc;

use super::frame_table::{FrameList, FrameState, FrameTable, Kind};
use super::free_blocks::{FreeBlocks, ORDERS};
use super::migrate::{MigrateType, PAGEBLOCK_FRAMES, PAGEBLOCK_ORDER};
use crate::ids::{FrameId, Order};

/// The free and offline blocks of one zone.
#[derive(Debug)]
pub(super) struct Buddy {
    pub(super) table: Arc<FrameTable>,
    lists: [[FrameList; MigrateType::COUNT]; ORDERS],
    pub(super) blocks: FreeBlocks,
    pub(super) nr_free: u64,
    offline: FrameList,
    pub(super) nr_offline: u64,
}

impl Buddy {
    /// Frames below `nr_online` are free and movable; the others are offline.
    pub(super) fn new(nr_frames: u32, nr_online: u32) -> Buddy {
        assert!(nr_online <= nr_frames, "{nr_online} frames online of {nr_frames}");
        let mut buddy = Buddy {
            table: Arc::new(FrameTable::new(nr_frames)),
            lists: [[FrameList::EMPTY; MigrateType::COUNT]; ORDERS],
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

    /// The next block of this list to be taken, which stays on it.
    pub(super) fn head(&self, order: Order, migrate: MigrateType) -> Option<FrameId> {
        self.lists[usize::from(order.0)][migrate.index()].head()
    }

    /// Takes a block of `order` from the smallest large enough one on the lists of `migrate`.
    ///
    /// The caller owns the block's word now, and writes what the block is.
    pub(super) fn take_smallest(&mut self, order: Order, migrate: MigrateType) -> Option<FrameId> {
        let (found, frame) = (order.0..=Order::MAX.0)
            .find_map(|o| self.head(Order(o), migrate).map(|frame| (Order(o), frame)))?;
        self.unlink(frame, found);
        self.split(frame, found, order);
        Some(frame)
    }

    /// Puts the upper halves of an unlinked block back until `target` is left at its start.
    pub(super) fn split(&mut self, frame: FrameId, from: Order, target: Order) {
        for order in (target.0..from.0).rev().map(Order) {
            self.link_head(FrameId(frame.0 + order.nr_frames()), order);
        }
    }

    /// Frees a block that is on no list, merging it as far as it goes.
    pub(super) fn put(&mut self, frame: FrameId, order: Order) {
        let (mut frame, mut order) = (frame, order);
        let migrate = self.table.migrate_type(frame);
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
        if order > PAGEBLOCK_ORDER {
            // Two whole pageblocks became one free block: it needs one type, and mixes nothing.
            self.table.set_migrate_type(frame, order, migrate);
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

    /// Gives the pageblock of `frame` a type, and moves its free blocks to that type's lists.
    ///
    /// No free block may reach beyond the pageblock.
    pub(super) fn retype_pageblock(&mut self, frame: FrameId, migrate: MigrateType) {
        let table = Arc::clone(&self.table);
        let free_blocks = || {
            PageblockWalk::new(&table, frame).filter_map(|(head, state)| match state {
                FrameState::Free(order) => Some((head, order)),
                _ => None,
            })
        };
        free_blocks().for_each(|(head, order)| self.unlink(head, order));
        table.set_migrate_type(frame, Order::BASE, migrate);
        // The words still say `Free`, so the second walk finds the same blocks. Only a whole
        // pageblock can have gained a buddy to merge with: the type kept it apart.
        for (head, order) in free_blocks() {
            if order < PAGEBLOCK_ORDER {
                self.link_head(head, order);
            } else {
                self.put(head, order);
                break;
            }
        }
    }

    /// Takes one free block of `order` of any type.
    pub(super) fn take_any(&mut self, order: Order) -> Option<FrameId> {
        use MigrateType::{Movable, Reclaimable, Unmovable};
        [Movable, Reclaimable, Unmovable]
            .into_iter()
            .find_map(|migrate| self.take_smallest(order, migrate))
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

    pub(super) fn unlink(&mut self, frame: FrameId, order: Order) {
        let migrate = self.table.migrate_type(frame);
        self.lists[usize::from(order.0)][migrate.index()].remove(&self.table, frame);
        self.blocks.subtract(order, migrate);
        self.nr_free -= u64::from(order.nr_frames());
    }

    fn link_head(&mut self, frame: FrameId, order: Order) {
        let migrate = self.count_linked(frame, order);
        let list = &mut self.lists[usize::from(order.0)][migrate.index()];
        list.push_head(&self.table, frame, Kind::Free, order);
    }

    fn link_tail(&mut self, frame: FrameId, order: Order) {
        let migrate = self.count_linked(frame, order);
        let list = &mut self.lists[usize::from(order.0)][migrate.index()];
        list.push_tail(&self.table, frame, Kind::Free, order);
    }

    fn count_linked(&mut self, frame: FrameId, order: Order) -> MigrateType {
        let migrate = self.table.migrate_type(frame);
        self.blocks.add(order, migrate);
        self.nr_free += u64::from(order.nr_frames());
        migrate
    }
}

/// The blocks of one pageblock, first to last, as (first frame, state).
///
/// A block of the largest order that starts in the pageblock ends the walk.
pub(super) struct PageblockWalk<'a> {
    table: &'a FrameTable,
    next: u32,
    end: u32,
}

impl<'a> PageblockWalk<'a> {
    pub(super) fn new(table: &'a FrameTable, frame: FrameId) -> PageblockWalk<'a> {
        let start = frame.0 & !(PAGEBLOCK_FRAMES - 1);
        let end = table.nr_frames().min(start + PAGEBLOCK_FRAMES);
        PageblockWalk { table, next: start, end }
    }
}

impl Iterator for PageblockWalk<'_> {
    type Item = (FrameId, FrameState);

    fn next(&mut self) -> Option<(FrameId, FrameState)> {
        if self.next >= self.end {
            return None;
        }
        let frame = FrameId(self.next);
        let state = self.table.state(frame);
        self.next += state.order_of_head(frame).nr_frames();
        Some((frame, state))
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

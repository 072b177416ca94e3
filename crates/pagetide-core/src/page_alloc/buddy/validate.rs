//! Checks of the buddy allocator's invariant.

use super::{Buddy, FrameState, buddy_of};
use crate::ids::{FrameId, Order};

impl Buddy {
    /// Checks every frame and list.
    ///
    /// # Cost
    /// O(frames).
    pub(in crate::page_alloc) fn validate(&self) {
        let (nr_free, nr_offline) = self.validate_frames();
        assert_eq!(self.nr_free, nr_free, "free frames counted and found");
        assert_eq!(self.nr_offline, nr_offline, "offline frames counted and found");
        self.validate_lists();
    }

    /// Checks that blocks tile the zone. Returns the free and offline frames.
    fn validate_frames(&self) -> (u64, u64) {
        let (mut nr_free, mut nr_offline) = (0, 0);
        let mut next = 0;
        while next < self.nr_frames() {
            let frame = FrameId(next);
            let state = self.table.state(frame);
            let order = state.order_of_head(frame);
            assert!(order <= Order::MAX, "{frame} has order {order}");
            assert_eq!(next % order.nr_frames(), 0, "{frame} is not aligned to order {order}");
            next += order.nr_frames();
            assert!(next <= self.nr_frames(), "the block at {frame} reaches beyond the zone");
            for inside in frame.0 + 1..next {
                assert_eq!(self.table.state(FrameId(inside)), FrameState::Interior, "in {frame}");
            }
            match state {
                FrameState::Free(_) => {
                    nr_free += u64::from(order.nr_frames());
                    self.validate_free_block(frame, order);
                }
                FrameState::Offline(_) => nr_offline += u64::from(order.nr_frames()),
                _ => {}
            }
        }
        (nr_free, nr_offline)
    }

    fn validate_free_block(&self, frame: FrameId, order: Order) {
        if order < Order::MAX {
            let buddy = buddy_of(frame, order);
            assert!(!self.can_merge(buddy, order), "{frame} and {buddy} are unmerged");
        }
    }

    /// Checks that the lists hold the free blocks, as many as counted.
    fn validate_lists(&self) {
        let mut nr_listed = 0;
        for order in (0..=Order::MAX.0).map(Order) {
            let mut nr_blocks = 0;
            self.lists[usize::from(order.0)].validate(&self.table, |frame| {
                assert_eq!(self.table.state(frame), FrameState::Free(order), "{frame}");
                nr_blocks += 1;
            });
            assert_eq!(self.blocks.nr_blocks(order), nr_blocks, "{order}");
            nr_listed += u64::from(nr_blocks) << order.0;
        }
        assert_eq!(self.nr_free, nr_listed, "free frames counted and listed");
        let mut nr_offline = 0;
        self.offline.validate(&self.table, |frame| match self.table.state(frame) {
            FrameState::Offline(order) => nr_offline += u64::from(order.nr_frames()),
            state => panic!("{frame} is on the offline list but is {state:?}"),
        });
        assert_eq!(self.nr_offline, nr_offline, "offline frames counted and listed");
    }
}

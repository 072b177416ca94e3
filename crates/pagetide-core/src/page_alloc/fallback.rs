//! Where a block comes from when its own type has none: claim a pageblock, or steal a piece.
//!
//! **Problem.** Each small block taken from another type's pageblock is one more pageblock that can
//! never become a large folio again.
//!
//! **Idea.** Take from the *largest* foreign block, and take the pageblock with it, so that the
//! next requests of this type go to the same place. Only when no pageblock is worth claiming, steal
//! from the *smallest* foreign block that will do.
//!
//! ```text
//!  own lists -> whole free pageblock -> pageblock at least half free or ours -> smallest piece
//!               (nothing is mixed)       (a fragmentation event)                 (type unchanged)
//! ```
//!
//! **Data and invariants.** A claim moves all the pageblock's free blocks to the claimer's lists. A
//! steal leaves the type alone: the block returns to its pageblock's list when freed.
//!
//! A block is large enough to claim its pageblock from half the pageblock's order up, and at any
//! order for types that cannot be moved away later. The claim goes through when at least half of
//! the pageblock is free or was allocated as the claimer's type.
//!
//! **Deliberately ignored.** Blocks on per-CPU lists count as foreign: it is not known what they
//! will be used for.
//!
//! Source: the page allocator specification, section 2; the two "half" thresholds are Linux's, from
//! memory.

use super::buddy::{Buddy, PageblockWalk};
use super::frame_table::FrameState;
use super::migrate::{MigrateType, PAGEBLOCK_ORDER};
use crate::ids::{FrameId, Order};

/// The smallest movable block worth a claim.
const CLAIM_ORDER_MIN: Order = Order(PAGEBLOCK_ORDER.0 / 2);

/// How a block was found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Origin {
    /// On a list of the type asked for.
    Own,
    /// A wholly free pageblock (or two) changed its type.
    WholePageblock,
    /// A pageblock in partial use changed its type: a fragmentation event.
    Claimed,
    /// Taken from another type's pageblock, which keeps its type.
    Stolen,
}

impl Buddy {
    /// Takes a block of `order` for `migrate`, from wherever the rules allow.
    ///
    /// The caller owns the block's word now, and writes what the block is.
    pub(super) fn take(&mut self, order: Order, migrate: MigrateType) -> Option<(FrameId, Origin)> {
        self.take_smallest(order, migrate)
            .map(|frame| (frame, Origin::Own))
            .or_else(|| self.claim(order, migrate))
            .or_else(|| self.steal(order, migrate).map(|frame| (frame, Origin::Stolen)))
    }

    fn claim(&mut self, order: Order, migrate: MigrateType) -> Option<(FrameId, Origin)> {
        let worth_claiming =
            |found: &Order| *found >= CLAIM_ORDER_MIN || migrate != MigrateType::Movable;
        let orders = (order.0..=Order::MAX.0).rev().map(Order).take_while(worth_claiming);
        for found in orders {
            for &other in migrate.fallbacks() {
                let Some(frame) = self.head(found, other) else { continue };
                if found >= PAGEBLOCK_ORDER {
                    self.unlink(frame, found);
                    self.table.set_migrate_type(frame, found, migrate);
                    self.split(frame, found, order);
                    return Some((frame, Origin::WholePageblock));
                }
                if self.is_mostly_ours(frame, migrate) {
                    self.retype_pageblock(frame, migrate);
                    return self
                        .take_smallest(order, migrate)
                        .map(|frame| (frame, Origin::Claimed));
                }
            }
        }
        None
    }

    fn steal(&mut self, order: Order, migrate: MigrateType) -> Option<FrameId> {
        (order.0..=Order::MAX.0).map(Order).find_map(|found| {
            let other =
                migrate.fallbacks().iter().find(|&&other| self.head(found, other).is_some())?;
            self.take_smallest(order, *other)
        })
    }

    fn is_mostly_ours(&self, frame: FrameId, migrate: MigrateType) -> bool {
        let (mut nr_ours, mut nr_all) = (0, 0);
        for (_, state) in PageblockWalk::new(&self.table, frame) {
            let (order, is_ours) = match state {
                FrameState::Free(order) => (order, true),
                FrameState::Allocated(order, user) => (order, user == migrate),
                FrameState::InPcp(order) | FrameState::Offline(order) => (order, false),
                FrameState::Interior => unreachable!("the walk visits first frames only"),
            };
            nr_all += order.nr_frames();
            nr_ours += if is_ours { order.nr_frames() } else { 0 };
        }
        2 * nr_ours >= nr_all
    }
}

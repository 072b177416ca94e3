//! Moves pages between memory tiers.
//!
//! ```text
//!   hint fault --> judged: stay | arm again | move      no headroom: wake background
//!   move up    a frame above HIGH --> off its lists --> moved --> listed    short? wake background
//!   listed     on its new node's lists --> armed, if core wants its latency
//! ```
//!
//! The moving page is locked, or the world has one thread.

use super::background::wake_background;
use super::{Driven, FIRST};
use crate::folio::{Flags, Folio};
use crate::ids::{FrameId, NodeId};
use crate::page_alloc::WatermarkLevel;
use crate::tiering::{Headroom, HintFaultAction, Migration, Promotion};
use crate::units::Millis;

/// A memory with several tiers.
pub trait Tiered: Driven {
    /// Returns the node of a frame.
    fn node_with(&self, frame: FrameId) -> NodeId;

    /// Returns the headroom of the fastest node.
    fn room(&self) -> Headroom;

    /// Returns true to start background reclaim at half of the headroom, unlike the kernel.
    fn makes_room_early(&self) -> bool {
        true
    }

    /// Lends promotion state, time and the frame's folio. `None` with one tier.
    fn lend_promotion<T>(
        &mut self,
        frame: FrameId,
        use_promotion: impl FnOnce(&mut Promotion, Millis, &Folio) -> T,
    ) -> Option<T>;
}

/// A memory with movable pages of this type.
pub trait MovesPages<Page>: Tiered {
    /// Returns the page's frame, if resident.
    fn frame_of(&self, page: &Page) -> Option<FrameId>;

    /// Moves the page with its state, and frees the old frame. The new folio is bound as by a table
    /// access, and unlisted.
    fn move_up(&mut self, page: &mut Page, target: Self::Frame);

    /// Records the move, and adds the folio to the node's access log.
    fn note_moved(&mut self, page: &Page, frame: FrameId, migration: Migration);

    /// Arms the page: the next access is a hint fault.
    fn arm(&mut self, page: &Page);
}

/// Judges a fault on an armed page with its hint taken.
pub fn judge_fault<W: Tiered>(world: &mut W, frame: FrameId) -> HintFaultAction {
    let room = (world.node_with(frame) != FIRST).then(|| world.room());
    let judge = |promotion: &mut Promotion, now, folio: &Folio| {
        promotion.judge_fault(now, folio, room.as_ref())
    };
    let Some(judged) = world.lend_promotion(frame, judge) else { return HintFaultAction::Stay };
    if judged.wakes_reclaim {
        wake_background(world);
    }
    judged.action
}

/// Moves the page from `frame` to the fastest node, if still there and movable.
pub fn promote<Page, W: MovesPages<Page>>(world: &mut W, page: &mut Page, frame: FrameId) {
    if world.frame_of(page) != Some(frame) {
        return;
    }
    let is_written = |_: &mut Promotion, _, folio: &Folio| folio.flags().any(Flags::WRITEBACK);
    if world.lend_promotion(frame, is_written) != Some(false) {
        return;
    }
    let Some(target) = world.take(FIRST, Some(WatermarkLevel::High)) else { return };
    world.lend_lists(world.node_with(frame), |lists| lists.whole_mut().withdraw(frame));
    world.move_up(page, target);
    list_moved(world, page, Migration::Promotion);
    if world.makes_room_early() && world.room().is_short() {
        // Before the next promotion fails.
        wake_background(world);
    }
}

/// Lists the folio of a moved page in its new node.
pub fn list_moved<Page, W: MovesPages<Page>>(world: &mut W, page: &Page, migration: Migration) {
    let frame = world.frame_of(page).expect("a page that moved is resident");
    world.lend_lists(world.node_with(frame), |lists| lists.whole_mut().moved_in(frame));
    world.note_moved(page, frame, migration);
    let note = |promotion: &mut Promotion, now, folio: &Folio| {
        if migration == Migration::Promotion {
            promotion.count_promoted(1);
        }
        promotion.arms_moved(now, folio, migration)
    };
    if world.lend_promotion(frame, note) == Some(true) {
        world.arm(page);
    }
}

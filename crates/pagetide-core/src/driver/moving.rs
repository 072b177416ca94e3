//! Moving pages between kinds of memory: up when an access meets an armed page, down in reclaim.
//!
//! ```text
//!   hint fault --> judged: stay | arm again | move      no room to move to: wake background
//!   move up    a frame above HIGH --> off its lists --> moved --> listed    short? wake background
//!   listed     on its new node's lists --> armed, if core wants to know how soon it is touched
//! ```
//!
//! The page that moves is locked, or the world has one thread: nothing else moves it meanwhile. A
//! reclaim pass may have its folio off the lists; then that decides what becomes of it.

use super::background::wake_background;
use super::{Driven, FIRST};
use crate::folio::{Flags, Folio};
use crate::group::NodeLists;
use crate::ids::{FrameId, NodeId};
use crate::page_alloc::WatermarkLevel;
use crate::tiering::{Headroom, HintFaultAction, Migration, Promotion};
use crate::units::Millis;

/// A memory that may be of several kinds.
pub trait Tiered: Driven {
    /// The node that a frame is of.
    fn node_with(&self, frame: FrameId) -> NodeId;

    /// How much room promotions find in the fastest node.
    fn room(&self) -> Headroom;

    /// Whether background reclaim is woken when half of the room for promotions is used up. The
    /// kernel waits until there is none for one.
    fn makes_room_early(&self) -> bool {
        true
    }

    /// Lends promotion, the time and the frame's folio; `None` where memory is of one kind.
    fn lend_promotion<T>(
        &mut self,
        frame: FrameId,
        use_promotion: impl FnOnce(&mut Promotion, Millis, &Folio) -> T,
    ) -> Option<T>;
}

/// A memory whose pages, of this type, move.
pub trait MovesPages<Page>: Tiered {
    /// The frame the page is in, if it is resident.
    fn frame_of(&self, page: &Page) -> Option<FrameId>;

    /// Frees a frame that was taken for a page, and is not needed.
    fn give_back(&mut self, frame: Self::Frame);

    /// Moves the page, and what is known of it, and frees the frame it leaves. The new folio is
    /// bound as on the fill of a table's access, and is on no list.
    fn move_up(&mut self, page: &mut Page, target: Self::Frame);

    /// Notes that the page moved to this frame, whose folio its node's access log now adds.
    fn note_moved(&mut self, page: &Page, frame: FrameId, migration: Migration);

    /// Arms the page: its next access is a hint fault.
    fn arm(&mut self, page: &Page);
}

/// Judges the fault on an armed page in this frame, whose hint the caller took.
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

/// Moves the page from `frame` to the fastest node, if it is there still and free to move.
pub fn promote<Page, W: MovesPages<Page>>(world: &mut W, page: &mut Page, frame: FrameId) {
    if world.frame_of(page) != Some(frame) {
        return;
    }
    let is_written = |_: &mut Promotion, _, folio: &Folio| folio.flags().any(Flags::WRITEBACK);
    if world.lend_promotion(frame, is_written) != Some(false) {
        return;
    }
    let Some(target) = world.take(FIRST, Some(WatermarkLevel::High)) else { return };
    let withdraw = |lists: &mut NodeLists| lists.whole_mut().withdraw(frame);
    if !world.lend_lists(world.node_with(frame), withdraw) {
        return world.give_back(target);
    }
    world.move_up(page, target);
    list_moved(world, page, Migration::Promotion);
    if world.makes_room_early() && world.room().is_short() {
        // Before the next finds none.
        wake_background(world);
    }
}

/// Hands the folio of a page that was moved to the lists of its node.
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

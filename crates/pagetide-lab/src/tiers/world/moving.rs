//! Moving a page from node to node: promotion in the fault, demotion in reclaim.
//!
//! ```text
//!   promote   slow frame off its lruvec -> fast frame, youngest there -> slow frame free
//!   demote    victim of the fast node's pass -> slow frame -> its verdict; free when it is settled
//! ```
//!
//! Problem: a moved page must be on one list and in one frame at any time, and must not bring a
//! stale stamp along. Idea: the page gets a new folio, with the flags that say how it was used;
//! binding it resets the stamp. Ignored: moves that fail half way. Source: the tiering
//! specification, sections 4 and 7.

use super::World;
use crate::tiers::access_loop::Node;
use crate::tiers::prices::Item;
use pagetide_core::driver;
use pagetide_core::folio::Flags;
use pagetide_core::ids::FrameId;
use pagetide_core::lru::AccessPath;
use pagetide_core::page_alloc::WatermarkLevel;
use pagetide_core::tiering::Migration;

impl World {
    /// Moves a page of the slow node to the fast one, if there is still a frame.
    pub(super) fn promote(&mut self, page: u32) {
        let high = Some(WatermarkLevel::High);
        let Some((_, frame)) = self.take_frame(Node::Fast, high) else {
            return driver::wake_background(self);
        };
        let before = self.access_loop.word(page).frame();
        let slow = self.lists[Node::Slow as usize].whole_mut();
        assert!(slow.withdraw(before), "nothing reclaims slow memory");
        let rule = self.lists[Node::Fast as usize].root().access_rule();
        self.put_moved(page, Node::Fast, frame, rule.flags_on_fill(AccessPath::Table));
        self.free_frame(before);
        self.access_loop.count_copy(Node::Slow, Node::Fast);
        self.access_loop.charge(Item::MovePage, 1);
        self.promotion.count_promoted(1);
        self.arm_moved(page, frame, Migration::Promotion);
        self.tally.promoted(page, self.access_loop.now_ns(), self.access_loop.uses(page));
    }

    /// Moves a victim of the fast node's pass to a frame of the slow node. Its old frame stays the
    /// pass's.
    pub(super) fn move_down(&mut self, page: u32, frame: FrameId) {
        self.put_moved(page, Node::Slow, frame, Flags::NONE);
        self.access_loop.take_young(page);
        self.arm_moved(page, frame, Migration::Demotion);
        self.access_loop.count_copy(Node::Fast, Node::Slow);
        self.tally.demoted(page, self.access_loop.now_ns(), self.access_loop.uses(page));
    }

    /// Arms a page where it has just been moved to, if core wants to know how soon it is touched.
    fn arm_moved(&mut self, page: u32, frame: FrameId, migration: Migration) {
        if self.promotion.arms_moved(self.now(), &self.folios[frame], migration) {
            self.arm_again(page);
        }
    }

    pub(super) fn arm_again(&mut self, page: u32) {
        self.access_loop.arm(page);
        self.access_loop.charge(Item::Arm, 1);
    }

    /// Makes `frame` the page's in place of the one it has.
    fn put_moved(&mut self, page: u32, node: Node, frame: FrameId, flags: Flags) {
        let before = self.access_loop.word(page).frame();
        self.folios[frame].bind_moved(&self.folios[before], flags);
        self.lists[node as usize].whole_mut().moved_in(frame);
        self.give(page, node, frame);
    }
}

//! Moving a page between nodes: promotion in the fault, demotion in reclaim.
//!
//! ```text
//!   promote   slow frame off its lruvec -> fast frame, youngest there -> slow frame free
//!   demote    victim of the fast node's pass -> slow frame -> its verdict; free when it is settled
//! ```
//!
//! Problem: a moved page must always be on one list and in one frame, without a stale stamp. Idea:
//! bind a new folio with the use flags, which resets the stamp. Ignored: moves that fail half way.
//! Source: Linux 6.18's promotion and demotion.

use super::World;
use crate::tiers::access_loop::Node;
use crate::tiers::prices::Item;
use pagetide_core::driver::{self, MovesPages, Tiered};
use pagetide_core::folio::{Flags, Folio};
use pagetide_core::ids::{FrameId, NodeId};
use pagetide_core::lru::AccessPath;
use pagetide_core::tiering::{Headroom, Migration, Promotion};
use pagetide_core::units::Millis;

impl World {
    pub(super) fn promote(&mut self, page: u32, frame: FrameId) {
        driver::promote(self, &mut { page }, frame);
        if self.access_loop.word(page).node() == Node::Fast {
            self.tally.promoted(page, self.access_loop.now_ns(), self.access_loop.uses(page));
        }
    }

    /// Demotes a victim of the fast node's pass. The pass keeps the old frame.
    pub(super) fn move_down(&mut self, page: u32, frame: FrameId) {
        self.put_moved(page, Node::Slow, frame, Flags::NONE);
        self.access_loop.take_young(page);
        driver::list_moved(self, &page, Migration::Demotion);
        self.access_loop.count_copy(Node::Fast, Node::Slow);
        self.tally.demoted(page, self.access_loop.now_ns(), self.access_loop.uses(page));
    }

    fn put_moved(&mut self, page: u32, node: Node, frame: FrameId, flags: Flags) {
        let before = self.access_loop.word(page).frame();
        self.folios[frame].bind_moved(&self.folios[before], flags);
        self.page_in[frame.0 as usize] = page;
        self.access_loop.place(page, node, frame);
    }
}

impl Tiered for World {
    fn node_with(&self, frame: FrameId) -> NodeId {
        self.node_of(frame).id()
    }

    fn room(&self) -> Headroom {
        Headroom::of(&self.zones[Node::Fast as usize])
    }

    fn makes_room_early(&self) -> bool {
        false
    }

    fn lend_promotion<T>(
        &mut self,
        frame: FrameId,
        use_promotion: impl FnOnce(&mut Promotion, Millis, &Folio) -> T,
    ) -> Option<T> {
        let now = self.now();
        Some(use_promotion(&mut self.promotion, now, &self.folios[frame]))
    }
}

impl MovesPages<u32> for World {
    fn frame_of(&self, page: &u32) -> Option<FrameId> {
        let word = self.access_loop.word(*page);
        word.is_resident().then(|| word.frame())
    }

    fn move_up(&mut self, page: &mut u32, (node, frame): (Node, FrameId)) {
        let before = self.access_loop.word(*page).frame();
        let rule = self.lists[Node::Fast as usize].root().access_rule();
        self.put_moved(*page, node, frame, rule.flags_on_fill(AccessPath::Table));
        self.free_frame(before);
        self.access_loop.count_copy(Node::Slow, Node::Fast);
        self.access_loop.charge(Item::MovePage, 1);
    }

    fn note_moved(&mut self, _page: &u32, frame: FrameId, _migration: Migration) {
        self.log_add(self.node_of(frame), frame);
    }

    fn arm(&mut self, page: &u32) {
        self.access_loop.arm(*page);
        self.access_loop.charge(Item::Arm, 1);
    }
}

//! Allocation and reclaim in the model: the memory operations of core's driver.
//!
//! ```text
//!   claim     young? --no--> a frame of the slow node --none--> busy
//!   demote    the page is there at once, on the slow node's list
//! ```
//!
//! All pages are anonymous and nothing is evicted: a victim without a slow frame stays. Only the
//! fast node is reclaimed. Ignored: sparing hot victims, and limits by the room below.

use super::World;
use crate::background::{self, Background, HasBackground};
use crate::tiers::access_loop::Node;
use crate::tiers::prices::Item;
use pagetide_core::driver::{Driven, DrivenPass, LeafRead, Woken};
use pagetide_core::folio::Flags;
use pagetide_core::group::NodeLists;
use pagetide_core::ids::{FrameId, NodeId, PageId};
use pagetide_core::lru::page_table::{LeafId, LeafLook, wants_around};
use pagetide_core::lru::{ReclaimBatch, Refusal, ShadowEntry, Victim};
use pagetide_core::page_alloc::{Starving, WatermarkLevel};
use pagetide_core::tiering::{BalancingMode, Demotion, DemotionMode, background_level};

impl World {
    fn demotion_from(&self, node: NodeId) -> Option<Demotion<'_>> {
        Demotion::of(&self.topology, node, DemotionMode::On, 0)
    }
}

impl HasBackground for World {
    fn background(&mut self) -> &mut Background {
        &mut self.background
    }
}

impl Driven for World {
    type Frame = (Node, FrameId);
    type Pass<'p> = World;

    fn nr_nodes(&self) -> u8 {
        self.zones.len() as u8
    }

    fn take(&mut self, node: NodeId, level: Option<WatermarkLevel>) -> Option<(Node, FrameId)> {
        self.take_frame(if node == Node::Fast.id() { Node::Fast } else { Node::Slow }, level)
    }

    fn drain_frames(&mut self, _node: NodeId) -> Option<Starving> {
        None
    }

    fn drain_logs(&mut self, node: NodeId) {
        self.lists[node.index()].drain(&mut self.logs[node.index()]);
    }

    fn wake_background(&mut self) -> Woken {
        let now_ns = self.access_loop.now_ns();
        if background::wake(self, now_ns) {
            self.plan();
        }
        Woken::Thread
    }

    fn wake_flusher(&mut self) {}

    fn demotes(&self, node: NodeId) -> bool {
        self.demotion_from(node).is_some()
    }

    fn background_target(&mut self, node: NodeId, _room_below: u64) -> u64 {
        if node != Node::Fast.id() {
            return 0;
        }
        let zone = &self.zones[node.index()];
        let level = background_level(&self.topology, node, BalancingMode::Tiering);
        let wanted = zone.watermarks().mark(level) + 1;
        wanted.saturating_sub(zone.nr_free())
    }

    fn room_for_demoted(&mut self, _node: NodeId) -> u64 {
        0
    }

    fn set_reclaim_active(&mut self, _node: NodeId, _is_active: bool) {}

    fn lend_lists<T>(&mut self, node: NodeId, use_lists: impl FnOnce(&mut NodeLists) -> T) -> T {
        use_lists(&mut self.lists[node.index()])
    }

    fn lend_current<T>(&mut self, node: NodeId, use_lists: impl FnOnce(&mut NodeLists) -> T) -> T {
        let now = self.now();
        let lists = &mut self.lists[node.index()];
        lists.tell_time(now);
        lists.drain(&mut self.logs[node.index()]);
        use_lists(lists)
    }

    fn in_pass(&mut self, _node: NodeId, run: impl FnOnce(&mut World, &mut ReclaimBatch)) {
        run(self, &mut ReclaimBatch::new());
    }
}

impl DrivenPass for World {
    fn lists(&mut self, node: NodeId) -> &mut NodeLists {
        &mut self.lists[node.index()]
    }

    fn flags(&self, frame: FrameId) -> Flags {
        self.folios[frame].flags()
    }

    fn spares(&mut self, _victim: &Victim) -> bool {
        false
    }

    fn claim(&mut self, victim: &Victim) -> Result<(), Refusal> {
        let page = victim.page.index.0 as u32;
        if self.access_loop.take_young(page) {
            return Err(Refusal::Young);
        }
        // There is only one slower node to try.
        let has_target = self.demotion_from(self.node_of(victim.frame).id()).is_some();
        let target = has_target.then(|| self.take_frame(Node::Slow, Some(WatermarkLevel::Low)));
        let (_, target) = target.flatten().ok_or(Refusal::Busy)?;
        self.claimed = Some((page, target));
        Ok(())
    }

    fn release(&mut self) {
        if let Some((_, target)) = self.claimed.take() {
            self.free_frame(target);
        }
    }

    fn demote(&mut self, _node: NodeId) -> bool {
        let Some((page, target)) = self.claimed.take() else { return false };
        self.move_down(page, target);
        self.background.add_ns(self.access_loop.helper_ns(Item::Demote));
        true
    }

    fn evict(&mut self, page: PageId, _frame: FrameId, _shadow: Option<ShadowEntry>) {
        unreachable!("{page:?} has nowhere to go but to slower memory")
    }

    fn list_demoted(&mut self, _frame: FrameId) {}

    fn free(&mut self, frames: impl Iterator<Item = FrameId> + Clone) {
        frames.for_each(|frame| self.free_frame(frame));
    }

    fn take_young(&mut self, victim: &Victim) -> bool {
        self.access_loop.take_young(victim.page.index.0 as u32)
    }

    fn collect_touched(&mut self, leaves: &mut Vec<LeafId>) {
        leaves.extend(self.tables.touched());
    }

    fn read_leaf(
        &mut self,
        node: NodeId,
        leaf: LeafId,
        read: &LeafRead,
        look: &mut LeafLook<'_>,
    ) -> bool {
        match read {
            LeafRead::Walk => {
                self.tables.take_touched(leaf);
                self.read_words(node, leaf.pages(), |_, _| true, look);
            }
            LeafRead::Around(pages) => {
                let takes = |world: &World, frame| wants_around(world.folios[frame].flags());
                self.read_words(node, pages.clone(), takes, look);
            }
        }
        true
    }
}

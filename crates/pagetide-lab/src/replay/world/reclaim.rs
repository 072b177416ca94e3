//! Allocation and reclaim in the virtual world: the driver's operations on plain vectors.
//!
//! The page cache runs the same loops ([`driver`]) with locks. Only a machine has background
//! reclaim. Several nodes run their passes at once. Elsewhere waking does nothing.
//!
//! A claim takes the page's swap slot. No lock is needed, as nothing happens between a claim and
//! its end.

use super::node::Node;
use super::{Backing, Mark, Page, Word, World};
use crate::replay::memory::{Frames, Slot};
use crate::trace::DenseTrace;
use pagetide_core::driver::{self, Driven, DrivenPass, LeafRead, Woken};
use pagetide_core::folio::Flags;
use pagetide_core::group::NodeLists;
use pagetide_core::ids::{FrameId, GroupId, NodeId, PageId};
use pagetide_core::lru::lru_gen::Detail;
use pagetide_core::lru::page_table::{LeafId, LeafLook, wants_around};
use pagetide_core::lru::{
    DEF_PRIORITY, GenCommandError, ReclaimBatch, Refusal, Scan, ShadowEntry, Victim,
};
use pagetide_core::page_alloc::{Starving, WatermarkLevel};
use pagetide_core::tiering::Migration;
use std::ops::Range;

/// Returns a name for a group, as a record has only numbers.
fn path_of(group: GroupId) -> String {
    if group == GroupId::ROOT { "/".to_owned() } else { format!("/{group}") }
}

impl World<'_> {
    /// Allocates a frame for the page of this rank, or returns `None`.
    ///
    /// As in the papers, a group's reclaim knows the incoming page. As in the page cache, a zone's
    /// does not.
    pub(super) fn alloc(&mut self, rank: u32) -> Option<FrameId> {
        match self.nodes[0].frames {
            Frames::Group(_) => self.alloc_in_limit(self.shadow_of(rank)),
            Frames::KernelGroup(_) => {
                let frame = self.alloc_in_limit(self.shadow_of(rank))?;
                let has_slot = self.grow_tree(rank) || {
                    driver::reclaim_for_page(self, driver::FIRST, self.shadow_of(rank));
                    self.grow_tree(rank)
                };
                if !has_slot {
                    self.nodes[0].frames.free(frame);
                }
                has_slot.then_some(frame)
            }
            Frames::Zone(_) => driver::take_above_low(self).or_else(|| driver::alloc_slowly(self)),
        }
    }

    pub(super) fn take_free(&mut self, rank: u32) -> Option<FrameId> {
        let frame = driver::take_above_low(self)?;
        let has_slot = self.grow_tree(rank);
        if !has_slot {
            self.nodes[0].frames.free(frame);
        }
        has_slot.then_some(frame)
    }

    /// Allocates from a memory without watermarks, for a page with this shadow.
    #[inline]
    pub(super) fn alloc_in_limit(&mut self, incoming: Option<ShadowEntry>) -> Option<FrameId> {
        self.nodes[0].frames.take(None).or_else(|| {
            driver::reclaim_for_page(self, driver::FIRST, incoming);
            self.nodes[0].frames.take(None)
        })
    }

    /// Charges the tree nodes for a file page. Returns false if there is no room.
    fn grow_tree(&mut self, rank: u32) -> bool {
        match &mut self.nodes[0].frames {
            Frames::KernelGroup(group) => {
                self.pages[rank as usize].backing() != Backing::File || group.grow(rank)
            }
            Frames::Group(_) | Frames::Zone(_) => true,
        }
    }

    /// Runs commands in the format of `lru_gen` up to the first failure. Returns the number of
    /// evicted pages.
    ///
    /// # Errors
    /// Fails with [`GenCommandError`] for the first failed command.
    pub fn command_lru_gen(&mut self, text: &str) -> Result<u64, GenCommandError> {
        driver::command_lru_gen(self, text)
    }

    /// Describes the generations in the format of `lru_gen`. Groups have only numbers.
    pub fn describe_lru_gen(&mut self, detail: Detail) -> String {
        driver::describe_lru_gen(self, &path_of, detail)
    }

    /// Drops shadows above the group's limit, once after a pass. The kernel drops after each
    /// priority.
    #[inline]
    fn trim_shadows(&mut self, last_priority: u8) {
        let Node { frames: Frames::KernelGroup(group), lists, .. } = &mut self.nodes[0] else {
            return;
        };
        let nr_pages = lists.root().nr_pages_for_shadows();
        for priority in (last_priority..=DEF_PRIORITY).rev() {
            for _ in 0..group.nr_leaves_to_drop(nr_pages, priority) {
                for &rank in group.drop_oldest_leaf() {
                    self.pages[rank as usize].set_word(Word::Absent);
                }
            }
        }
    }
}

impl<'a> Driven for World<'a> {
    type Frame = FrameId;
    type Pass<'p> = World<'a>;

    fn nr_nodes(&self) -> u8 {
        self.nodes.len() as u8
    }

    fn take(&mut self, node: NodeId, level: Option<WatermarkLevel>) -> Option<FrameId> {
        self.nodes[node.index()].frames.take(level)
    }

    fn drain_frames(&mut self, node: NodeId) -> Option<Starving> {
        self.nodes[node.index()].frames.drain()
    }

    fn drain_logs(&mut self, node: NodeId) {
        self.nodes[node.index()].drain();
    }

    fn wake_background(&mut self) -> Woken {
        if self.tiering.is_some() {
            return Woken::Caller;
        }
        self.wake_background_thread();
        Woken::Thread
    }

    fn wake_flusher(&mut self) {
        if self.has_flusher {
            self.flush_soon();
        }
    }

    fn demotes(&self, node: NodeId) -> bool {
        self.tiering.as_ref().is_some_and(|tiering| tiering.demotes(node))
    }

    fn background_target(&mut self, node: NodeId, room_below: u64) -> u64 {
        let tiering = self.tiering.as_ref();
        let level = tiering.map_or(WatermarkLevel::High, |tiering| tiering.background_level(node));
        self.nodes[node.index()].frames.background_target(level, room_below)
    }

    fn room_for_demoted(&mut self, node: NodeId) -> u64 {
        self.nodes[node.index()].frames.room_for_demoted()
    }

    fn set_reclaim_active(&mut self, node: NodeId, is_active: bool) {
        self.nodes[node.index()].frames.set_reclaim_active(is_active);
    }

    fn lend_lists<T>(&mut self, node: NodeId, use_lists: impl FnOnce(&mut NodeLists) -> T) -> T {
        use_lists(&mut self.nodes[node.index()].lists)
    }

    fn lend_current<T>(&mut self, node: NodeId, use_lists: impl FnOnce(&mut NodeLists) -> T) -> T {
        let now = self.now();
        let node = &mut self.nodes[node.index()];
        node.settle(now);
        use_lists(&mut node.lists)
    }

    fn in_pass(&mut self, _node: NodeId, run: impl FnOnce(&mut Self, &mut ReclaimBatch)) {
        let mut batch = self.batch.take().unwrap_or_default();
        run(self, &mut batch);
        self.batch = Some(batch);
    }

    #[inline]
    fn end_pass(&mut self, _node: NodeId, scan: &Scan) {
        self.trim_shadows(scan.priority);
    }
}

impl DrivenPass for World<'_> {
    #[inline]
    fn lists(&mut self, node: NodeId) -> &mut NodeLists {
        &mut self.nodes[node.index()].lists
    }

    #[inline]
    fn flags(&self, frame: FrameId) -> Flags {
        self.folios[frame].flags()
    }

    #[cold]
    fn spares(&mut self, victim: &Victim) -> bool {
        let rank = self.rank_in[victim.frame.0 as usize];
        let is_armed = self.pages[rank as usize].has(Mark::Armed);
        let folio = &self.folios[victim.frame];
        self.tiering.as_mut().is_some_and(|tiering| tiering.spares(folio, is_armed))
    }

    #[inline]
    fn claim(&mut self, victim: &Victim) -> Result<(), Refusal> {
        let rank = self.rank_in[victim.frame.0 as usize];
        self.last_claimed = rank;
        let page = &mut self.pages[rank as usize];
        let is_pinned = self.nr_pins.get(rank as usize).is_some_and(|nr_pins| *nr_pins > 0);
        if !is_pinned && page.plain_frame() == Some(victim.frame) {
            return Ok(());
        }
        if is_pinned || page.has(Mark::Filling) || page.word() != Word::Resident(victim.frame) {
            return Err(Refusal::Busy);
        }
        if page.take(Mark::Young) {
            return Err(Refusal::Young);
        }
        if page.backing() == Backing::Nothing {
            if self.swap_left == 0 {
                return Err(Refusal::Busy);
            }
            page.set_backing(Backing::Swap);
            self.swap_left -= 1;
        }
        Ok(())
    }

    fn release(&mut self) {
        self.leave_swap(self.last_claimed);
    }

    #[cold]
    fn demote(&mut self, node: NodeId) -> bool {
        let rank = self.last_claimed;
        let Some(source) = self.frame_of(rank) else { return false };
        let Some(tiering) = &self.tiering else { return false };
        let Some(target) = tiering.alloc_demoted(&mut self.nodes, node) else { return false };
        self.folios[target].bind_moved(&self.folios[source], Flags::NONE);
        self.pages[rank as usize].move_to(target);
        self.rank_in[target.0 as usize] = rank;
        self.leave_swap(rank);
        true
    }

    #[inline]
    fn evict(&mut self, page: PageId, frame: FrameId, shadow: Option<ShadowEntry>) {
        let rank = self.rank_in[frame.0 as usize];
        self.change_slot(rank, if shadow.is_some() { Slot::Shadow } else { Slot::Empty });
        self.pages[rank as usize].set_word(shadow.map_or(Word::Absent, Word::Shadow));
        (self.evicted)(page);
    }

    #[cold]
    fn list_demoted(&mut self, frame: FrameId) {
        let rank = self.rank_in[frame.0 as usize];
        driver::list_moved(self, &rank, Migration::Demotion);
    }

    #[inline]
    fn free(&mut self, frames: impl Iterator<Item = FrameId> + Clone) {
        if self.tiering.is_none() {
            return self.nodes[0].frames.free_all(frames);
        }
        for frame in frames {
            self.node_of(frame).frames.free(frame);
        }
    }

    fn take_young(&mut self, victim: &Victim) -> bool {
        let rank = self.rank_in[victim.frame.0 as usize];
        self.pages[rank as usize].take(Mark::Young)
    }

    fn collect_touched(&mut self, leaves: &mut Vec<LeafId>) {
        let touched = self.tables.leaves.iter().filter(|leaf| leaf.is_touched);
        leaves.extend(touched.map(|leaf| leaf.id));
    }

    fn read_leaf(
        &mut self,
        node: NodeId,
        leaf: LeafId,
        read: &LeafRead,
        look: &mut LeafLook<'_>,
    ) -> bool {
        let Some((leaf, ranks)) = self.tables.leaf_and_ranks(leaf) else { return false };
        let node = &self.nodes[node.index()];
        let words = Words { ranks, trace: self.trace, pages: &mut self.pages, node };
        match read {
            LeafRead::Walk => {
                leaf.is_touched = words.read(leaf.id.pages(), |_| true, look);
            }
            LeafRead::Around(pages) => {
                let takes = |frame: FrameId| wants_around(self.folios[frame].flags());
                leaf.is_touched |= words.read(pages.clone(), takes, look);
            }
        }
        true
    }
}

struct Words<'a> {
    ranks: &'a [u32],
    trace: &'a DenseTrace,
    pages: &'a mut [Page],
    node: &'a Node,
}

impl Words<'_> {
    /// Reports the words of `range` in the node to `look`, and takes the young bits that `takes`
    /// selects. Returns true if young pages of other nodes remain.
    fn read(
        self,
        range: Range<u64>,
        takes: impl Fn(FrameId) -> bool,
        look: &mut LeafLook<'_>,
    ) -> bool {
        let mut leaves_young = false;
        for &rank in self.ranks {
            let index = self.trace.page(rank).index;
            let page = &mut self.pages[rank as usize];
            let Word::Resident(frame) = page.word() else { continue };
            if !range.contains(&index.0) {
                continue;
            }
            if !self.node.has(frame) {
                leaves_young |= page.has(Mark::Young);
                continue;
            }
            if page.has(Mark::Young) && takes(frame) {
                page.take(Mark::Young);
                look.young(index, frame);
            } else {
                look.resident(index);
            }
        }
        leaves_young
    }
}

//! A memory group as the kernel accounts it: the limit pays for more than pages of files.
//!
//! Problem: of a group limited to 15,000 pages, the page cache holds some 14,500, and fewer the
//! more of a file was touched: the limit also pays for the nodes of the tree that finds the pages,
//! for what the process itself needs, and for what a CPU has charged ahead. Replays in so many
//! frames as were left at the end start out too small.
//!
//! Idea: frames to hold pages are plenty; what is scarce are charges.
//!
//! ```text
//!   limit = others (28) | nodes / 7 | resident pages | stock (charged ahead) | left
//! ```
//!
//! A page takes its charge from the stock; else 64 are charged, and 63 go there; else one; else
//! reclaim has to make room. A page whose slot has no node yet pays for nodes, too: 28 of them in
//! 16 KiB.
//!
//! With the mechanism `shadow-limit` the group also drops leaves that hold nothing but shadows, as
//! [`ShadowBudget`] says, and so forgets evictions.
//!
//! Ignored: the process's memory changes; what freed nodes leave in the stock.
//!
//! Source: the multi-gen LRU specification, section 15; the classic one, section 8.

use super::page_tree::{PageTree, Slot};
use crate::trace::DenseTrace;
use pagetide_core::ids::FrameId;
use pagetide_core::lru::ShadowBudget;

/// Pages charged for other things: the stacks and heap of a small process, above all.
const NR_OTHERS: u32 = 28;
/// Nodes in a page of 4 KiB: 28 in four.
const NODES_PER_PAGE: u32 = 7;
/// Slots of a node, which the limit on shadows is to know.
const NODE_SLOTS: u32 = 64;
/// Charged at once, where the limit allows.
const CHARGE_BATCH: u32 = 64;

/// What is charged to a group, and its frames that hold nothing.
#[derive(Debug)]
pub(in super::super) struct KernelGroup {
    free: Vec<FrameId>,
    limit: u32,
    /// Pages of the limit that are not charged.
    nr_left: u32,
    /// Charged, and used for nothing yet.
    stock: u32,
    tree: PageTree,
    /// The limit on shadows, if there is one.
    budget: Option<ShadowBudget>,
}

/// Frames of a group with this limit that can ever hold pages.
pub(super) fn nr_frames_max(limit_pages: u32) -> u32 {
    limit_pages.saturating_sub(NR_OTHERS)
}

impl KernelGroup {
    pub(super) fn new(limit: u32, limits_shadows: bool, trace: &DenseTrace) -> KernelGroup {
        let nr_left = nr_frames_max(limit);
        KernelGroup {
            free: (0..nr_left).rev().map(FrameId).collect(),
            limit,
            nr_left,
            stock: 0,
            tree: PageTree::new(trace),
            budget: limits_shadows.then(|| ShadowBudget::new(NODE_SLOTS)),
        }
    }

    /// Takes a frame, if it can be charged.
    pub(super) fn take(&mut self) -> Option<FrameId> {
        if self.charge(1) { self.free.pop() } else { None }
    }

    pub(super) fn free(&mut self, frame: FrameId) {
        self.nr_left += 1;
        self.free.push(frame);
    }

    pub(super) fn nr_free(&self) -> u32 {
        self.free.len() as u32
    }

    /// Makes the nodes a page needs that is about to be filled, if they can be charged.
    pub(in super::super) fn grow(&mut self, rank: u32) -> bool {
        let nr_nodes = self.tree.nr_nodes() + self.tree.nr_missing(rank);
        let nr_more = nr_nodes.div_ceil(NODES_PER_PAGE) - self.nr_node_pages();
        let can_grow = nr_more == 0 || self.charge(nr_more);
        if can_grow {
            self.tree.grow(rank);
        }
        can_grow
    }

    /// What the page's slot holds changes; nodes that are left empty are paid for no longer.
    pub(super) fn change(&mut self, rank: u32, before: Slot, after: Slot) {
        let nr_before = self.nr_node_pages();
        self.tree.change(rank, before, after);
        self.nr_left += nr_before - self.nr_node_pages();
    }

    /// How many leaves of shadows to drop after reclaim at `priority`, while the limit on them
    /// follows from `nr_pages`.
    pub(in super::super) fn nr_leaves_to_drop(&mut self, nr_pages: u64, priority: u8) -> u64 {
        let nr_leaves = self.tree.nr_shadow_leaves();
        let Some(budget) = &mut self.budget else { return 0 };
        budget.nr_leaves_to_free(nr_leaves, nr_pages, priority)
    }

    /// Drops the oldest leaf of shadows: the pages of these ranks have none any more.
    pub(in super::super) fn drop_oldest_leaf(&mut self) -> &[u32] {
        let nr_before = self.nr_node_pages();
        let leaf = self.tree.drop_oldest();
        self.nr_left += nr_before - self.nr_node_pages();
        leaf.map_or(&[], |leaf| self.tree.ranks_in(leaf))
    }

    fn nr_node_pages(&self) -> u32 {
        self.tree.nr_nodes().div_ceil(NODES_PER_PAGE)
    }

    fn charge(&mut self, nr_pages: u32) -> bool {
        if self.stock < nr_pages {
            let batches = [CHARGE_BATCH, nr_pages];
            let Some(batch) = batches.into_iter().find(|batch| *batch <= self.nr_left) else {
                return false;
            };
            self.nr_left -= batch;
            self.stock += batch;
        }
        self.stock -= nr_pages;
        true
    }

    pub(super) fn validate(&self, slot: impl Fn(u32) -> Slot) {
        self.tree.validate(slot);
        let nr_resident = nr_frames_max(self.limit) - self.nr_free();
        let nr_charged = NR_OTHERS + self.nr_node_pages() + nr_resident + self.stock;
        assert_eq!(nr_charged + self.nr_left, self.limit, "charged and left are the limit");
    }
}

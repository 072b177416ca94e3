//! A memory group with kernel accounting: the limit also pays for tree nodes and more.
//!
//! Problem: a group limited to 15,000 pages caches some 14,500, because the limit also pays for
//! page-tree nodes, the process, and pages charged ahead per CPU. Idea: frames are plenty, and
//! charges are scarce.
//!
//! ```text
//!   limit = others (28) | nodes / 7 | resident pages | stock (charged ahead) | left
//! ```
//!
//! A page takes its charge from the stock. Without stock the group charges 64 pages, or one near
//! the limit. At the limit reclaim makes room. New tree nodes also cost: 28 in 16 KiB.
//!
//! With the mechanism `shadow-limit` the group also drops leaves of only shadows, as
//! [`ShadowBudget`] demands.
//!
//! Ignored: changes of the process's memory, and the stock left by freed nodes.
//!
//! Sources: memory cgroups of Linux 6.18.15, as measured. `mm/workingset.c` for the shadow limit.

use super::page_tree::{PageTree, Slot};
use crate::trace::DenseTrace;
use pagetide_core::ids::FrameId;
use pagetide_core::lru::ShadowBudget;

/// Pages charged for a small process, mostly stacks and heap.
const NR_OTHERS: u32 = 28;
/// Nodes per 4 KiB page: 28 in four.
const NODES_PER_PAGE: u32 = 7;
/// Slots of a node, for the shadow limit.
const NODE_SLOTS: u32 = 64;
/// Pages charged at once, if the limit allows.
const CHARGE_BATCH: u32 = 64;

#[derive(Debug)]
pub(in super::super) struct KernelGroup {
    free: Vec<FrameId>,
    limit: u32,
    /// Uncharged pages of the limit.
    nr_left: u32,
    /// Charged and unused pages.
    stock: u32,
    tree: PageTree,
    budget: Option<ShadowBudget>,
}

/// Returns the frames that can ever hold pages.
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

    /// Makes the missing nodes for a page about to be filled, if the group can charge for them.
    pub(in super::super) fn grow(&mut self, rank: u32) -> bool {
        let nr_nodes = self.tree.nr_nodes() + self.tree.nr_missing(rank);
        let nr_more = nr_nodes.div_ceil(NODES_PER_PAGE) - self.nr_node_pages();
        let can_grow = nr_more == 0 || self.charge(nr_more);
        if can_grow {
            self.tree.grow(rank);
        }
        can_grow
    }

    /// Records a change of a slot. Refunds emptied nodes.
    pub(super) fn change(&mut self, rank: u32, before: Slot, after: Slot) {
        let nr_before = self.nr_node_pages();
        self.tree.change(rank, before, after);
        self.nr_left += nr_before - self.nr_node_pages();
    }

    /// Returns the shadow leaves to drop after reclaim at `priority`, with a limit derived from
    /// `nr_pages`.
    pub(in super::super) fn nr_leaves_to_drop(&mut self, nr_pages: u64, priority: u8) -> u64 {
        let nr_leaves = self.tree.nr_shadow_leaves();
        let Some(budget) = &mut self.budget else { return 0 };
        budget.nr_leaves_to_free(nr_leaves, nr_pages, priority)
    }

    /// Drops the oldest shadow leaf. Returns the ranks of its pages.
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

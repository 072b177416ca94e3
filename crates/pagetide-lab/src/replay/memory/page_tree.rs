//! The kernel's page tree of a file: nodes for resident pages and shadow entries.
//!
//! Problem: memory groups pay for nodes, which live while they hold a page or a shadow. Idea: count
//! the contents of each node, and order the shadow-only leaves by age.
//!
//! ```text
//!   above   [ .  .  .  . ]            64 leaves of 64 slots: 4096 pages of one file
//!            /      |
//!   leaf  [P S . P] [S S . .]         the second holds shadows only: first to be dropped
//! ```
//!
//! Data and invariants: a leaf is in the tree from [`PageTree::grow`] until empty, an upper node
//! while a leaf below is. `shadow_leaves` is ordered oldest first.
//!
//! Ignored: levels above the second (a node for every 262,144 pages), and anonymous pages.
//!
//! Source: Linux 6.18's page cache and the shadow shrinker of `mm/workingset.c`.

use crate::trace::DenseTrace;
use pagetide_core::ids::PageId;
use std::collections::BTreeMap;

const SLOTS_SHIFT: u32 = 6;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) enum Slot {
    Empty,
    Shadow,
    Page,
}

#[derive(Debug)]
pub(super) struct PageTree {
    /// By rank.
    leaf_of: Vec<u32>,
    /// In page order.
    ranks: Vec<u32>,
    leaves: Vec<Leaf>,
    /// Leaves in the tree below each upper node.
    nr_below: Vec<u32>,
    nr_nodes: u32,
    /// By the time of becoming shadow-only.
    shadow_leaves: BTreeMap<u64, u32>,
    nr_stamps: u64,
}

#[derive(Debug)]
struct Leaf {
    /// Index in [`PageTree::ranks`] of the leaf's first page.
    first: u32,
    above: u32,
    is_in_tree: bool,
    nr_pages: u32,
    nr_shadows: u32,
    /// Key in [`PageTree::shadow_leaves`], if present.
    stamp: Option<u64>,
}

impl PageTree {
    pub(super) fn new(trace: &DenseTrace) -> PageTree {
        let mut ranks: Vec<u32> = (0..trace.nr_pages() as u32).collect();
        ranks.sort_unstable_by_key(|rank| trace.page(*rank));
        let mut tree = PageTree {
            leaf_of: vec![0; ranks.len()],
            ranks: Vec::new(),
            leaves: Vec::new(),
            nr_below: Vec::new(),
            nr_nodes: 0,
            shadow_leaves: BTreeMap::new(),
            nr_stamps: 0,
        };
        let node = |page: PageId, level: u32| (page.mapping, page.index.0 >> (level * SLOTS_SHIFT));
        let mut last = None;
        for (at, &rank) in (0..).zip(&ranks) {
            let page = trace.page(rank);
            if last.is_none_or(|last| node(last, 2) != node(page, 2)) {
                tree.nr_below.push(0);
            }
            if last.is_none_or(|last| node(last, 1) != node(page, 1)) {
                tree.leaves.push(Leaf::new(at, tree.nr_below.len() as u32 - 1));
            }
            tree.leaf_of[rank as usize] = tree.leaves.len() as u32 - 1;
            last = Some(page);
        }
        tree.ranks = ranks;
        tree
    }

    pub(super) fn nr_nodes(&self) -> u32 {
        self.nr_nodes
    }

    pub(super) fn nr_shadow_leaves(&self) -> u64 {
        self.shadow_leaves.len() as u64
    }

    /// Returns the nodes to make before the page gets a slot.
    pub(super) fn nr_missing(&self, rank: u32) -> u32 {
        let leaf = &self.leaves[self.leaf_of[rank as usize] as usize];
        match (leaf.is_in_tree, self.nr_below[leaf.above as usize]) {
            (true, _) => 0,
            (false, 0) => 2,
            (false, _) => 1,
        }
    }

    pub(super) fn grow(&mut self, rank: u32) {
        self.nr_nodes += self.nr_missing(rank);
        let leaf = &mut self.leaves[self.leaf_of[rank as usize] as usize];
        if !std::mem::replace(&mut leaf.is_in_tree, true) {
            self.nr_below[leaf.above as usize] += 1;
        }
    }

    /// Records a change of a slot. Removes emptied nodes.
    pub(super) fn change(&mut self, rank: u32, before: Slot, after: Slot) {
        let at = self.leaf_of[rank as usize];
        let leaf = &mut self.leaves[at as usize];
        if let Some(count) = leaf.count(before) {
            *count -= 1;
        }
        if let Some(count) = leaf.count(after) {
            *count += 1;
        }
        let is_of_shadows = leaf.nr_pages == 0 && leaf.nr_shadows > 0;
        match (leaf.stamp, is_of_shadows) {
            (Some(stamp), false) => {
                leaf.stamp = None;
                self.shadow_leaves.remove(&stamp);
            }
            (None, true) => {
                leaf.stamp = Some(self.nr_stamps);
                self.shadow_leaves.insert(self.nr_stamps, at);
                self.nr_stamps += 1;
            }
            (Some(_), true) | (None, false) => {}
        }
        if leaf.is_in_tree && leaf.nr_pages == 0 && leaf.nr_shadows == 0 {
            self.remove(at);
        }
    }

    pub(super) fn drop_oldest(&mut self) -> Option<u32> {
        let (_, at) = self.shadow_leaves.pop_first()?;
        let leaf = &mut self.leaves[at as usize];
        (leaf.nr_shadows, leaf.stamp) = (0, None);
        self.remove(at);
        Some(at)
    }

    pub(super) fn ranks_in(&self, leaf: u32) -> &[u32] {
        let first = self.leaves[leaf as usize].first as usize;
        let next = self.leaves.get(leaf as usize + 1);
        &self.ranks[first..next.map_or(self.ranks.len(), |next| next.first as usize)]
    }

    fn remove(&mut self, at: u32) {
        let leaf = &mut self.leaves[at as usize];
        leaf.is_in_tree = false;
        let nr_below = &mut self.nr_below[leaf.above as usize];
        *nr_below -= 1;
        self.nr_nodes -= 1 + u32::from(*nr_below == 0);
    }

    /// Recounts everything. `slot` returns the slot of a page by rank.
    pub(super) fn validate(&self, slot: impl Fn(u32) -> Slot) {
        let mut counts = vec![(0, 0); self.leaves.len()];
        for (rank, &leaf) in (0..).zip(&self.leaf_of) {
            match slot(rank) {
                Slot::Empty => {}
                Slot::Page => counts[leaf as usize].0 += 1,
                Slot::Shadow => counts[leaf as usize].1 += 1,
            }
        }
        let mut nr_below = vec![0; self.nr_below.len()];
        for (at, (leaf, count)) in self.leaves.iter().zip(&counts).enumerate() {
            assert_eq!((leaf.nr_pages, leaf.nr_shadows), *count, "leaf {at}");
            assert_eq!(leaf.is_in_tree, *count != (0, 0), "leaf {at} lives while it holds any");
            let is_of_shadows = count.0 == 0 && count.1 > 0;
            assert_eq!(leaf.stamp.is_some(), is_of_shadows, "leaf {at} of shadows is listed");
            nr_below[leaf.above as usize] += u32::from(leaf.is_in_tree);
        }
        assert_eq!(self.nr_below, nr_below, "leaves below each node");
        let nr_above = nr_below.iter().filter(|below| **below > 0).count() as u32;
        assert_eq!(self.nr_nodes, nr_above + nr_below.iter().sum::<u32>(), "nodes");
        let nr_listed = self.leaves.iter().filter(|leaf| leaf.stamp.is_some()).count();
        assert_eq!(self.shadow_leaves.len(), nr_listed, "leaves listed and marked");
    }
}

impl Leaf {
    fn new(first: u32, above: u32) -> Leaf {
        Leaf { first, above, is_in_tree: false, nr_pages: 0, nr_shadows: 0, stamp: None }
    }

    fn count(&mut self, slot: Slot) -> Option<&mut u32> {
        match slot {
            Slot::Empty => None,
            Slot::Shadow => Some(&mut self.nr_shadows),
            Slot::Page => Some(&mut self.nr_pages),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(tree: &mut PageTree, rank: u32, before: Slot) {
        tree.grow(rank);
        tree.change(rank, before, Slot::Page);
    }

    #[test]
    fn nodes_live_while_anything_is_in_them() {
        // Two leaves below one node, and a leaf below another.
        let trace = DenseTrace::from_reads([0, 63, 64, 4096]);
        let mut tree = PageTree::new(&trace);
        assert_eq!((0..4).map(|rank| tree.nr_missing(rank)).collect::<Vec<_>>(), [2, 2, 2, 2]);
        put(&mut tree, 0, Slot::Empty);
        assert_eq!((0..4).map(|rank| tree.nr_missing(rank)).collect::<Vec<_>>(), [0, 0, 1, 2]);
        put(&mut tree, 1, Slot::Empty);
        put(&mut tree, 2, Slot::Empty);
        put(&mut tree, 3, Slot::Empty);
        assert_eq!(tree.nr_nodes(), 5);
        tree.change(3, Slot::Page, Slot::Empty);
        assert_eq!(tree.nr_nodes(), 3, "leaf and node above are gone");
        tree.change(2, Slot::Page, Slot::Shadow);
        assert_eq!((tree.nr_nodes(), tree.nr_shadow_leaves()), (3, 1), "a shadow keeps a leaf");
        let slots = [Slot::Page, Slot::Page, Slot::Shadow, Slot::Empty];
        tree.validate(|rank| slots[rank as usize]);
    }

    #[test]
    fn the_oldest_leaf_of_shadows_goes_first_and_names_its_pages() {
        let trace = DenseTrace::from_reads([130, 0, 64, 65]);
        let mut tree = PageTree::new(&trace);
        (0..4).for_each(|rank| put(&mut tree, rank, Slot::Empty));
        for rank in [2, 3, 0, 1] {
            tree.change(rank, Slot::Page, Slot::Shadow);
        }
        // The page comes back, so its leaf becomes the youngest shadow leaf after the eviction.
        put(&mut tree, 3, Slot::Shadow);
        tree.change(3, Slot::Page, Slot::Shadow);
        let dropped = [(); 2].map(|()| tree.drop_oldest().map(|leaf| tree.ranks_in(leaf).to_vec()));
        assert_eq!(dropped, [Some(vec![0]), Some(vec![1])]);
        assert_eq!((tree.nr_nodes(), tree.nr_shadow_leaves()), (2, 1));
        let last = tree.drop_oldest().expect("one is left");
        assert_eq!(tree.ranks_in(last), [2, 3]);
        assert_eq!(tree.drop_oldest(), None);
        tree.validate(|_| Slot::Empty);
    }
}

//! The group LRU: the order of groups in global reclaim.
//!
//! # Problem
//!
//! A walk of the whole tree costs too much. A walk that stops early takes from the same groups.
//!
//! # Idea
//!
//! Two generations of groups: old groups give, young groups have given. Each generation has eight
//! bins, and a pass starts at a random bin.
//!
//! ```text
//!                 old (seq)                        young (seq + 1)
//!   bin 0   head  A C  tail                  bin 0   head      tail
//!   bin 1   head  B    tail    --- YOUNG --> bin 1   head  D   tail
//!   ...                                      ...
//!   pass:   from a random bin on, each from head to tail, until enough is freed
//! ```
//!
//! | operation | lands | when |
//! |---|---|---|
//! | `Tail` | tail, same generation | below low, the first time; removed or too small, first time |
//! | `Old` | head of old | the group was removed |
//! | `Young` | tail of young | below min; aged; removed or too small, met again |
//!
//! New groups join at the tail of old. Each operation draws a new random bin. When old is empty,
//! young becomes old. A visit does not move a removed group with pages left, unlike the kernel.
//!
//! Ignored: several nodes, and the kernel's third slot for lock-free readers. A group below low
//! that is met again keeps its place, because only the pass that overrides low takes from it. The
//! kernel takes from it the second time.
//!
//! Source: `Documentation/mm/multigen_lru.rst`, "Memcg LRU", and Linux 6.18.

use crate::ids::GroupId;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// Bins per generation.
pub const NR_BINS: usize = 8;
/// Slots for generations, indexed by number modulo this.
const NR_SLOTS: usize = 2;

/// A move within the group LRU. See the module.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RotationOp {
    /// To the tail of the same generation.
    Tail,
    /// To the head of the old generation.
    Old,
    /// To the tail of the young generation.
    Young,
}

/// Result of a visit by global reclaim.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Visit {
    /// Protected by `min`.
    BelowMin,
    /// Protected by `low`, which this pass respects.
    BelowLow,
    /// Removed, or too small for this priority.
    RemovedOrSmall,
    /// Aged instead of evicted.
    Aged,
    /// Scanned.
    Scanned,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Segment {
    Anywhere,
    Head,
    Tail,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Place {
    seq: u64,
    bin: usize,
    segment: Segment,
}

/// The group LRU of one node. Protected by one lock of the world.
#[derive(Clone, Debug)]
pub struct GroupLru {
    /// Old generation. The young one is next.
    seq: u64,
    bins: [[VecDeque<GroupId>; NR_BINS]; NR_SLOTS],
    /// Indexed by group id.
    places: Vec<Option<Place>>,
    random: u64,
}

impl GroupLru {
    /// Creates an empty group LRU with random `seed`.
    pub fn new(seed: u64) -> GroupLru {
        GroupLru { seq: 0, bins: Default::default(), places: Vec::new(), random: seed }
    }

    /// Returns a group's generation, old or young.
    pub fn generation_of(&self, group: GroupId) -> Option<u64> {
        self.place(group).map(|place| place.seq)
    }

    /// Adds a group at the tail of old.
    ///
    /// # Panics
    /// If the group is present.
    pub fn insert(&mut self, group: GroupId) {
        assert!(self.place(group).is_none(), "{group} is in the group LRU already");
        if self.places.len() <= usize::from(group.0) {
            self.places.resize(usize::from(group.0) + 1, None);
        }
        self.put(group, self.seq, Segment::Tail);
        self.place_mut(group).segment = Segment::Anywhere;
    }

    /// Removes a group, if present.
    pub fn remove(&mut self, group: GroupId) {
        self.take(group);
        self.retire_empty();
    }

    /// Moves a group, if present.
    pub fn apply(&mut self, group: GroupId, op: RotationOp) {
        let Some(place) = self.take(group) else { return };
        match op {
            RotationOp::Tail => self.put(group, place.seq, Segment::Tail),
            RotationOp::Old => {
                self.put(group, self.seq, Segment::Head);
                self.place_mut(group).segment = Segment::Anywhere;
            }
            RotationOp::Young => {
                self.put(group, self.seq + 1, Segment::Tail);
                self.place_mut(group).segment = Segment::Anywhere;
            }
        }
        self.retire_empty();
    }

    /// Moves a group after a visit. Returns the operation, if any.
    pub fn visited(&mut self, group: GroupId, visit: Visit) -> Option<RotationOp> {
        let was_met = self.place(group)?.segment == Segment::Tail;
        let op = match (visit, was_met) {
            (Visit::BelowMin | Visit::Aged, _) | (Visit::RemovedOrSmall, true) => RotationOp::Young,
            (Visit::RemovedOrSmall | Visit::BelowLow, false) => RotationOp::Tail,
            (Visit::BelowLow, true) | (Visit::Scanned, _) => return None,
        };
        self.apply(group, op);
        Some(op)
    }

    /// Stores the old groups in visit order, from a random bin. O(groups).
    pub fn order(&mut self, order: &mut Vec<GroupId>) {
        order.clear();
        let first = self.draw_bin();
        let old = &self.bins[slot_of(self.seq)];
        for nth in 0..NR_BINS {
            order.extend(&old[(first + nth) % NR_BINS]);
        }
    }

    fn put(&mut self, group: GroupId, seq: u64, end: Segment) {
        let bin = self.draw_bin();
        let members = &mut self.bins[slot_of(seq)][bin];
        match end {
            Segment::Head => members.push_front(group),
            Segment::Tail | Segment::Anywhere => members.push_back(group),
        }
        self.places[usize::from(group.0)] = Some(Place { seq, bin, segment: end });
    }

    fn take(&mut self, group: GroupId) -> Option<Place> {
        let place = self.places.get_mut(usize::from(group.0))?.take()?;
        self.bins[slot_of(place.seq)][place.bin].retain(|member| *member != group);
        Some(place)
    }

    fn retire_empty(&mut self) {
        let is_empty = |seq| self.bins[slot_of(seq)].iter().all(VecDeque::is_empty);
        if is_empty(self.seq) && !is_empty(self.seq + 1) {
            self.seq += 1;
        }
    }

    fn place(&self, group: GroupId) -> Option<Place> {
        *self.places.get(usize::from(group.0))?
    }

    fn place_mut(&mut self, group: GroupId) -> &mut Place {
        let place = self.places[usize::from(group.0)].as_mut();
        place.expect("invariant: the group was just put somewhere")
    }

    /// SplitMix64.
    fn draw_bin(&mut self) -> usize {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.random ^ self.random >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed >> 61) as usize
    }

    /// Checks all invariants and panics on a violation. O(groups).
    pub fn validate(&self) {
        let mut nr_members = 0;
        for seq in [self.seq, self.seq + 1] {
            for (bin, members) in self.bins[slot_of(seq)].iter().enumerate() {
                for group in members {
                    let place = self.place(*group).expect("members have places");
                    assert_eq!((place.seq, place.bin), (seq, bin), "place of {group}");
                    nr_members += 1;
                }
            }
        }
        assert_eq!(nr_members, self.places.iter().flatten().count(), "a group twice, or nowhere");
        let has_old = self.bins[slot_of(self.seq)].iter().any(|members| !members.is_empty());
        assert!(has_old || nr_members == 0, "the old generation is empty");
    }
}

const _: () = assert!(NR_BINS == 1 << 3, "three bits choose a bin");

fn slot_of(seq: u64) -> usize {
    (seq % NR_SLOTS as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: GroupId = GroupId(1);
    const B: GroupId = GroupId(2);
    const C: GroupId = GroupId(3);

    fn lru_of(groups: &[GroupId]) -> GroupLru {
        let mut lru = GroupLru::new(7);
        groups.iter().for_each(|group| lru.insert(*group));
        lru.validate();
        lru
    }

    fn bin_of(lru: &GroupLru, group: GroupId) -> &VecDeque<GroupId> {
        let place = lru.place(group).unwrap();
        &lru.bins[slot_of(place.seq)][place.bin]
    }

    /// Checks the module's table over many groups.
    #[test]
    fn operations_land_where_the_table_says() {
        let groups: Vec<GroupId> = (1..100).map(GroupId).collect();
        let mut lru = lru_of(&groups);
        for group in &groups[..50] {
            lru.apply(*group, RotationOp::Young);
            assert_eq!(lru.generation_of(*group), Some(1));
            assert_eq!(bin_of(&lru, *group).back(), Some(group), "tail of young");
        }
        for group in [groups[10], groups[60]] {
            let generation = lru.generation_of(group);
            lru.apply(group, RotationOp::Tail);
            assert_eq!(lru.generation_of(group), generation, "same generation");
            assert_eq!(bin_of(&lru, group).back(), Some(&group));
            lru.apply(group, RotationOp::Old);
            assert_eq!(lru.generation_of(group), Some(0));
            assert_eq!(bin_of(&lru, group).front(), Some(&group), "head of old");
        }
        lru.validate();
    }

    #[test]
    fn the_next_generation_begins_when_the_old_one_has_no_member() {
        let mut lru = lru_of(&[A, B]);
        lru.apply(A, RotationOp::Young);
        assert_eq!(lru.seq, 0);
        lru.apply(B, RotationOp::Young);
        assert_eq!((lru.seq, lru.generation_of(A), lru.generation_of(B)), (1, Some(1), Some(1)));
        lru.insert(C);
        assert_eq!(lru.generation_of(C), Some(1), "new groups join the old generation");
        assert_eq!(bin_of(&lru, C).back(), Some(&C));
        lru.apply(A, RotationOp::Young);
        lru.remove(B);
        lru.remove(C);
        assert_eq!(lru.seq, 2, "removal, too, can be the last of the old");
        lru.remove(A);
        assert_eq!(lru.seq, 2, "none is left to advance for");
        lru.validate();
    }

    #[test]
    fn visits_move_groups_as_the_table_says() {
        let mut lru = lru_of(&[A, B, C]);
        assert_eq!(lru.visited(A, Visit::Scanned), None);
        assert_eq!(lru.visited(A, Visit::RemovedOrSmall), Some(RotationOp::Tail));
        assert_eq!(lru.visited(A, Visit::RemovedOrSmall), Some(RotationOp::Young), "met again");
        assert_eq!(lru.visited(B, Visit::BelowLow), Some(RotationOp::Tail));
        assert_eq!(lru.visited(B, Visit::BelowLow), None, "left for the pass that overrides low");
        assert_eq!(lru.visited(B, Visit::BelowMin), Some(RotationOp::Young));
        assert_eq!(lru.visited(C, Visit::Aged), Some(RotationOp::Young));
        assert_eq!(lru.visited(GroupId(9), Visit::Aged), None, "a stranger");
    }

    #[test]
    fn passes_start_at_random_bins_and_visit_all() {
        let groups: Vec<GroupId> = (1..=64).map(GroupId).collect();
        let mut lru = lru_of(&groups);
        let mut order = Vec::new();
        let mut firsts = Vec::new();
        for _ in 0..200 {
            lru.order(&mut order);
            firsts.push(order[0]);
            order.sort();
            assert_eq!(order, groups);
        }
        firsts.sort();
        firsts.dedup();
        assert_eq!(firsts.len(), NR_BINS, "each bin's head was first at some time");
    }
}

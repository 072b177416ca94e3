//! Stack distances: the number of distinct pages used since a page's last use.
//!
//! **Problem.** A plain count walks the LRU stack at every access.
//!
//! **Idea.** Give each access a slot, and mark each page's last slot. A Fenwick tree counts the
//! marks from a page's own on in O(log slots):
//!
//! ```text
//!   slots   0  1  2  3  4  5            a was last used in slot 1, then c, b: distance 3
//!   pages   .  a  .  c  b  <- a         (itself included); its mark moves from 1 to 5
//! ```
//!
//! When the slots (twice the pages) run out, the marked ones move to the front: O(1) an access,
//! with memory independent of the trace length.
//!
//! **Data and invariants.** `rank_in[slot]` is the page last used in the slot, and `slot_of[rank]`
//! the inverse. The tree holds a one for each such slot. A distance is at least 1.
//!
//! **Ignored.** Page sizes.
//!
//! **Sources.** Bennett and Kruskal, "LRU stack processing", IBM Journal of Research and
//! Development 19(4), 1975. Fenwick, "A new data structure for cumulative frequency tables",
//! Software: Practice and Experience 24(3), 1994.

use crate::trace::AccessKind;

/// No slot, or no page.
const NONE: u32 = u32::MAX;
const SLOTS_MIN: usize = 1024;

/// Counts of each stack distance: the whole LRU curve.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Histogram {
    /// `[distance]` accesses. Slot 0 stays empty.
    by_distance: Vec<u64>,
    nr_first: u64,
    nr_accesses: u64,
}

impl Histogram {
    /// Returns the accesses counted.
    pub fn nr_accesses(&self) -> u64 {
        self.nr_accesses
    }

    /// Returns the accesses that miss in any memory: a page's first, and its first after a discard.
    pub fn nr_first(&self) -> u64 {
        self.nr_first
    }

    /// Returns the largest distance. More memory changes nothing.
    pub fn distance_max(&self) -> u64 {
        (self.by_distance.len() as u64).saturating_sub(1)
    }

    /// Returns the misses in a memory of `frames`. Costs O(distances).
    pub fn misses(&self, frames: u64) -> u64 {
        let beyond = usize::try_from(frames.saturating_add(1)).unwrap_or(usize::MAX);
        self.nr_first + self.by_distance.iter().skip(beyond).sum::<u64>()
    }

    /// Returns the smallest memory that hits `share` (0 to 1) of the accesses that can hit, else 0.
    pub fn frames_for(&self, share: f64) -> u64 {
        let wanted = ((self.nr_accesses - self.nr_first) as f64 * share).ceil() as u64;
        let mut nr_hits = 0;
        let enough = self.by_distance.iter().position(|&count| {
            nr_hits += count;
            nr_hits >= wanted
        });
        enough.map_or(0, |distance| distance as u64)
    }

    fn count(&mut self, distance: Option<u32>) {
        self.nr_accesses += 1;
        let Some(distance) = distance else {
            self.nr_first += 1;
            return;
        };
        if self.by_distance.len() <= distance as usize {
            self.by_distance.resize(distance as usize + 1, 0);
        }
        self.by_distance[distance as usize] += 1;
    }
}

/// The LRU stack of a trace in progress.
///
/// # Cost
/// O(log pages) an access. About 28 bytes a page, including the histogram.
#[derive(Clone, Debug)]
pub struct StackDistances {
    /// By rank.
    slot_of: Vec<u32>,
    /// By slot.
    rank_in: Vec<u32>,
    marks: Marks,
    slot_next: usize,
    nr_in_stack: u32,
    histogram: Histogram,
}

impl StackDistances {
    /// Returns an empty stack.
    pub fn new() -> StackDistances {
        StackDistances {
            slot_of: Vec::new(),
            rank_in: vec![NONE; SLOTS_MIN],
            marks: Marks::new(SLOTS_MIN),
            slot_next: 0,
            nr_in_stack: 0,
            histogram: Histogram::default(),
        }
    }

    /// Counts an entry of a trace: an access uses the page, a discard removes it.
    pub fn apply(&mut self, rank: u32, kind: AccessKind) {
        if kind.is_access() {
            self.access(rank);
        } else if kind == AccessKind::Discard {
            self.remove(rank);
        }
    }

    /// Counts a use of the page. Returns its distance, or `None` if it was not in the stack.
    pub fn access(&mut self, rank: u32) -> Option<u32> {
        if self.slot_of.len() <= rank as usize {
            self.slot_of.resize(rank as usize + 1, NONE);
        }
        let distance = self.remove(rank);
        if self.slot_next == self.rank_in.len() {
            self.move_together();
        }
        self.slot_of[rank as usize] = self.slot_next as u32;
        self.rank_in[self.slot_next] = rank;
        self.marks.add(self.slot_next, 1);
        self.slot_next += 1;
        self.nr_in_stack += 1;
        self.histogram.count(distance);
        distance
    }

    /// Returns the counts.
    pub fn into_histogram(self) -> Histogram {
        self.histogram
    }

    /// Removes the page. Returns its position, 1 for the top.
    fn remove(&mut self, rank: u32) -> Option<u32> {
        let slot = std::mem::replace(self.slot_of.get_mut(rank as usize)?, NONE);
        if slot == NONE {
            return None;
        }
        let distance = self.nr_in_stack - self.marks.count_before(slot as usize);
        self.rank_in[slot as usize] = NONE;
        self.marks.add(slot as usize, -1);
        self.nr_in_stack -= 1;
        Some(distance)
    }

    fn move_together(&mut self) {
        let nr_slots = (2 * self.nr_in_stack as usize).max(SLOTS_MIN);
        let mut ranks: Vec<u32> =
            self.rank_in.iter().copied().filter(|&rank| rank != NONE).collect();
        for (rank, slot) in ranks.iter().zip(0..) {
            self.slot_of[*rank as usize] = slot;
        }
        self.slot_next = ranks.len();
        self.marks = Marks::with_first(ranks.len(), nr_slots);
        ranks.resize(nr_slots, NONE);
        self.rank_in = ranks;
    }
}

impl Default for StackDistances {
    fn default() -> StackDistances {
        StackDistances::new()
    }
}

/// A Fenwick tree of ones: `tree[i]` counts the slots that node i covers.
#[derive(Clone, Debug)]
struct Marks(Vec<u32>);

impl Marks {
    fn new(nr_slots: usize) -> Marks {
        Marks(vec![0; nr_slots + 1])
    }

    fn with_first(nr_marked: usize, nr_slots: usize) -> Marks {
        let covered = |node: usize| {
            let below = node - (node & node.wrapping_neg());
            nr_marked.clamp(below, node) - below
        };
        Marks((0..=nr_slots).map(|node| covered(node) as u32).collect())
    }

    fn add(&mut self, slot: usize, change: i32) {
        let mut node = slot + 1;
        while node < self.0.len() {
            self.0[node] = self.0[node].wrapping_add_signed(change);
            node += node & node.wrapping_neg();
        }
    }

    fn count_before(&self, slot: usize) -> u32 {
        let mut node = slot;
        let mut count = 0;
        while node > 0 {
            count += self.0[node];
            node &= node - 1;
        }
        count
    }
}

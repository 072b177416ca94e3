//! Belady's OPT: evicts the page with the farthest next use. The bound for all policies.
//!
//! **Problem.** Find the fewest possible misses for a number of frames.
//!
//! **Idea.** A backward pass finds next uses. A forward pass keeps the resident pages in a heap,
//! farthest next use on top:
//!
//! ```text
//!   trace      a  b  a  c  b          heap at c (2 frames):  (never, a)  <- evict
//!   next use   2  4  -  -  -                                 (4, b)
//! ```
//!
//! The bound holds for every replay of the trace:
//!
//! - A discarded page has no next use until its next miss.
//! - Readahead brings a page without a miss under every policy, so the entry before has no next
//!   use. The optimum takes the page only if worth a frame.
//! - A page read past the page cache takes a frame only if worth one.
//!
//! **Data and invariants.** `next_of[rank]` is a resident page's next use, or `ABSENT`. Heap
//! entries that differ are stale. One push per entry: O(n log n).
//!
//! **Ignored.** Bypassing, which no policy here may do: a missed page always gets a frame.
//!
//! **Sources.** Belady, "A study of replacement algorithms for a virtual-storage computer", IBM
//! Systems Journal 5(2), 1966. Mattson et al., "Evaluation techniques for storage hierarchies",
//! 1970. With free entries, keeping a page between two mentions is an interval worth a miss or
//! nothing, and the greedy choice keeps the most (Carlisle and Lloyd, "On the k-coloring of
//! intervals", Discrete Applied Mathematics 59(3), 1995).

use crate::trace::{AccessKind, DenseTrace};
use std::collections::BinaryHeap;

/// No next use.
const NEVER: u32 = u32::MAX;
/// Not resident. No next use is at position 0.
const ABSENT: u32 = 0;
/// Entries between two calls of `keep_on`.
const STRETCH: u64 = 1 << 16;

/// Counts of the optimum.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Optimum {
    /// Accesses of absent pages.
    pub misses: u64,
    /// Pages read ahead and used.
    pub pages_ahead: u64,
    /// Pages evicted.
    pub evictions: u64,
}

/// Returns, for each access or readahead, the position of the page's next mention, if an access.
///
/// Shape: `[nr_entries]` positions among entries. `u32::MAX` if there is none.
pub fn next_uses(trace: &DenseTrace) -> Vec<u32> {
    let nr_entries = u32::try_from(trace.nr_entries()).expect("a trace of under 2^32 entries");
    let mut upcoming = vec![NEVER; trace.nr_pages()];
    let mut next_uses = vec![NEVER; nr_entries as usize];
    for (position, (rank, kind)) in (0..nr_entries).rev().zip(trace.entries().rev()) {
        let upcoming = &mut upcoming[rank as usize];
        if kind.is_access() {
            next_uses[position as usize] = std::mem::replace(upcoming, position);
        } else if kind.is_unasked() {
            next_uses[position as usize] = std::mem::replace(upcoming, NEVER);
        } else if kind == AccessKind::Discard {
            *upcoming = NEVER;
        }
    }
    next_uses
}

/// Returns the number of distinct accessed pages: the cold misses, without readahead.
pub fn count_pages(trace: &DenseTrace) -> u64 {
    let mut is_seen = vec![false; trace.nr_pages()];
    trace
        .access_ranks()
        .filter(|&rank| !std::mem::replace(&mut is_seen[rank as usize], true))
        .count() as u64
}

/// Returns the fewest possible misses with `frames` frames.
///
/// # Cost
/// O(n log n) time. 12 to 20 bytes an entry.
pub fn count_misses(trace: &DenseTrace, frames: usize) -> u64 {
    count_misses_with(trace, &next_uses(trace), frames)
}

/// Counts like [`count_misses`] with a given [`next_uses`] table, for many sizes of one trace.
pub fn count_misses_with(trace: &DenseTrace, next_uses: &[u32], frames: usize) -> u64 {
    judge_while(trace, next_uses, frames, |_| true).expect("nothing stopped it").misses
}

/// Counts all with a [`next_uses`] table. `keep_on` gets the number of entries since its last call,
/// some ten thousands. If `keep_on` returns `false`, the result is `None`.
pub fn judge_while(
    trace: &DenseTrace,
    next_uses: &[u32],
    frames: usize,
    mut keep_on: impl FnMut(u64) -> bool,
) -> Option<Optimum> {
    judge_stretches(trace, next_uses, frames, &mut keep_on)
}

fn judge_stretches(
    trace: &DenseTrace,
    next_uses: &[u32],
    frames: usize,
    keep_on: &mut dyn FnMut(u64) -> bool,
) -> Option<Optimum> {
    assert!(frames > 0, "a memory of no frames holds nothing to judge");
    let mut memory = Memory::new(trace.nr_pages(), frames);
    let mut nr_judged = 0;
    for ((rank, kind), &next) in trace.entries().zip(next_uses) {
        nr_judged += 1;
        if nr_judged == STRETCH && !keep_on(std::mem::take(&mut nr_judged)) {
            return None;
        }
        if kind.is_access() {
            memory.access(rank, next, kind != AccessKind::Bypass);
        } else if kind.is_unasked() {
            memory.read_ahead(rank, next);
        } else if kind == AccessKind::Discard {
            memory.discard(rank);
        }
    }
    keep_on(nr_judged).then_some(memory.best)
}

struct Memory {
    frames: usize,
    nr_resident: usize,
    /// Next use by rank, or [`ABSENT`].
    next_of: Vec<u32>,
    /// By rank: read ahead and not used yet.
    is_ahead: Vec<bool>,
    farthest: BinaryHeap<(u32, u32)>,
    best: Optimum,
}

impl Memory {
    fn new(nr_pages: usize, frames: usize) -> Memory {
        Memory {
            frames,
            nr_resident: 0,
            next_of: vec![ABSENT; nr_pages],
            is_ahead: vec![false; nr_pages],
            farthest: BinaryHeap::new(),
            best: Optimum::default(),
        }
    }

    fn is_resident(&self, rank: u32) -> bool {
        self.next_of[rank as usize] != ABSENT
    }

    fn access(&mut self, rank: u32, next: u32, takes_frame: bool) {
        if self.is_resident(rank) {
            let was_ahead = std::mem::take(&mut self.is_ahead[rank as usize]);
            self.best.pages_ahead += u64::from(was_ahead);
        } else {
            self.best.misses += 1;
            if !(takes_frame || self.is_worth_a_frame(next)) {
                return;
            }
            self.make_room();
            self.nr_resident += 1;
        }
        self.set_next(rank, next);
    }

    fn read_ahead(&mut self, rank: u32, next: u32) {
        if !self.is_resident(rank) {
            if !self.is_worth_a_frame(next) {
                return;
            }
            self.make_room();
            self.nr_resident += 1;
            self.is_ahead[rank as usize] = true;
        }
        self.set_next(rank, next);
    }

    fn discard(&mut self, rank: u32) {
        if self.is_resident(rank) {
            self.next_of[rank as usize] = ABSENT;
            self.is_ahead[rank as usize] = false;
            self.nr_resident -= 1;
        }
    }

    fn set_next(&mut self, rank: u32, next: u32) {
        self.next_of[rank as usize] = next;
        self.farthest.push((next, rank));
    }

    /// Returns true if a page with this next use deserves a frame more than some resident page.
    fn is_worth_a_frame(&mut self, next: u32) -> bool {
        let is_full = self.nr_resident == self.frames;
        next != NEVER && (!is_full || self.look_at_farthest().is_some_and(|(at, _)| next < at))
    }

    fn look_at_farthest(&mut self) -> Option<(u32, u32)> {
        while let Some(&(next, rank)) = self.farthest.peek() {
            if self.next_of[rank as usize] == next {
                return Some((next, rank));
            }
            self.farthest.pop();
        }
        None
    }

    fn make_room(&mut self) {
        if self.nr_resident == self.frames {
            let (_, victim) = self.look_at_farthest().expect("every resident page has an entry");
            self.discard(victim);
            self.best.evictions += 1;
        }
    }
}

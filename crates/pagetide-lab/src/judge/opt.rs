//! Belady's OPT: evict the page whose next use is farthest away. The bound for all policies.
//!
//! # Problem
//!
//! How few misses are possible at all, for a memory of so many frames, if the future were known?
//!
//! # Idea
//!
//! One pass from the back finds, for each access, when the same page is used next. One pass from
//! the front keeps the resident pages in a heap, farthest next use on top:
//!
//! ```text
//!   trace      a  b  a  c  b          heap at c (2 frames):  (never, a)  <- evict
//!   next use   2  4  -  -  -                                 (4, b)
//! ```
//!
//! # Data and invariants
//!
//! A hit pushes its page's new next use; the old entry stays in the heap, stale. It can do no harm:
//! a stale entry's next use is not after now, and the current entry of every resident page is, so
//! the top of a full memory's heap is always current. One push per access: O(n log n).
//!
//! # What it deliberately ignores
//!
//! Bypassing: a missed page always gets a frame, as demand paging must. With bypassing allowed the
//! optimum can be lower, but no policy here may bypass.
//!
//! # Sources
//!
//! Belady, "A study of replacement algorithms for a virtual-storage computer", IBM Systems Journal
//! 5(2), 1966; Mattson et al., "Evaluation techniques for storage hierarchies", 1970.

use crate::trace::DenseTrace;
use std::collections::BinaryHeap;

/// "Not used again".
const NEVER: u32 = u32::MAX;
/// Accesses judged between two calls of `keep_on`.
const STRETCH: u64 = 1 << 16;

/// For each access of the trace, the position of the next access to the same page.
///
/// Shape: `[nr_accesses]` positions among accesses; `u32::MAX` where there is none.
///
/// # Panics
/// At 2^32 - 1 accesses or more.
pub fn next_uses(trace: &DenseTrace) -> Vec<u32> {
    let nr_accesses = u32::try_from(trace.nr_accesses()).expect("a trace of under 2^32 accesses");
    let mut upcoming = vec![NEVER; trace.nr_pages()];
    let mut next_uses = vec![NEVER; nr_accesses as usize];
    for (position, rank) in (0..nr_accesses).rev().zip(trace.access_ranks().rev()) {
        next_uses[position as usize] = upcoming[rank as usize];
        upcoming[rank as usize] = position;
    }
    next_uses
}

/// How many distinct pages are accessed: the misses no memory avoids.
pub fn count_pages(trace: &DenseTrace) -> u64 {
    let mut is_seen = vec![false; trace.nr_pages()];
    trace
        .access_ranks()
        .filter(|&rank| !std::mem::replace(&mut is_seen[rank as usize], true))
        .count() as u64
}

/// The fewest misses possible with `frames` frames.
///
/// # Panics
/// When `frames` is 0, and at 2^32 - 1 accesses or more.
///
/// # Cost
/// O(n log n) time; 12 to 20 bytes an access.
pub fn count_misses(trace: &DenseTrace, frames: usize) -> u64 {
    count_misses_with(trace, &next_uses(trace), frames)
}

/// As [`count_misses`], with the table of [`next_uses`] at hand: for many sizes of one trace.
///
/// # Panics
/// When `frames` is 0.
pub fn count_misses_with(trace: &DenseTrace, next_uses: &[u32], frames: usize) -> u64 {
    let counted = count_misses_while(trace, next_uses, frames, |_| true);
    counted.expect("nothing stopped it")
}

/// As [`count_misses_with`], but stops early: `keep_on` hears how many accesses were judged since
/// it was asked last, some ten thousands, and its `false` ends the count with `None`.
///
/// # Panics
/// As [`count_misses_with`].
pub fn count_misses_while(
    trace: &DenseTrace,
    next_uses: &[u32],
    frames: usize,
    mut keep_on: impl FnMut(u64) -> bool,
) -> Option<u64> {
    assert!(frames > 0, "a memory of no frames holds nothing to judge");
    let mut is_resident = vec![false; trace.nr_pages()];
    let mut farthest: BinaryHeap<(u32, u32)> = BinaryHeap::new();
    let (mut nr_resident, mut misses, mut nr_judged) = (0, 0, 0);
    for (rank, &next) in trace.access_ranks().zip(next_uses) {
        nr_judged += 1;
        if nr_judged == STRETCH && !keep_on(std::mem::take(&mut nr_judged)) {
            return None;
        }
        if !is_resident[rank as usize] {
            misses += 1;
            if nr_resident == frames {
                let (_, victim) = farthest.pop().expect("every resident page has an entry");
                is_resident[victim as usize] = false;
            } else {
                nr_resident += 1;
            }
            is_resident[rank as usize] = true;
        }
        farthest.push((next, rank));
    }
    keep_on(nr_judged).then_some(misses)
}

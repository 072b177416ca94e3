//! FIFO: a queue of pages in order of arrival, and the set of its pages.

use crate::trace::DenseTrace;
use std::collections::{BTreeSet, VecDeque};

/// Returns the misses of FIFO with `frames` frames. O(n log frames).
pub fn count_misses(trace: &DenseTrace, frames: usize) -> u64 {
    assert!(frames > 0, "a memory of no frames holds nothing to judge");
    let mut arrivals: VecDeque<u32> = VecDeque::new();
    let mut resident: BTreeSet<u32> = BTreeSet::new();
    let mut misses = 0;
    for page in trace.access_ranks() {
        if resident.contains(&page) {
            continue;
        }
        misses += 1;
        if arrivals.len() == frames {
            let victim = arrivals.pop_front().expect("memory is full, and not empty");
            resident.remove(&victim);
        }
        arrivals.push_back(page);
        resident.insert(page);
    }
    misses
}

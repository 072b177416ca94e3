//! LRU by the book: stamps each page with its last access, and evicts the oldest stamp.
//!
//! Two ordered maps mirror each other: page to stamp, stamp to page. Without lists, the code cannot
//! share a bug with a linked list.

use crate::trace::DenseTrace;
use std::collections::BTreeMap;

/// Returns the misses of LRU with `frames` frames. O(n log frames).
pub fn count_misses(trace: &DenseTrace, frames: usize) -> u64 {
    assert!(frames > 0, "a memory of no frames holds nothing to judge");
    let mut stamp_of: BTreeMap<u32, u64> = BTreeMap::new();
    let mut page_at: BTreeMap<u64, u32> = BTreeMap::new();
    let mut misses = 0;
    for (now, page) in (0..).zip(trace.access_ranks()) {
        match stamp_of.insert(page, now) {
            Some(stamp) => {
                page_at.remove(&stamp);
            }
            None => misses += 1,
        }
        page_at.insert(now, page);
        if stamp_of.len() > frames {
            let (_, victim) = page_at.pop_first().expect("more pages than frames, so some");
            stamp_of.remove(&victim);
        }
    }
    misses
}

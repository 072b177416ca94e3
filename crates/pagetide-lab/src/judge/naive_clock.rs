//! One-bit clock: a use sets a page's bit. The hand clears bits, and evicts the first page with a
//! clear bit.
//!
//! A new page enters with a clear bit, just behind the hand. A fixed ring shares nothing with a
//! queue that requeues.
//!
//! Source: Corbato, "A paging experiment with the Multics system", 1968.

use crate::trace::DenseTrace;
use std::collections::BTreeMap;

struct Slot {
    page: u32,
    is_used: bool,
}

/// Returns the misses of one-bit clock with `frames` frames. O(n log frames), amortised.
pub fn count_misses(trace: &DenseTrace, frames: usize) -> u64 {
    assert!(frames > 0, "a memory of no frames holds nothing to judge");
    let mut ring: Vec<Slot> = Vec::new();
    let mut slot_of: BTreeMap<u32, usize> = BTreeMap::new();
    let (mut hand, mut misses) = (0, 0);
    for page in trace.access_ranks() {
        if let Some(&slot) = slot_of.get(&page) {
            ring[slot].is_used = true;
            continue;
        }
        misses += 1;
        let newcomer = Slot { page, is_used: false };
        if ring.len() < frames {
            slot_of.insert(page, ring.len());
            ring.push(newcomer);
            continue;
        }
        while ring[hand].is_used {
            ring[hand].is_used = false;
            hand = (hand + 1) % frames;
        }
        slot_of.remove(&ring[hand].page);
        slot_of.insert(page, hand);
        ring[hand] = newcomer;
        hand = (hand + 1) % frames;
    }
    misses
}

//! What things cost, for judging by cost and benefit.
//!
//! ```text
//!   delta = slow - fast      a promotion earns it with each access, and costs a move
//! ```
//!
//! Problem: the judge knows pages and times, not machines. Idea: the world tells it, again and
//! again, as busy memory is slower. Ignored: that reads and writes differ. Source: our own.

use crate::ids::NodeId;
use crate::tiering::Topology;

/// What only the world knows: measured, or given where the memory was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TierCosts {
    /// What an access of fast memory takes now, loaded as it is, in nanoseconds.
    pub fast_ns: u64,
    /// What one of slow memory takes.
    pub slow_ns: u64,
    /// What arming a page and its fault take.
    pub hint_fault_ns: u64,
    /// What a promotion and the demotion that makes room for it take.
    pub move_ns: u64,
    /// How much time all threads have in a second: a second each.
    pub thread_ns_per_s: u64,
    /// Pages in slow memory.
    pub nr_slow: u64,
}

impl TierCosts {
    /// Those of a world that arms its words and moves its pages by itself, without the kernel: a
    /// fault is a lock, and a move two copies and what they cost readers beside. Told 4000 ns a
    /// move, readers of a page cache paid some 6700 (`pagetide bench tier`), and moved four times
    /// the pages for the same share of accesses to fast memory.
    ///
    /// `nr_slow` pages are in slow memory now. The first two nodes are the fast one and the next.
    pub fn in_user_space(topology: &Topology, nr_slow: u64) -> TierCosts {
        let [fast, slow] = [0, 1].map(|nth| topology.describe(NodeId(nth)).distance);
        TierCosts {
            fast_ns: fast.access_ns(),
            slow_ns: slow.access_ns(),
            hint_fault_ns: 300,
            move_ns: 12000,
            nr_slow: nr_slow.max(1),
            ..TierCosts::default()
        }
    }
}

impl Default for TierCosts {
    /// Those of DRAM and of memory three times as slow, with one thread.
    fn default() -> TierCosts {
        TierCosts {
            fast_ns: 100,
            slow_ns: 300,
            hint_fault_ns: 1000,
            move_ns: 6000,
            thread_ns_per_s: 1_000_000_000,
            nr_slow: 1,
        }
    }
}

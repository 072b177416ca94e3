//! Costs of accesses, faults and moves.
//!
//! ```text
//!   delta = slow - fast      gain of each access after a promotion, which costs a move
//! ```
//!
//! **Problem.** The promotion policy knows pages and times, not machines. **Idea.** The world
//! reports costs repeatedly, because load slows memory. **Ignored.** Different costs of reads and
//! writes. **Source.** Original.

use crate::ids::NodeId;
use crate::tiering::Topology;

/// Measured or known costs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TierCosts {
    /// Loaded access latency of fast memory, ns.
    pub fast_ns: u64,
    /// Loaded access latency of slow memory, ns.
    pub slow_ns: u64,
    /// Cost of arming a page and of the fault, ns.
    pub hint_fault_ns: u64,
    /// Cost of a promotion with the demotion that makes room, ns.
    pub move_ns: u64,
    /// CPU time of all threads per second, ns.
    pub thread_ns_per_s: u64,
    /// Pages in slow memory.
    pub nr_slow: u64,
}

impl TierCosts {
    /// Returns the costs for a world that arms and moves pages itself, with `nr_slow` pages in slow
    /// memory. Node 0 is fast, node 1 slow.
    ///
    /// A move is two copies plus the delay of readers: with 4000 ns a move, readers paid 6700
    /// (`pagetide bench tier`) and moved four times the pages for the same hit share.
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
    /// DRAM, memory three times as slow, and one thread.
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

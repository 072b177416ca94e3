//! The speed of each node's memory, and the targets of demotion.
//!
//! **Problem.** A cooling page should move one tier down, not across the machine. A hot page must
//! never move within fast memory.
//!
//! **Idea.** One number orders all memory: the *abstract distance*, 576 for DRAM, more for slower
//! memory. A tier spans 128. All tiers up to the slowest one with CPUs are *top*.
//!
//! ```text
//!   distance   576          2880                     preferred     fallback
//!   tier         4            22       demotion of
//!            +-------+    +-------+      node0        node2        node2, node3
//!    CPUs ---| node0 |--->| node2 |      node1        node3        node3, node2
//!    CPUs ---| node1 |--->| node3 |      node2, node3 (slowest)    none
//!            +-------+    +-------+
//!              top         slow
//! ```
//!
//! **Data and invariants.** Fixed once built. A node's targets are in the next slower tier that has
//! memory. The fallback is all slower tiers, nearest first.
//!
//! **Ignored.** Hot-plugged memory, and tiers split by an administrator.
//!
//! **Source.** Linux 6.18's memory tiers. The rule that fast memory may not exceed slow memory is
//! original.

use crate::ids::{NodeId, TierId};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// Maximum number of nodes.
pub const NODES_MAX: usize = 64;
/// NUMA distance of a node to itself.
pub const DISTANCE_LOCAL: u8 = 10;
/// Usual NUMA distance of another node.
pub const DISTANCE_REMOTE: u8 = 20;

/// Performance of a node's memory, from the nearest CPUs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemoryPerformance {
    /// Latency of a load, ns.
    pub read_latency_ns: u32,
    /// Latency of a store, ns.
    pub write_latency_ns: u32,
    /// Read bandwidth, MB/s.
    pub read_mb_per_s: u32,
    /// Write bandwidth, MB/s.
    pub write_mb_per_s: u32,
}

impl MemoryPerformance {
    /// Returns the sum of latencies and the sum of bandwidths.
    ///
    /// # Errors
    /// [`TopologyError::ZeroPerformance`] if either is 0.
    fn sums(&self) -> Result<(u128, u128), TopologyError> {
        let latency_ns = u128::from(self.read_latency_ns) + u128::from(self.write_latency_ns);
        let mb_per_s = u128::from(self.read_mb_per_s) + u128::from(self.write_mb_per_s);
        if latency_ns == 0 || mb_per_s == 0 {
            return Err(TopologyError::ZeroPerformance {
                latency_ns: latency_ns as u64,
                mb_per_s: mb_per_s as u64,
            });
        }
        Ok((latency_ns, mb_per_s))
    }
}

/// Slowness of memory relative to DRAM. Orders tiers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct AbstractDistance(pub u32);

impl AbstractDistance {
    /// DRAM, in the middle of tier 4.
    pub const DRAM: AbstractDistance = AbstractDistance(4 * Self::CHUNK + Self::CHUNK / 2);
    /// Slow memory of unknown speed.
    pub const SLOW: AbstractDistance = AbstractDistance(5 * Self::DRAM.0);
    const CHUNK: u32 = 1 << Self::CHUNK_SHIFT;
    const CHUNK_SHIFT: u32 = 7;
    /// Approximate random access latency of DRAM, ns.
    pub const DRAM_NS: u64 = 100;

    /// Returns the distance of `memory` on a machine with `dram`: grows with latency, falls with
    /// bandwidth. Saturates.
    ///
    /// # Errors
    /// [`TopologyError::ZeroPerformance`] if a latency or bandwidth is 0.
    pub fn of(
        memory: &MemoryPerformance,
        dram: &MemoryPerformance,
    ) -> Result<AbstractDistance, TopologyError> {
        let (latency, bandwidth) = memory.sums()?;
        let (latency_dram, bandwidth_dram) = dram.sums()?;
        let scaled = u128::from(Self::DRAM.0) * latency * bandwidth_dram;
        let distance = scaled / (latency_dram * bandwidth);
        Ok(AbstractDistance(distance.try_into().unwrap_or(u32::MAX)))
    }

    /// Returns the approximate random access latency, ns.
    pub const fn access_ns(self) -> u64 {
        Self::DRAM_NS * self.0 as u64 / Self::DRAM.0 as u64
    }

    /// Returns the tier.
    pub const fn tier(self) -> TierId {
        TierId(self.0 >> Self::CHUNK_SHIFT)
    }
}

/// One node for [`Topology::new`]. The position is the id.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NodeDescription {
    /// Speed of the memory.
    pub distance: AbstractDistance,
    /// True if CPUs belong to the node.
    pub has_cpus: bool,
    /// Frames of memory, may be 0.
    pub nr_frames: u64,
}

/// Reason for a rejected topology.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TopologyError {
    /// Too many nodes: shadow entries hold six bits. Describe fewer.
    #[error("{given} nodes are more than {NODES_MAX}: describe fewer")]
    TooManyNodes {
        /// Nodes described.
        given: usize,
    },
    /// The NUMA distances are not square. Give a row and a column per node.
    #[error("{given} NUMA distances for {wanted}: give a row and a column for each node")]
    WrongDistances {
        /// Nodes squared.
        wanted: usize,
        /// Entries given.
        given: usize,
    },
    /// A latency or bandwidth is 0. Use measured numbers or a data sheet.
    #[error(
        "memory of {latency_ns} ns and {mb_per_s} MB/s: neither latency nor bandwidth may be zero"
    )]
    ZeroPerformance {
        /// Read plus write latency.
        latency_ns: u64,
        /// Read plus write bandwidth.
        mb_per_s: u64,
    },
    /// No node with CPUs and memory. Give a node CPUs.
    #[error("none of {given} nodes has both CPUs and memory: give one of them CPUs")]
    NoCpuNode {
        /// Nodes described.
        given: usize,
    },
    /// The slow memory is in the fast tier. Increase its distance.
    #[error(
        "the slow memory at distance {slow} is in {tier}, as the fast is: \
         give it at least {}", next_tier_starts(*tier)
    )]
    SameTier {
        /// Distance of the slow memory.
        slow: u32,
        /// Tier of both.
        tier: TierId,
    },
    /// Slow memory cannot hold the fast memory's pages. Reduce the fast nodes.
    #[error(
        "{fast} frames of fast memory over {slow} of slow: \
         make the slow memory at least as large, or leave it out"
    )]
    FastLargerThanSlow {
        /// Frames of the top tiers.
        fast: u64,
        /// Frames of other tiers.
        slow: u64,
    },
}

const fn next_tier_starts(tier: TierId) -> u32 {
    (tier.0 + 1) << AbstractDistance::CHUNK_SHIFT
}

#[derive(Clone, Debug)]
struct Node {
    description: NodeDescription,
    is_top: bool,
    targets: Box<[NodeId]>,
    fallback: Box<[NodeId]>,
}

/// The nodes of a machine with tiers and demotion targets.
#[derive(Clone, Debug)]
pub struct Topology {
    nodes: Box<[Node]>,
    slowest: NodeId,
}

impl Topology {
    /// Derives tiers and demotion targets.
    ///
    /// `numa_distances` has the shape `[nr_nodes x nr_nodes]`, row = from, in firmware units (10 is
    /// local).
    ///
    /// # Errors
    /// [`TopologyError`], except [`TopologyError::SameTier`].
    pub fn new(
        nodes: &[NodeDescription],
        numa_distances: &[u8],
    ) -> Result<Topology, TopologyError> {
        let given = nodes.len();
        if given > NODES_MAX {
            return Err(TopologyError::TooManyNodes { given });
        }
        if numa_distances.len() != given * given {
            let wanted = given * given;
            return Err(TopologyError::WrongDistances { wanted, given: numa_distances.len() });
        }
        let has_both = |node: &&NodeDescription| node.has_cpus && node.nr_frames > 0;
        let top = nodes.iter().filter(has_both).map(|node| node.distance.tier()).max();
        let top = top.ok_or(TopologyError::NoCpuNode { given })?;
        check_capacity(nodes, top)?;
        let plan = Plan { nodes, numa_distances };
        let slowest = plan.slowest();
        let nodes: Box<[Node]> = (0..given).map(|at| plan.node(at, top)).collect();
        Ok(Topology { nodes, slowest })
    }

    /// Creates DRAM with all CPUs as [`NodeId`] 0, and slow memory without CPUs as 1.
    ///
    /// # Errors
    /// As [`Topology::new`], and [`TopologyError::SameTier`] if `slow` is in the tier of DRAM.
    pub fn two_tiers(
        nr_fast: u64,
        nr_slow: u64,
        slow: AbstractDistance,
    ) -> Result<Topology, TopologyError> {
        let tier = AbstractDistance::DRAM.tier();
        if slow.tier() <= tier {
            return Err(TopologyError::SameTier { slow: slow.0, tier });
        }
        let fast = NodeDescription {
            distance: AbstractDistance::DRAM,
            has_cpus: true,
            nr_frames: nr_fast,
        };
        let slow = NodeDescription { distance: slow, has_cpus: false, nr_frames: nr_slow };
        let (local, remote) = (DISTANCE_LOCAL, DISTANCE_REMOTE);
        Topology::new(&[fast, slow], &[local, remote, remote, local])
    }

    /// Creates a node with CPUs and slower nodes without. All NUMA distances are equal.
    ///
    /// # Errors
    /// As [`Topology::new`].
    pub fn chain(
        nodes: impl IntoIterator<Item = (AbstractDistance, u64)>,
    ) -> Result<Topology, TopologyError> {
        let describe = |(nth, (distance, nr_frames))| NodeDescription {
            distance,
            has_cpus: nth == 0,
            nr_frames,
        };
        let nodes: Vec<_> = nodes.into_iter().enumerate().map(describe).collect();
        let pairs = (0..nodes.len()).flat_map(|from| (0..nodes.len()).map(move |to| (from, to)));
        let distance = |(from, to)| if from == to { DISTANCE_LOCAL } else { DISTANCE_REMOTE };
        let distances: Vec<u8> = pairs.map(distance).collect();
        Topology::new(&nodes, &distances)
    }

    /// Returns the number of nodes. Ids start at 0.
    pub fn nr_nodes(&self) -> usize {
        self.nodes.len()
    }

    /// Returns the description of a node.
    pub fn describe(&self, node: NodeId) -> &NodeDescription {
        &self.nodes[node.index()].description
    }

    /// Returns true if the node is in the top tiers.
    pub fn is_top_tier(&self, node: NodeId) -> bool {
        self.nodes[node.index()].is_top
    }

    /// Returns the first node of the slowest tier.
    pub fn slowest(&self) -> NodeId {
        self.slowest
    }

    /// Returns the preferred targets: the nearest nodes of the next slower tier.
    pub fn demotion_targets(&self, node: NodeId) -> &[NodeId] {
        &self.nodes[node.index()].targets
    }

    /// Returns all slower nodes, ordered by tier, then by distance.
    pub fn demotion_fallback(&self, node: NodeId) -> &[NodeId] {
        &self.nodes[node.index()].fallback
    }

    /// Returns one preferred target. A new `seed` per batch spreads batches.
    pub fn choose_demotion_target(&self, node: NodeId, seed: u64) -> Option<NodeId> {
        let targets = self.demotion_targets(node);
        let nr = targets.len() as u64;
        let at = mixed(seed).checked_rem(nr)?;
        Some(targets[at as usize])
    }
}

/// SplitMix64's finalizer, so that seeds may be consecutive.
const fn mixed(seed: u64) -> u64 {
    let mut bits = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ bits >> 31
}

fn check_capacity(nodes: &[NodeDescription], top: TierId) -> Result<(), TopologyError> {
    let frames = |is_top: bool| -> u64 {
        let of_kind = nodes.iter().filter(|node| (node.distance.tier() <= top) == is_top);
        of_kind.fold(0, |sum, node| sum.saturating_add(node.nr_frames))
    };
    let (fast, slow) = (frames(true), frames(false));
    if slow > 0 && fast > slow {
        return Err(TopologyError::FastLargerThanSlow { fast, slow });
    }
    Ok(())
}

struct Plan<'a> {
    nodes: &'a [NodeDescription],
    numa_distances: &'a [u8],
}

impl Plan<'_> {
    fn node(&self, at: usize, top: TierId) -> Node {
        let description = self.nodes[at];
        let fallback = if description.nr_frames > 0 { self.slower(at) } else { Vec::new() };
        let key = |id: &NodeId| (self.tier(*id), self.numa_distance(at, *id));
        let targets = match fallback.first() {
            Some(first) => fallback.iter().copied().filter(|id| key(id) == key(first)).collect(),
            None => Box::default(),
        };
        let is_top = description.nr_frames > 0 && description.distance.tier() <= top;
        Node { description, is_top, targets, fallback: fallback.into() }
    }

    /// Returns all slower nodes by tier, NUMA distance, then id.
    fn slower(&self, at: usize) -> Vec<NodeId> {
        let tier = self.nodes[at].distance.tier();
        let mut slower: Vec<NodeId> =
            self.with_memory().filter(|id| self.tier(*id) > tier).collect();
        slower.sort_by_key(|id| (self.tier(*id), self.numa_distance(at, *id), *id));
        slower
    }

    fn with_memory(&self) -> impl Iterator<Item = NodeId> {
        let ids = (0..self.nodes.len()).filter(|at| self.nodes[*at].nr_frames > 0);
        ids.map(|at| NodeId(at as u8))
    }

    fn slowest(&self) -> NodeId {
        let slowest = self.with_memory().max_by_key(|id| (self.tier(*id), usize::MAX - id.index()));
        slowest.expect("a node with CPUs and memory was found")
    }

    fn tier(&self, id: NodeId) -> TierId {
        self.nodes[id.index()].distance.tier()
    }

    fn numa_distance(&self, from: usize, to: NodeId) -> u8 {
        self.numa_distances[from * self.nodes.len() + to.index()]
    }
}

#[cfg(test)]
mod tests;

//! Which memory is fast, which is slow, and where a page goes from each.
//!
//! **Problem.** Nodes differ in speed. A page that cools down should go one step down, not to the
//! far end of the machine; a page that heats up must never be moved within the fast memory.
//!
//! **Idea.** One number orders all memory: its *abstract distance*, 576 for DRAM and more for what
//! is slower. 128 in a row are one tier, so that small differences make no tiers. Everything up to
//! the slowest tier with CPUs is *top*.
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
//! **Data and invariants.** Fixed once built. A node's targets are all of the next slower tier that
//! has memory, its fallback all slower tiers, nearest tier first; neither names the node itself.
//! Nodes without memory are in no tier and no node's target.
//!
//! **Deliberately ignored.** Memory that comes and goes, and tiers split by an administrator.
//!
//! Source: the tiering specification, section 6 (Linux 6.18). That fast memory may not exceed slow
//! memory is our own rule.

use crate::ids::{NodeId, TierId};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// The most nodes a topology describes.
pub const NODES_MAX: usize = 64;
/// The distance of a node to itself, in the table of NUMA distances.
pub const DISTANCE_LOCAL: u8 = 10;
/// What the firmware's tables usually give for another node.
pub const DISTANCE_REMOTE: u8 = 20;

/// How a node's memory performs, as measured from its nearest CPUs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemoryPerformance {
    /// Nanoseconds of a load.
    pub read_latency_ns: u32,
    /// Nanoseconds of a store.
    pub write_latency_ns: u32,
    /// Megabytes a second, reading.
    pub read_mb_per_s: u32,
    /// Megabytes a second, writing.
    pub write_mb_per_s: u32,
}

impl MemoryPerformance {
    /// Both latencies together, and both bandwidths.
    ///
    /// # Errors
    /// [`TopologyError::ZeroPerformance`].
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

/// How far memory is from DRAM in speed: what tiers are ordered by. Lower is faster.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct AbstractDistance(pub u32);

impl AbstractDistance {
    /// DRAM: the middle of tier 4, so that somewhat better or worse memory is beside it.
    pub const DRAM: AbstractDistance = AbstractDistance(4 * Self::CHUNK + Self::CHUNK / 2);
    /// Slow memory of which nothing is known: five times as far as DRAM.
    pub const SLOW: AbstractDistance = AbstractDistance(5 * Self::DRAM.0);
    /// Distances in one tier.
    const CHUNK: u32 = 1 << Self::CHUNK_SHIFT;
    const CHUNK_SHIFT: u32 = 7;
    /// What a random access of DRAM takes, about.
    pub const DRAM_NS: u64 = 100;

    /// The distance of memory that performs like `memory`, on a machine whose DRAM performs like
    /// `dram`: it grows with latency and shrinks with bandwidth. Saturates.
    ///
    /// # Errors
    /// [`TopologyError::ZeroPerformance`]: of either, a latency or a bandwidth is zero.
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

    /// What a random access takes, about, in nanoseconds: DRAM's time, so many times as far.
    pub const fn access_ns(self) -> u64 {
        Self::DRAM_NS * self.0 as u64 / Self::DRAM.0 as u64
    }

    /// The tier it belongs to.
    pub const fn tier(self) -> TierId {
        TierId(self.0 >> Self::CHUNK_SHIFT)
    }
}

/// One node, as [`Topology::new`] takes it; its id is its position.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NodeDescription {
    /// How fast its memory is.
    pub distance: AbstractDistance,
    /// Whether CPUs belong to it.
    pub has_cpus: bool,
    /// Frames of memory it has; none is allowed.
    pub nr_frames: u64,
}

/// Why nodes make no topology.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TopologyError {
    /// A shadow entry names a node in six bits; describe fewer.
    #[error("{given} nodes are more than {NODES_MAX}: describe fewer")]
    TooManyNodes {
        /// Nodes described.
        given: usize,
    },
    /// The table of NUMA distances is not square; it has a row and a column for each node.
    #[error("{given} NUMA distances for {wanted}: give a row and a column for each node")]
    WrongDistances {
        /// Nodes times nodes.
        wanted: usize,
        /// Entries given.
        given: usize,
    },
    /// Nothing is measured by zero; take the numbers of the machine or of a data sheet.
    #[error(
        "memory of {latency_ns} ns and {mb_per_s} MB/s: neither latency nor bandwidth may be zero"
    )]
    ZeroPerformance {
        /// Read and write latency together.
        latency_ns: u64,
        /// Read and write bandwidth together.
        mb_per_s: u64,
    },
    /// No node would be at the top; say which nodes have CPUs.
    #[error("none of {given} nodes has both CPUs and memory: give one of them CPUs")]
    NoCpuNode {
        /// Nodes described.
        given: usize,
    },
    /// Slow memory that is as fast as the fast; give it a larger distance.
    #[error(
        "the slow memory at distance {slow} is in {tier}, as the fast is: \
         give it at least {}", next_tier_starts(*tier)
    )]
    SameTier {
        /// The slow memory's distance.
        slow: u32,
        /// The tier of both.
        tier: TierId,
    },
    /// What leaves fast memory must find room in slow memory; take frames off the fast nodes.
    #[error(
        "{fast} frames of fast memory over {slow} of slow: \
         make the slow memory at least as large, or leave it out"
    )]
    FastLargerThanSlow {
        /// Frames of the top tiers.
        fast: u64,
        /// Frames of all others.
        slow: u64,
    },
}

const fn next_tier_starts(tier: TierId) -> u32 {
    (tier.0 + 1) << AbstractDistance::CHUNK_SHIFT
}

/// What is derived for one node.
#[derive(Clone, Debug)]
struct Node {
    description: NodeDescription,
    is_top: bool,
    targets: Box<[NodeId]>,
    fallback: Box<[NodeId]>,
}

/// The nodes of a machine, and the ways between them.
#[derive(Clone, Debug)]
pub struct Topology {
    nodes: Box<[Node]>,
    slowest: NodeId,
}

impl Topology {
    /// Derives tiers and demotion targets.
    ///
    /// `numa_distances` has the shape `[nr_nodes x nr_nodes]`, row = from, in the firmware's units
    /// (10 is local). Only what is smaller matters.
    ///
    /// # Errors
    /// [`TopologyError`], all but [`TopologyError::SameTier`].
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

    /// DRAM with all CPUs as [`NodeId`] 0, and slow memory without CPUs as 1.
    ///
    /// # Errors
    /// As [`Topology::new`]; [`TopologyError::SameTier`], when `slow` is no slower than DRAM.
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

    /// A node with CPUs and slower ones without, each in turn, by their distances and their frames:
    /// every node is as near to every other.
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

    /// How many nodes there are; ids count from 0.
    pub fn nr_nodes(&self) -> usize {
        self.nodes.len()
    }

    /// What the topology was told of a node.
    pub fn describe(&self, node: NodeId) -> &NodeDescription {
        &self.nodes[node.index()].description
    }

    /// Whether a node is in the top tiers: no page is promoted from it.
    pub fn is_top_tier(&self, node: NodeId) -> bool {
        self.nodes[node.index()].is_top
    }

    /// The first node of the slowest tier: where a page ends that no tier wants.
    pub fn slowest(&self) -> NodeId {
        self.slowest
    }

    /// The preferred targets of demotion: of the next slower tier, all nodes at the least NUMA
    /// distance. Empty for the slowest tier.
    pub fn demotion_targets(&self, node: NodeId) -> &[NodeId] {
        &self.nodes[node.index()].targets
    }

    /// All nodes of all slower tiers, the nearest tier first, and in a tier the nearest node.
    pub fn demotion_fallback(&self, node: NodeId) -> &[NodeId] {
        &self.nodes[node.index()].fallback
    }

    /// One of the preferred targets, by `seed`: a new one for each batch spreads the batches.
    pub fn choose_demotion_target(&self, node: NodeId, seed: u64) -> Option<NodeId> {
        let targets = self.demotion_targets(node);
        let nr = targets.len() as u64;
        let at = mixed(seed).checked_rem(nr)?;
        Some(targets[at as usize])
    }
}

/// Bits of a seed, each of which depends on all of it (the finalizer of SplitMix64), so that seeds
/// may count.
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

/// The input of a topology while it is derived.
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

    /// All slower nodes: nearest tier first, then by NUMA distance, then by id.
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

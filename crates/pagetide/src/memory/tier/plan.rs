//! From named tiers to nodes of frames.
//!
//! ```text
//!   slow=8G,latency=300ns      dram=2G            node 0   frames 0 .. 2G       any node
//!   compressed=1G          --> numa1=8G       --> node 1   frames 2G .. 10G     bound to node 1
//!                              slow=8G            node 2   frames 10G .. 18G    300 ns an access
//! ```
//!
//! Nodes form a chain by the firmware's latency, fastest first. Demotion moves pages one node down,
//! promotion to the head. A node without a latency counts as five times as far as DRAM, as in the
//! kernel.

use super::{Tier, TierKind};
use pagetide_core::ids::FrameId;
use pagetide_core::record::{RecordedNode, RecordedNodes};
use pagetide_core::tiering::{AbstractDistance, MemoryPerformance, Topology};
use pagetide_core::units::Bytes;
use pagetide_sys::numa::{MemoryNode, NodePerformance};
use pagetide_sys::{NR_FRAMES_MAX, Placement};
use std::time::Duration;

use crate::memory::node::NODES_MAX;

/// Minimum size of a tier of frames, the same as of a cache.
const TIER_MIN: Bytes = Bytes(pagetide_core::knobs::MEMORY_MIN);
/// Abstract distance between adjacent tiers.
const NEXT_TIER: u32 = 128;

/// Invalid tiers. Each message states the remedy.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TierError {
    /// Two tiers are the same memory.
    #[error("{first} and {second} are the same memory: name it once, with the sum")]
    Overlap {
        /// First tier.
        first: Tier,
        /// Second tier.
        second: Tier,
    },
    /// The machine has no such node.
    #[error("there is no memory node {node}: this machine has {}", list(online))]
    NoSuchNode {
        /// Requested node.
        node: u32,
        /// Existing nodes.
        online: Vec<u32>,
    },
    /// The node has too little free memory.
    #[error(
        "memory node {node} has {available} free, less than the {wanted} of its tier: ask for less"
    )]
    NodeFull {
        /// Node.
        node: u32,
        /// Free or immediately reclaimable memory.
        available: Bytes,
        /// Size of the tier.
        wanted: Bytes,
    },
    /// Growth to less than the present size, or of a compressed tier.
    #[error("{tier}: a tier of frames grows to no less than it has, a compressed one not at all")]
    Growth {
        /// Tier.
        tier: Tier,
    },
    /// An emulated latency of 0.
    #[error("a slow tier with a latency of 0 ns is not slow: give it more, or make it dram")]
    ZeroLatency,
    /// Slow memory cannot hold the pages demoted from fast memory.
    #[error("{fast} of fast memory over {slow} of slow: make the slow tier at least as large")]
    FastLargerThanSlow {
        /// Size of the fast tier.
        fast: Bytes,
        /// Sum of all slow tiers of frames.
        slow: Bytes,
    },
    /// No tier is fast.
    #[error(
        "no tier is fast: add dram=SIZE, with what the program may take of the machine's own memory"
    )]
    NoFastTier,
    /// Both a limit and tiers were given.
    #[error("a memory limit of {memory} and tiers were both given: leave one of them out")]
    MemoryToo {
        /// Limit.
        memory: Bytes,
    },
    /// A tier is too small, or the sum is too large.
    #[error("{tier} is out of range: a tier has at least {least}, and all of them at most {most}")]
    OutOfRange {
        /// Tier.
        tier: Tier,
        /// Minimum size of a tier.
        least: Bytes,
        /// Maximum sum.
        most: Bytes,
    },
    /// Groups need a single kind of memory.
    #[error(
        "{nr_nodes} kinds of memory and groups do not go together: leave `groups` out, or name one \
         tier of frames"
    )]
    Groups {
        /// Number of tiers of frames.
        nr_nodes: usize,
    },
    /// Too many tiers of frames.
    #[error("{given} tiers of memory are more than {}", NODES_MAX)]
    TooMany {
        /// Number of tiers of frames.
        given: usize,
    },
}

fn list(nodes: &[u32]) -> String {
    match nodes {
        [] => "none to choose from".to_owned(),
        nodes => nodes.iter().map(|node| format!("{node}")).collect::<Vec<_>>().join(", "),
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct NodePlan {
    pub(crate) tier: Tier,
    pub(crate) nr_frames: u32,
    pub(crate) nr_frames_max: u32,
    pub(crate) distance: AbstractDistance,
}

/// NUMA nodes to create, fastest first, and the compressed tier.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct TierPlan {
    pub(crate) nodes: Vec<NodePlan>,
    pub(crate) compressed: Option<Bytes>,
}

impl TierPlan {
    pub(crate) fn check(tiers: &[Tier], machine: &[MemoryNode]) -> Result<TierPlan, TierError> {
        check_overlap(tiers)?;
        tiers.iter().try_for_each(|tier| check_tier(tier, machine))?;
        let is_frames = |tier: &&Tier| tier.kind != TierKind::Compressed;
        let fast = find_fast(tiers, machine).ok_or(TierError::NoFastTier)?;
        let slow = tiers.iter().filter(is_frames).filter(|tier| **tier != fast);
        let mut slow: Vec<_> = slow.map(|tier| plan_node(tier, machine)).collect();
        slow.sort_by_key(|node| node.distance);
        let mut nodes = vec![plan_node(&fast, machine)];
        nodes[0].distance = AbstractDistance::DRAM;
        nodes.append(&mut slow);
        if nodes.len() > NODES_MAX {
            return Err(TierError::TooMany { given: nodes.len() });
        }
        // Each node is a tier of its own.
        for nth in 1..nodes.len() {
            let least = nodes[nth - 1].distance.0.saturating_add(NEXT_TIER);
            nodes[nth].distance.0 = nodes[nth].distance.0.max(least);
        }
        let plan = TierPlan { nodes, compressed: find_compressed(tiers) };
        plan.check_lengths()?;
        Ok(plan)
    }

    fn check_lengths(&self) -> Result<(), TierError> {
        let most = Bytes::from_pages(NR_FRAMES_MAX.into());
        let reserved =
            self.nodes.iter().fold(0, |sum: u64, node| sum.saturating_add(node.tier.most.0));
        if let Some(node) = self.nodes.first().filter(|_| reserved > most.0) {
            return Err(TierError::OutOfRange { tier: node.tier, least: TIER_MIN, most });
        }
        let slow = self.nodes[1..].iter().map(|node| node.tier.len.0).sum::<u64>();
        let (fast, slow) = (self.nodes[0].tier.len, Bytes(slow));
        if self.nodes.len() > 1 && fast > slow {
            return Err(TierError::FastLargerThanSlow { fast, slow });
        }
        Ok(())
    }

    pub(crate) fn nr_frames(&self) -> u32 {
        self.nodes.iter().map(|node| node.nr_frames).sum()
    }

    pub(crate) fn nr_frames_max(&self) -> u32 {
        self.nodes.iter().map(|node| node.nr_frames_max).sum()
    }

    pub(crate) fn placements(&self) -> Vec<Placement> {
        let ranges = self.ranges().into_iter().zip(&self.nodes);
        let places = ranges.filter_map(|(range, node)| match node.tier.kind {
            TierKind::Numa(node) => {
                Some(Placement { frames: FrameId(range.start)..FrameId(range.end), node })
            }
            TierKind::Dram | TierKind::Emulated(_) | TierKind::Compressed => None,
        });
        places.collect()
    }

    /// Returns each node's frames, including frames not in service.
    pub(crate) fn ranges(&self) -> Vec<std::ops::Range<u32>> {
        let mut first = 0;
        let next = |node: &NodePlan| {
            let range = first..first + node.nr_frames_max;
            first = range.end;
            range
        };
        self.nodes.iter().map(next).collect()
    }

    pub(crate) fn recorded(&self) -> RecordedNodes {
        let node = |node: &NodePlan| RecordedNode {
            nr_frames: node.nr_frames,
            nr_frames_max: node.nr_frames_max,
            distance: node.distance,
        };
        RecordedNodes::new(&self.nodes.iter().map(node).collect::<Vec<_>>())
    }

    pub(crate) fn topology(&self) -> Topology {
        let nodes = self.nodes.iter().map(|node| (node.distance, node.nr_frames.into()));
        Topology::chain(nodes).expect("the plan was checked")
    }
}

fn check_overlap(tiers: &[Tier]) -> Result<(), TierError> {
    let is_same = |first: &Tier, second: &Tier| match (first.kind, second.kind) {
        (TierKind::Numa(first), TierKind::Numa(second)) => first == second,
        (TierKind::Emulated(_), TierKind::Emulated(_)) => false,
        (first, second) => first == second,
    };
    for (nth, first) in tiers.iter().enumerate() {
        if let Some(second) = tiers[nth + 1..].iter().find(|second| is_same(first, second)) {
            return Err(TierError::Overlap { first: *first, second: *second });
        }
    }
    Ok(())
}

fn check_tier(tier: &Tier, machine: &[MemoryNode]) -> Result<(), TierError> {
    if tier.len < TIER_MIN {
        let most = Bytes::from_pages(NR_FRAMES_MAX.into());
        return Err(TierError::OutOfRange { tier: *tier, least: TIER_MIN, most });
    }
    if tier.most < tier.len || tier.kind == TierKind::Compressed && tier.most > tier.len {
        return Err(TierError::Growth { tier: *tier });
    }
    match tier.kind {
        TierKind::Emulated(Duration::ZERO) => Err(TierError::ZeroLatency),
        TierKind::Numa(node) => {
            let found = machine.iter().find(|one| one.number == node);
            let online = || machine.iter().map(|one| one.number).collect();
            let found = found.ok_or_else(|| TierError::NoSuchNode { node, online: online() })?;
            let (available, wanted) = (found.available, tier.len);
            if available < wanted {
                return Err(TierError::NodeFull { node, available, wanted });
            }
            Ok(())
        }
        TierKind::Dram | TierKind::Emulated(_) | TierKind::Compressed => Ok(()),
    }
}

/// Returns the tier for new pages: DRAM, or else the first node with CPUs.
fn find_fast(tiers: &[Tier], machine: &[MemoryNode]) -> Option<Tier> {
    let has_cpus = |tier: &&Tier| match tier.kind {
        TierKind::Numa(node) => machine.iter().any(|one| one.number == node && one.has_cpus),
        _ => false,
    };
    let dram = tiers.iter().find(|tier| tier.kind == TierKind::Dram);
    dram.or_else(|| tiers.iter().find(has_cpus)).copied()
}

fn find_compressed(tiers: &[Tier]) -> Option<Bytes> {
    tiers.iter().find(|tier| tier.kind == TierKind::Compressed).map(|tier| tier.len)
}

fn plan_node(tier: &Tier, machine: &[MemoryNode]) -> NodePlan {
    NodePlan {
        tier: *tier,
        nr_frames: tier.len.whole_pages() as u32,
        nr_frames_max: tier.most.whole_pages() as u32,
        distance: distance_of(tier, machine),
    }
}

fn distance_of(tier: &Tier, machine: &[MemoryNode]) -> AbstractDistance {
    let from_firmware = |node: u32| {
        let memory = machine.iter().find(|one| one.number == node)?.performance?;
        let dram = machine.iter().filter(|one| one.has_cpus).find_map(|one| one.performance)?;
        AbstractDistance::of(&performance(memory), &performance(dram)).ok()
    };
    match tier.kind {
        TierKind::Dram | TierKind::Compressed => AbstractDistance::DRAM,
        TierKind::Numa(node) => from_firmware(node).unwrap_or(AbstractDistance::SLOW),
        TierKind::Emulated(latency) => {
            let latency_ns = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
            let total_ns = latency_ns.saturating_add(AbstractDistance::DRAM_NS);
            let scaled = u64::from(AbstractDistance::DRAM.0).saturating_mul(total_ns);
            let distance = scaled / AbstractDistance::DRAM_NS;
            AbstractDistance(u32::try_from(distance).unwrap_or(u32::MAX - NODES_MAX as u32 * 128))
        }
    }
}

fn performance(node: NodePerformance) -> MemoryPerformance {
    MemoryPerformance {
        read_latency_ns: node.read_latency_ns,
        write_latency_ns: node.write_latency_ns,
        read_mb_per_s: node.read_mb_per_s,
        write_mb_per_s: node.write_mb_per_s,
    }
}

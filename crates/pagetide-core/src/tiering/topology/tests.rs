use super::*;
use alloc::string::ToString;
use proptest::prelude::*;

fn node(distance: u32, has_cpus: bool) -> NodeDescription {
    NodeDescription { distance: AbstractDistance(distance), has_cpus, nr_frames: 1000 }
}

/// Returns two nodes of DRAM with CPUs, 0 and 1, and two slow nodes, 2 and 3.
fn four_nodes() -> Topology {
    let nodes = [node(576, true), node(576, true), node(2880, false), node(2880, false)];
    #[rustfmt::skip]
    let distances = [
        10, 20, 30, 40,
        20, 10, 40, 30,
        30, 40, 10, 50,
        40, 30, 50, 10,
    ];
    Topology::new(&nodes, &distances).unwrap()
}

#[test]
fn each_node_demotes_to_the_nearest_of_the_next_tier() {
    let topology = four_nodes();
    assert_eq!(topology.demotion_targets(NodeId(0)), [NodeId(2)]);
    assert_eq!(topology.demotion_targets(NodeId(1)), [NodeId(3)]);
    assert_eq!(topology.demotion_targets(NodeId(2)), []);
    assert_eq!(topology.demotion_targets(NodeId(3)), []);
    assert_eq!(topology.demotion_fallback(NodeId(1)), [NodeId(3), NodeId(2)]);
    assert_eq!(topology.slowest(), NodeId(2));
}

#[test]
fn seeds_spread_demotion_over_equally_near_targets() {
    let nodes = [node(576, true), node(2880, false), node(2880, false), node(5000, false)];
    #[rustfmt::skip]
    let distances = [
        10, 30, 30, 20,
        30, 10, 40, 40,
        30, 40, 10, 40,
        20, 40, 40, 10,
    ];
    let topology = Topology::new(&nodes, &distances).unwrap();
    // Node 3 is nearest, but two tiers down.
    assert_eq!(topology.demotion_targets(NodeId(0)), [NodeId(1), NodeId(2)]);
    assert_eq!(topology.demotion_fallback(NodeId(0)), [NodeId(1), NodeId(2), NodeId(3)]);
    assert_eq!(topology.demotion_targets(NodeId(1)), [NodeId(3)]);
    let chosen = |seed| topology.choose_demotion_target(NodeId(0), seed);
    let nr_first = (0..1000).filter(|seed| chosen(*seed) == Some(NodeId(1))).count();
    assert!((400..600).contains(&nr_first), "{nr_first} of 1000 batches to the first");
    assert_eq!(chosen(7), chosen(7));
    assert_eq!(topology.choose_demotion_target(NodeId(3), 7), None);
}

#[test]
fn distance_grows_with_latency_and_shrinks_with_bandwidth() {
    let dram = MemoryPerformance {
        read_latency_ns: 80,
        write_latency_ns: 100,
        read_mb_per_s: 100_000,
        write_mb_per_s: 60_000,
    };
    let slow = MemoryPerformance {
        read_latency_ns: 240,
        write_latency_ns: 300,
        read_mb_per_s: 50_000,
        write_mb_per_s: 30_000,
    };
    assert_eq!(AbstractDistance::DRAM, AbstractDistance(576));
    assert_eq!(AbstractDistance::DRAM.tier(), TierId(4));
    assert_eq!(AbstractDistance::of(&dram, &dram), Ok(AbstractDistance::DRAM));
    let distance = AbstractDistance::of(&slow, &dram).unwrap();
    assert_eq!((distance, distance.tier()), (AbstractDistance(3456), TierId(27)));
    // One division at the end loses nothing in between.
    let odd = MemoryPerformance { read_latency_ns: 81, ..dram };
    assert_eq!(AbstractDistance::of(&odd, &dram), Ok(AbstractDistance(576 * 181 / 180)));
    let far = MemoryPerformance { read_latency_ns: u32::MAX, read_mb_per_s: 0, ..dram };
    let far = MemoryPerformance { write_mb_per_s: 1, ..far };
    assert_eq!(AbstractDistance::of(&far, &dram), Ok(AbstractDistance(u32::MAX)));
}

#[test]
fn everything_up_to_the_slowest_cpus_is_top() {
    // Node 0 is faster than DRAM without CPUs. Node 2 has CPUs and no memory.
    let nodes = [
        node(200, false),
        node(576, true),
        NodeDescription { nr_frames: 0, ..node(2880, true) },
        node(2880, false),
        node(2880, false),
    ];
    let topology = Topology::new(&nodes, &[10; 25]).unwrap();
    let top: Vec<bool> = (0..5).map(|id| topology.is_top_tier(NodeId(id))).collect();
    assert_eq!(top, [true, true, false, false, false]);
    assert_eq!(topology.demotion_targets(NodeId(0)), [NodeId(1)], "down within the top, too");
    assert_eq!(topology.demotion_targets(NodeId(2)), []);
    assert_eq!(topology.demotion_targets(NodeId(1)), [NodeId(3), NodeId(4)]);
}

#[test]
fn nodes_that_make_no_sense_are_refused_with_a_way_out() {
    let said = |result: Result<Topology, TopologyError>| result.unwrap_err().to_string();
    assert_eq!(
        said(Topology::two_tiers(10, 20, AbstractDistance(600))),
        "the slow memory at distance 600 is in tier4, as the fast is: give it at least 640"
    );
    assert!(Topology::two_tiers(10, 20, AbstractDistance(640)).is_ok());
    assert_eq!(
        said(Topology::two_tiers(21, 20, AbstractDistance::SLOW)),
        "21 frames of fast memory over 20 of slow: \
         make the slow memory at least as large, or leave it out"
    );
    assert_eq!(
        said(Topology::two_tiers(0, 20, AbstractDistance::SLOW)),
        "none of 2 nodes has both CPUs and memory: give one of them CPUs"
    );
    assert_eq!(
        said(Topology::new(&[node(576, true)], &[10, 20])),
        "2 NUMA distances for 1: give a row and a column for each node"
    );
    let many = [node(576, true); 65];
    assert_eq!(
        said(Topology::new(&many, &[10; 65 * 65])),
        "65 nodes are more than 64: describe fewer"
    );
    let idle = MemoryPerformance {
        read_latency_ns: 0,
        write_latency_ns: 0,
        read_mb_per_s: 9,
        write_mb_per_s: 1,
    };
    assert_eq!(
        AbstractDistance::of(&idle, &idle).unwrap_err().to_string(),
        "memory of 0 ns and 10 MB/s: neither latency nor bandwidth may be zero"
    );
}

proptest! {
    /// Pages only move down, to nodes with memory, nearest first.
    #[test]
    fn demotion_goes_down_to_memory(
        nodes in prop::collection::vec((0..40u32, any::<bool>(), 0..3u64), 1..8),
        numa in prop::collection::vec(10..40u8, 64),
        seed: u64,
    ) {
        let nodes: Vec<NodeDescription> = nodes
            .iter()
            .map(|(tier, has_cpus, nr_frames)| NodeDescription {
                distance: AbstractDistance(tier * 128 / 4),
                has_cpus: *has_cpus,
                nr_frames: *nr_frames,
            })
            .collect();
        let distances = &numa[..nodes.len() * nodes.len()];
        let Ok(topology) = Topology::new(&nodes, distances) else { return Ok(()) };
        let tier = |id: NodeId| topology.describe(id).distance.tier();
        for at in 0..nodes.len() {
            let from = NodeId(at as u8);
            let far = |to: NodeId| (tier(to), distances[at * nodes.len() + to.index()]);
            let fallback = topology.demotion_fallback(from);
            let targets = topology.demotion_targets(from);
            for to in fallback {
                prop_assert!(tier(*to) > tier(from) && nodes[to.index()].nr_frames > 0);
            }
            prop_assert!(fallback.is_sorted_by_key(|to| far(*to)));
            prop_assert!(fallback.starts_with(targets));
            prop_assert_eq!(targets.is_empty(), fallback.is_empty());
            prop_assert!(targets.iter().all(|to| far(*to) == far(targets[0])));
            prop_assert!(fallback[targets.len()..].iter().all(|to| far(*to) > far(targets[0])));
            let chosen = topology.choose_demotion_target(from, seed);
            prop_assert_eq!(chosen.is_some(), !targets.is_empty());
            prop_assert!(chosen.is_none_or(|chosen| targets.contains(&chosen)));
        }
        prop_assert_eq!(topology.demotion_targets(topology.slowest()), []);
        let with_memory = (0..nodes.len()).filter(|at| nodes[*at].nr_frames > 0);
        let mut slow = with_memory.filter(|at| !topology.is_top_tier(NodeId(*at as u8)));
        prop_assert!(slow.all(|at| !nodes[at].has_cpus), "CPUs are at the top");
    }
}

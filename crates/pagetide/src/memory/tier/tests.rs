use super::plan::{TierError, TierPlan};
use super::*;
use pagetide_sys::numa::{MemoryNode, NodePerformance};

const GIB: u64 = 1 << 30;

fn gib(nr: u64) -> Bytes {
    Bytes(nr * GIB)
}

/// Node 0 with CPUs, node 1 of fast CXL memory, node 2 without performance data.
fn machine() -> Vec<MemoryNode> {
    let performance = |latency, bandwidth| NodePerformance {
        read_latency_ns: latency,
        write_latency_ns: latency,
        read_mb_per_s: bandwidth,
        write_mb_per_s: bandwidth,
    };
    let node = |number, gib, performance| MemoryNode {
        number,
        has_cpus: number == 0,
        total: Bytes(gib * GIB),
        available: Bytes(gib * GIB),
        distances: Vec::new(),
        performance,
    };
    vec![
        node(0, 64, Some(performance(100, 100_000))),
        node(1, 32, Some(performance(200, 80_000))),
        node(2, 16, None),
    ]
}

fn plan(tiers: &[Tier]) -> Result<TierPlan, TierError> {
    TierPlan::check(tiers, &machine())
}

#[test]
fn tiers_read_as_they_print() {
    let tiers = [
        ("dram=256M", Tier::dram(Bytes(256 << 20))),
        ("numa1=8G", Tier::numa(1, gib(8))),
        ("slow=1G,latency=300ns", Tier::emulated(gib(1), Duration::from_nanos(300))),
        ("compressed=4G", Tier::compressed(gib(4))),
        ("dram=1G,max=3G", Tier::dram(gib(1)).growing_to(gib(3))),
        (
            "slow=1G,latency=300ns,max=2G",
            Tier::emulated(gib(1), Duration::from_nanos(300)).growing_to(gib(2)),
        ),
    ];
    for (text, tier) in tiers {
        assert_eq!(text.parse(), Ok(tier));
        assert_eq!(tier.to_string(), text);
    }
    let slow: Tier = " slow=64M , latency=2 us".parse().expect("spaces are allowed");
    assert_eq!(slow, Tier::emulated(Bytes(64 << 20), Duration::from_micros(2)));
}

#[test]
fn texts_that_are_no_tier_say_how_to_write_one() {
    let said = |text: &str| text.parse::<Tier>().expect_err(text).to_string();
    for text in ["", "dram", "disk=1G", "numa=1G", "numax=1G", "dram=1G,latency=3ns", "=1G"] {
        assert!(said(text).contains("dram=SIZE, numaN=SIZE"), "{text}");
    }
    assert_eq!("dram=".parse::<Tier>(), Err(ParseTierError::Length(ParseBytesError::NoNumber)));
    for text in ["compressed=1G,max=2G", "max=2G", "dram,max=2G", "dram=1G,latency=3ns,max=2G"] {
        assert!(said(text).contains("may end in ,max=SIZE"), "{text}");
    }
    assert_eq!(
        "dram=1G,max=".parse::<Tier>(),
        Err(ParseTierError::Length(ParseBytesError::NoNumber))
    );
    for text in ["slow=1G", "slow=1G,300ns", "slow=1G,", "slow=1G,max=2G"] {
        assert!(said(text).contains("needs its latency"), "{text}");
    }
    for latency in ["3", "ns", "3s", "-1ns", "0.5us", "99999999999999999999ms"] {
        assert!(said(&format!("slow=1G,latency={latency}")).contains("as in 300ns"), "{latency}");
    }
}

#[test]
fn tiers_become_nodes_in_order_of_their_speed() {
    let slow = Tier::emulated(gib(4), Duration::from_micros(1));
    let tiers = [slow, Tier::numa(2, gib(2)), Tier::numa(1, gib(3)), Tier::dram(gib(1))];
    let plan = plan(&[&tiers[..], &[Tier::compressed(gib(5))]].concat()).expect("they go together");
    let order: Vec<Tier> = plan.nodes.iter().map(|node| node.tier).collect();
    assert_eq!(order, [tiers[3], tiers[2], tiers[1], slow]);
    assert_eq!(plan.compressed, Some(gib(5)));
    let pages = |gib: u64| (gib * GIB / 4096) as u32;
    assert_eq!(plan.nr_frames(), pages(10));
    assert_eq!((plan.nr_frames_max(), plan.ranges()[2].clone()), (pages(10), pages(4)..pages(6)));
    let nodes: Vec<_> =
        plan.placements().iter().map(|place| (place.node, place.frames.start.0)).collect();
    assert_eq!(nodes, [(1, pages(1)), (2, pages(4))]);
    let topology = plan.topology();
    for nth in 0..4u8 {
        let node = pagetide_core::ids::NodeId(nth);
        let next = pagetide_core::ids::NodeId(nth + 1);
        let targets = if nth < 3 { vec![next] } else { vec![] };
        assert_eq!(topology.demotion_targets(node), targets);
        assert_eq!(topology.is_top_tier(node), nth == 0);
    }
}

/// Address space is reserved for a tier's growth, before the next tier's frames.
#[test]
fn a_tier_that_may_grow_has_frames_for_it() {
    let fast = Tier::dram(gib(1)).growing_to(gib(2));
    let plan = plan(&[fast, Tier::numa(1, gib(3))]).expect("they go together");
    let pages = |gib: u64| (gib * GIB / 4096) as u32;
    assert_eq!((plan.nr_frames(), plan.nr_frames_max()), (pages(4), pages(5)));
    assert_eq!(plan.ranges(), [0..pages(2), pages(2)..pages(5)]);
    let nodes = plan.recorded();
    assert_eq!(nodes.as_slice()[0].nr_frames_max, pages(2));
}

#[test]
fn a_node_with_cpus_is_fast_where_no_dram_is_named() {
    let plan = plan(&[Tier::numa(1, gib(4)), Tier::numa(0, gib(2))]).expect("node 0 has CPUs");
    assert_eq!(plan.nodes[0].tier, Tier::numa(0, gib(2)));
}

#[test]
fn dram_alone_is_a_cache_of_one_node() {
    let plan = plan(&[Tier::dram(gib(1)), Tier::compressed(gib(1))]).expect("no slow memory");
    assert_eq!((plan.nodes.len(), plan.compressed), (1, Some(gib(1))));
}

#[test]
fn tiers_that_do_not_go_together_say_what_to_do() {
    let dram = Tier::dram(gib(1));
    let slow = |latency| Tier::emulated(gib(4), Duration::from_nanos(latency));
    let said = |tiers: &[Tier]| plan(tiers).expect_err("refused").to_string();
    assert_eq!(
        said(&[dram, Tier::numa(1, gib(1)), Tier::numa(1, gib(2))]),
        "numa1=1G and numa1=2G are the same memory: name it once, with the sum"
    );
    assert!(said(&[dram, dram]).contains("name it once"));
    assert_eq!(
        said(&[dram, Tier::numa(7, gib(1))]),
        "there is no memory node 7: this machine has 0, 1, 2"
    );
    assert_eq!(
        said(&[dram, Tier::numa(1, gib(33))]),
        "memory node 1 has 32G free, less than the 33G of its tier: ask for less"
    );
    assert!(said(&[dram, slow(0)]).contains("a latency of 0 ns is not slow"));
    assert_eq!(
        said(&[Tier::dram(gib(5)), slow(300)]),
        "5G of fast memory over 4G of slow: make the slow tier at least as large"
    );
    assert_eq!(
        said(&[dram.growing_to(Bytes(100)), slow(300)]),
        "dram=1G: a tier of frames grows to no less than it has, a compressed one not at all"
    );
    assert!(said(&[dram, Tier::compressed(gib(1)).growing_to(gib(2))]).contains("not at all"));
    assert!(said(&[dram, slow(300).growing_to(gib(1024))]).contains("at most 1T"));
    assert!(said(&[slow(300)]).contains("no tier is fast"));
    assert!(said(&[Tier::numa(1, gib(1)), slow(300)]).contains("no tier is fast"));
    assert!(said(&[Tier::dram(Bytes(100)), slow(300)]).contains("dram=100 is out of range"));
    assert!(
        said(&[dram, Tier::emulated(gib(1024), Duration::from_nanos(1))]).contains("at most 1T")
    );
}

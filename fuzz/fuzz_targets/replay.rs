//! Every policy, with any mechanisms switched, in memory of one or several kinds, on any accesses:
//! all invariants hold at each step.
//!
//! The first bytes choose the policy, the switches and the frames; two bytes are one access.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pagetide_core::ids::{MappingId, PageId, PageIndex};
use pagetide_core::lru::{Mechanism, PolicyName, Switches};
use pagetide_core::page_alloc::{HighFraction, PcpTuning};
use pagetide_core::record::{Note, RecordedNode, RecordedNodes, RecordedTiers};
use pagetide_core::tiering::{
    AbstractDistance, BalancingMode, DemotionMode, ScannedMapping, Stage, TieringKnobs,
};
use pagetide_core::units::Millis;
use pagetide_lab::replay::{Memory, Setup, TierMemory, World, ZoneMemory};
use pagetide_lab::trace::{Access, AccessKind, DenseTrace};
use std::convert::Infallible;

fuzz_target!(|bytes: &[u8]| {
    let Some((choice, accesses)) = bytes.split_first_chunk::<8>() else { return };
    let policy = PolicyName::ALL[usize::from(choice[0]) % PolicyName::ALL.len()];
    let frames = u32::from(choice[1] % 96) + 1;
    let zone = |nr_frames, nr_frames_max| ZoneMemory {
        nr_frames,
        nr_frames_max,
        nr_cpus: 2,
        swappiness: 60,
        pcp_tuning: PcpTuning::ALL[usize::from(choice[3]) % PcpTuning::ALL.len()],
        pcp_fraction: HighFraction::DEFAULT,
    };
    let memory = match choice[2] % 3 {
        0 => Memory::Group { nr_frames: frames },
        1 => Memory::Zone(zone(frames + 32, frames + 64)),
        _ => {
            let tiers = tiers(frames, choice[2] / 3);
            let nodes = tiers.nodes.as_slice();
            let nr_frames = nodes.iter().map(|node| node.nr_frames).sum();
            let nr_frames_max = nodes.iter().map(|node| node.nr_frames_max).sum();
            Memory::Tiers(TierMemory { tiers, whole: zone(nr_frames, nr_frames_max) })
        }
    };
    let flips = u32::from_le_bytes([choice[4], choice[5], choice[6], choice[7]]);
    let switches = Mechanism::of(policy)
        .enumerate()
        .filter(|(at, _)| flips >> (at % 32) & 1 == 1)
        .fold(Switches::default(), |switches, (_, mechanism)| switches.flipped(mechanism));
    let setup = Setup { switches, ..Setup::new(policy, memory) };
    let page = |index| PageId { mapping: MappingId(0), index: PageIndex(index) };
    let entries = accesses.as_chunks::<2>().0.iter().map(|&[index, kind]| {
        let kind = AccessKind::ALL[usize::from(kind) % AccessKind::ALL.len()];
        Ok::<_, Infallible>(Access { page: page(u64::from(index)), kind, thread: 0 })
    });
    let Ok(trace) = DenseTrace::collect(entries);
    let mut world = World::new(setup, &trace, |_| {});
    let nr_pages = 256;
    world.apply_note(&Note::Mapping(ScannedMapping {
        id: MappingId(0),
        nr_pages,
        created: Millis(0),
    }));
    for (now, (rank, kind)) in (0..).zip(trace.entries()) {
        world.apply(rank, kind);
        if now % 3 == 0 {
            world.apply_note(&Note::Tick(Millis(now)));
        }
        world.validate();
    }
});

/// Two or three kinds of memory, the first of `nr_fast` frames; the bits of `how` say the rest.
fn tiers(nr_fast: u32, how: u8) -> RecordedTiers {
    let node = |nr_frames, distance| RecordedNode {
        nr_frames,
        nr_frames_max: nr_frames + u32::from(how >> 3 & 1) * 16,
        distance: AbstractDistance(distance),
    };
    let nodes = [node(nr_fast + 16, 576), node(nr_fast + 40, 2000), node(30, 4000)];
    let stage = Stage::ALL[usize::from(how >> 4) % Stage::ALL.len()];
    RecordedTiers {
        switches: stage.switches(),
        mode: if how & 2 == 0 { BalancingMode::Tiering } else { BalancingMode::Off },
        demotion: if how & 4 == 0 { DemotionMode::On } else { DemotionMode::Off },
        knobs: TieringKnobs {
            scan_period_min: Millis(2),
            scan_period_max: Millis(20),
            scan_delay: Millis(1),
            hot_threshold: Millis(8),
            rate_window: Millis(10),
            ..TieringKnobs::default()
        },
        ..RecordedTiers::new(RecordedNodes::new(&nodes[..2 + usize::from(how & 1)]))
    }
}

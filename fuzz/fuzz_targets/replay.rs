//! Every policy, with any mechanisms switched, on any accesses: all invariants hold at each step.
//!
//! The first bytes choose the policy, the switches and the frames; two bytes are one access.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pagetide_core::ids::{MappingId, PageId, PageIndex};
use pagetide_core::lru::{Mechanism, PolicyName, Switches};
use pagetide_core::page_alloc::{HighFraction, PcpTuning};
use pagetide_lab::replay::{Memory, Setup, World, ZoneMemory};
use pagetide_lab::trace::{Access, AccessKind, DenseTrace};
use std::convert::Infallible;

fuzz_target!(|bytes: &[u8]| {
    let Some((choice, accesses)) = bytes.split_first_chunk::<8>() else { return };
    let policy = PolicyName::ALL[usize::from(choice[0]) % PolicyName::ALL.len()];
    let frames = u32::from(choice[1] % 96) + 1;
    let memory = if choice[2] & 1 == 0 {
        Memory::Group { nr_frames: frames }
    } else {
        let (nr_frames, nr_frames_max) = (frames + 32, frames + 64);
        let tuning = PcpTuning::ALL[usize::from(choice[3]) % PcpTuning::ALL.len()];
        Memory::Zone(ZoneMemory {
            nr_frames,
            nr_frames_max,
            nr_cpus: 2,
            swappiness: 60,
            pcp_tuning: tuning,
            pcp_fraction: HighFraction::DEFAULT,
        })
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
    for (rank, kind) in trace.entries() {
        world.apply(rank, kind);
        world.validate();
    }
});

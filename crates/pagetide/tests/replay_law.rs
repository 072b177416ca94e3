//! The replay law: a recorded single-threaded run, replayed in the lab, evicts the same pages in
//! the same order and ends with the same counters.
//!
//! So the same code decides in both. The run is deterministic: one CPU, no background threads.

mod common;
#[path = "replay_law/groups.rs"]
mod groups;
#[path = "replay_law/run.rs"]
mod run;
#[path = "replay_law/scripts.rs"]
mod scripts;
#[path = "replay_law/tiers.rs"]
mod tiers;

use common::pages::Random;
use common::store::FaultyStore;
use common::{PAGE, patterned_file, pin_thread, skip};
use pagetide::{
    Advice, Bytes, Mechanism, OpenOptions, PageCache, PcpTuning, PolicyName, RegionOptions,
    Switches,
};
use pagetide_lab::replay::{Memory, ZoneMemory};
use pagetide_lab::trace::AccessKind;
use run::{Run, play};
use scripts::{Player, SCRIPTS, Script, Ticks, everything, failing_store, sequential_loop};
use std::collections::BTreeSet;
use std::sync::atomic::Ordering::Relaxed;

/// The minimum, less than a per-CPU batch or two, some, and enough for a table leaf or two.
const SIZES: [u64; 4] = [16, 50, 300, 2000];

const NR_SEEDS: u64 = 40;

#[test]
fn a_replayed_run_decides_as_the_run_did() {
    if !pin_thread("a_replayed_run_decides_as_the_run_did") {
        return;
    }
    for (name, script) in SCRIPTS {
        for frames in SIZES {
            for &policy in PolicyName::ALL {
                let what = format!("{name}, {policy}, {frames} frames");
                let run = Run::play(policy, frames, Bytes(128 << 10), script, 0);
                run.check(&what);
                assert!(run.stats.evictions > 0 || frames == 2000, "{what}: too little happens");
            }
        }
    }
}

#[test]
fn readahead_switched_off_and_on_large_are_replayed_too() {
    let test = "readahead_switched_off_and_on_large_are_replayed_too";
    if !pin_thread(test) {
        return;
    }
    for readahead in [0, 1 << 20] {
        for &policy in PolicyName::ALL {
            for (name, script) in [("a loop", sequential_loop as Script), ("all", everything)] {
                let dir = tempfile::tempdir().unwrap();
                let path = patterned_file(dir.path(), "file", 2100 * PAGE);
                let run = Run::record(policy, 700, 700, Bytes(readahead), |cache| {
                    let options = OpenOptions::new().read(true).write(true);
                    let file = cache.open(&path, options).unwrap();
                    let (random, ticks) = (Random::new(5), Ticks::none());
                    script(&mut Player { random, file: &file, memory: 700, ticks });
                });
                run.check(&format!("{name}, {policy}, readahead {readahead}"));
            }
        }
    }
}

/// In small memories, locks, pins and dirty pages limit reclaim.
#[test]
fn runs_short_of_memory_are_replayed_from_any_seed() {
    let test = "runs_short_of_memory_are_replayed_from_any_seed";
    if !pin_thread(test) {
        return;
    }
    for seed in 1..=NR_SEEDS {
        for (name, script) in SCRIPTS {
            let frames = 16 + seed % 50;
            let policy = PolicyName::ALL[seed as usize % PolicyName::ALL.len()];
            let run = Run::play(policy, frames, Bytes(4096 << (seed % 6)), script, seed);
            run.check(&format!("{name}, {policy}, {frames} frames, seed {seed}"));
        }
    }
}

/// More files opened, closed and reopened than fit: mappings and shadows are removed, and their
/// numbers reused.
#[test]
fn runs_over_many_files_are_replayed() {
    if !pin_thread("runs_over_many_files_are_replayed") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let paths: Vec<_> = (0..8)
        .map(|nth| patterned_file(dir.path(), &format!("{nth}"), (90 + 25 * nth) * PAGE + nth))
        .collect();
    let mut nr_reusing = 0;
    for &policy in PolicyName::ALL {
        let run = Run::record(policy, 64, 64, Bytes(64 << 10), |cache| {
            for round in 0..24 {
                let path = &paths[round as usize % paths.len()];
                let options = OpenOptions::new().read(true).write(round % 3 == 0);
                let file = cache.open(path, options).unwrap();
                let (random, ticks) = (Random::new(round), Ticks::of(cache));
                let mut player = Player { random, file: &file, memory: 64, ticks };
                sequential_loop(&mut player);
                player.reads(50);
                if round % 3 == 0 {
                    player.write();
                    file.sync_data().unwrap();
                    file.advise(Advice::WillNeed, 0, 10 * PAGE as u64).unwrap();
                }
            }
        });
        run.check(&format!("many files, {policy}"));
        let ranks = 0..run.trace.nr_pages() as u32;
        let mappings: BTreeSet<_> = ranks.map(|rank| run.trace.page(rank).mapping).collect();
        nr_reusing += usize::from(mappings.len() < paths.len());
    }
    // A policy may keep a page of each file forever, and so each number.
    let nr_policies = PolicyName::ALL.len();
    assert!(nr_reusing * 2 > nr_policies, "{nr_reusing} of {nr_policies} used a number again");
}

/// Pages that cannot be read are dropped, failed writes leave pages dirty.
#[test]
fn runs_over_a_failing_store_are_replayed() {
    if !pin_thread("runs_over_a_failing_store_are_replayed") {
        return;
    }
    for (seed, &policy) in (0..4).flat_map(|seed| PolicyName::ALL.iter().map(move |p| (seed, p))) {
        let mut nr_faults = 0;
        let run = Run::record(policy, 64, 64, Bytes(32 << 10), |cache| {
            nr_faults = failing_store(cache, seed);
        });
        run.check(&format!("failing store, {policy}, seed {seed}"));
        assert!(nr_faults > 50, "{policy}, seed {seed}: {nr_faults} faults");
    }
}

#[test]
fn a_memory_that_may_grow_is_replayed() {
    if !pin_thread("a_memory_that_may_grow_is_replayed") {
        return;
    }
    for &policy in PolicyName::ALL {
        let run = Run::record(policy, 200, 5000, Bytes(64 << 10), |cache| {
            play(cache, everything, 0);
        });
        run.check(&format!("200 of 5000 frames, {policy}"));
    }
}

/// The lengths of per-CPU lists decide when a CPU lacks frames: the record contains their tuning.
#[test]
fn every_tuning_of_the_lists_is_replayed() {
    if !pin_thread("every_tuning_of_the_lists_is_replayed") {
        return;
    }
    let mut nr_differing = 0;
    for tuning in PcpTuning::ALL {
        for (fraction, frames) in [(0, 1000), (0, 9000), (8, 9000)] {
            let memory = Bytes::from_pages(frames);
            let builder = PageCache::builder().memory(memory).readahead_max(Bytes(64 << 10));
            let builder = builder.pcp_tuning(tuning).percpu_pagelist_high_fraction(fraction);
            let run = Run::record_with(builder, |cache| play(cache, everything, 3));
            let what = format!("{tuning}, a fraction of {fraction}, {frames} frames");
            assert_eq!((run.header.pcp_tuning, run.header.pcp_high_fraction), (tuning, fraction));
            run.check(&what);
            assert!(run.stats.evictions > 0, "{what}: too little happens");
            let Memory::Zone(memory) = run.memory else { unreachable!("a record's memory") };
            for other in PcpTuning::ALL {
                let memory = Memory::Zone(ZoneMemory { pcp_tuning: other, ..memory });
                let replayed = run.replay(run.stats.policy, memory, &run.trace);
                nr_differing += u32::from(replayed.differs_from(&run));
            }
        }
    }
    assert!(nr_differing > 0, "nothing depends on the tuning");
}

/// Disabled mechanisms are replayed from the record, and only from there.
#[test]
fn switched_mechanisms_are_replayed() {
    if !pin_thread("switched_mechanisms_are_replayed") {
        return;
    }
    let mut nr_differing = 0;
    for &mechanism in Mechanism::ALL {
        let policy = mechanism.policies()[0];
        let switches = Switches::default().flipped(mechanism);
        let builder = PageCache::builder().memory(Bytes::from_pages(300)).policy(policy);
        let mut run = Run::record_with(builder.switches(switches), |cache| {
            play(cache, everything, 1);
        });
        run.check(&format!("{policy}, {mechanism} flipped"));
        assert_eq!(run.header.switches, switches);
        run.header.switches = Switches::default();
        nr_differing += u32::from(run.replay(policy, run.memory, &run.trace).differs_from(&run));
    }
    assert!(nr_differing > 5, "{nr_differing} mechanisms make a difference");
}

/// Canary: a replay that decides differently is noticed.
#[test]
fn another_policy_or_memory_does_not_pass_for_the_run() {
    let test = "another_policy_or_memory_does_not_pass_for_the_run";
    if !pin_thread(test) {
        return;
    }
    for &policy in PolicyName::ALL {
        let run = Run::play(policy, 300, Bytes(64 << 10), everything, 0);
        let Memory::Zone(memory) = run.memory else { unreachable!("a record's memory") };
        let differs = |policy, memory| run.replay(policy, memory, &run.trace).differs_from(&run);
        for &other in PolicyName::ALL.iter().filter(|other| **other != policy) {
            assert!(differs(other, run.memory), "{other} passes for {policy}");
        }
        let smaller = ZoneMemory { nr_frames: 290, ..memory };
        assert!(differs(policy, Memory::Zone(smaller)), "{policy}: ten frames less pass");
        assert!(differs(policy, Memory::from(300)), "{policy}: a group's limit passes");
    }
}

#[test]
fn a_record_without_one_kind_of_entry_does_not_pass_for_the_run() {
    let test = "a_record_without_one_kind_of_entry_does_not_pass_for_the_run";
    if !pin_thread(test) {
        return;
    }
    let play = |frames, script| Run::play(PolicyName::Mglru, frames, Bytes(64 << 10), script, 0);
    let of_script = |(_, script): &(_, Script)| [play(16, *script), play(300, *script)];
    let runs: Vec<Run> = SCRIPTS.iter().flat_map(of_script).collect();
    for &left_out in AccessKind::ALL.iter().filter(|kind| !kind.is_result()) {
        let is_missed = runs.iter().any(|run| {
            let without = run.trace_without(left_out);
            run.replay(run.stats.policy, run.memory, &without).differs_from(run)
        });
        assert!(is_missed, "nothing depends on {left_out:?}");
    }
}

/// One thread serves faults on the same CPU, so its record is complete.
#[test]
fn loads_and_stores_of_a_region_are_replayed() {
    let test = "loads_and_stores_of_a_region_are_replayed";
    if !pin_thread(test) {
        return;
    }
    for seed in 1..=4 {
        for &policy in PolicyName::ALL {
            let mut skipped = None;
            let run = Run::record(policy, 128, 128, Bytes(0), |cache| {
                let store = FaultyStore::with_contents(&vec![1; 512 * PAGE]);
                let region = match cache.region(RegionOptions::over_store(store.boxed())) {
                    Ok(region) => region,
                    Err(error) => return skipped = Some(error.to_string()),
                };
                let mut random = Random::new(seed);
                for step in 0..3000 {
                    let most = if random.below(3) == 0 { 512 } else { 100 };
                    let word = &region.words()[random.below(most) as usize * PAGE / 8];
                    match random.below(4) {
                        0 => word.store(step, Relaxed),
                        _ => assert!(word.load(Relaxed) <= 0x0101_0101_0101_0101),
                    }
                }
                region.sync().unwrap();
            });
            if let Some(why) = skipped {
                return skip(test, &why);
            }
            run.check(&format!("{policy}, seed {seed}"));
            assert!(run.stats.evictions > 100, "{policy}: too little happens");
        }
    }
}

//! Single steps with the rules of Linux 6.1 that differ from 6.18.

use super::world::{ANON, FILE, Steps};
use crate::folio::Flags;
use crate::ids::{FrameId, PageType};
use crate::lru::{AccessLog, AccessPath, Mechanism, PolicyName, Refusal, Switches};
use crate::reclaim::ReclaimPass;
use crate::vmstat::Counter;
use alloc::vec::Vec;

fn steps(swappiness: Option<u8>) -> Steps {
    Steps::with(PolicyName::Mglru61, swappiness, Switches::default())
}

fn minimal() -> Steps {
    let switches = Switches::default().with(Mechanism::MinimalPatch);
    Steps::with(PolicyName::Mglru61, None, switches)
}

fn background(steps: &mut Steps, priority: u8) -> u64 {
    let pass = ReclaimPass::background(&steps.lruvec, 32);
    steps.run(pass, priority).scan.reclaimed
}

/// Follows 100 clean folios of a file.
#[test]
fn the_minimal_trace_holds() {
    let mut steps = steps(None);
    steps.add(100, PageType::File, Flags::NONE);
    assert_eq!(steps.sizes(FILE), [100, 0, 0, 0]);
    assert_eq!(steps.direct(0), 100);
    let summary = steps.summary();
    assert_eq!((summary.max_seq, summary.min_seq), (3, [0, 2]));
    let tier0 = summary.tiers[FILE][0];
    assert_eq!((tier0.avg_total, tier0.evicted), (32, 36), "folded once");
    assert_eq!(steps.counter(Counter::LruGenAged), 0);

    assert_eq!(background(&mut steps, 12), 0);
    let summary = steps.summary();
    assert_eq!((summary.max_seq, summary.min_seq), (4, [1, 2]), "anon is forced");
    assert_eq!(steps.counter(Counter::LruGenAged), 1, "three empty generations are enough");
    let added = steps.add_one(PageType::File, Flags::NONE);
    assert_eq!(steps.seq_of(added), 2);

    let mut log = AccessLog::new();
    let returning = steps.bind(PageType::File, Flags::NONE);
    let (early, late) = (steps.evicted[0].1, steps.evicted[99].1);
    steps.lruvec.refault(&mut log, returning, early, AccessPath::Descriptor);
    assert_eq!(steps.counter(Counter::WorkingsetRefaultFile), 0, "of a generation used up");
    // The last batch emptied generation 0 first, so its shadows name the next in use.
    steps.lruvec.refault(&mut log, returning, late, AccessPath::Descriptor);
    assert_eq!(steps.counter(Counter::WorkingsetRefaultFile), 1);
}

/// With three generations, aging depends on their sizes.
#[test]
fn a_direct_pass_ages_until_the_old_folios_are_old_enough() {
    let mut steps = steps(None);
    let faulted = steps.add(40, PageType::File, Flags::ACTIVE);
    assert_eq!(steps.seq_of(faulted[0]), 3, "the youngest");
    assert_eq!(steps.direct(0), 40, "skips two generations, comes back, ages twice, takes all");
    assert_eq!((steps.walks, steps.counter(Counter::LruGenAged)), (2, 2));
    let summary = steps.summary();
    assert_eq!((summary.max_seq, summary.min_seq[FILE]), (5, 4));
}

#[test]
fn a_young_victim_goes_to_the_youngest_generation_at_once() {
    let mut steps = steps(None);
    let frame = steps.add_one(PageType::File, Flags::NONE);
    steps.add(64, PageType::File, Flags::NONE);
    steps.refusals.insert(frame, Refusal::Young);
    assert!(background(&mut steps, 0) > 0);
    assert_eq!((steps.seq_of(frame), steps.trials[&frame]), (3, 1));
}

#[test]
fn one_look_of_a_table_walk_promotes() {
    let mut steps = steps(None);
    let frames = steps.add(2, PageType::File, Flags::REFERENCED.with(Flags::WORKINGSET));
    steps.lruvec.report_young(&frames[..1]);
    assert_eq!(steps.sizes(FILE), [1, 0, 0, 1]);
    assert!(!steps.folio(frames[0]).flags().any(Flags::REFERENCED.with(Flags::WORKINGSET)));
}

#[test]
fn the_minimal_patch_never_walks() {
    let mut steps = minimal();
    let mapped = steps.add_one(PageType::File, Flags::NONE);
    steps.lruvec.report_young(&[mapped]);
    assert_eq!(steps.sizes(FILE), [1, 0, 0, 0]);
    steps.refusals.insert(mapped, Refusal::Busy);
    assert_eq!(steps.direct(0), 0);
    assert_eq!(steps.walks, 0);
    assert!(steps.counter(Counter::LruGenAged) > 0, "aging goes on without");
    assert!(steps.trials[&mapped] > 0);
}

#[test]
fn the_older_type_goes_first_and_file_waits_for_anon() {
    let mut steps = steps(Some(60));
    let anon = steps.add(10, PageType::Anon, Flags::NONE);
    let file = steps.add(10, PageType::File, Flags::NONE);
    assert_eq!(steps.direct(0), 20);
    let evicted: Vec<FrameId> = steps.evicted.iter().map(|(frame, _)| *frame).collect();
    assert_eq!(evicted, [file, anon].concat(), "no refaults: file first");
    let summary = steps.summary();
    assert_eq!(summary.min_seq[ANON], summary.min_seq[FILE], "in step");
}

#[test]
fn a_protected_folio_is_the_next_of_its_new_generation() {
    let mut steps = steps(None);
    let frames = steps.add(300, PageType::File, Flags::NONE);
    assert_eq!(background(&mut steps, 0), 64);
    let returning = steps.bind(PageType::File, Flags::NONE);
    let mut log = AccessLog::new();
    let twice = Flags::REFERENCED.with(Flags::WORKINGSET);
    for &frame in &frames[64..164] {
        steps.folio(frame).set(twice);
    }
    assert_eq!(background(&mut steps, 0), 64, "nothing is known of tier 1");
    for (_, shadow) in steps.evicted.split_off(64) {
        steps.lruvec.refault(&mut log, returning, shadow, AccessPath::Descriptor);
    }
    assert_eq!(background(&mut steps, 0), 64, "36 of tier 1 are protected, 64 of tier 0 go");
    assert_eq!(steps.counter(Counter::LruGenProtected), 36);
    assert_eq!(steps.counter(Counter::WorkingsetActivateFile), 36);
    assert_eq!(steps.summary().tiers[FILE][1].protected, 36);
    assert_eq!(steps.sizes(FILE), [300 - 3 * 64 - 36, 36, 0, 0]);
    assert!(!steps.folio(frames[128]).flags().any(twice), "it starts over");
}

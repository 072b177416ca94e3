//! The law for tiers: the same pages are promoted and demoted at the same entries.
//!
//! Time is set manually. Knobs are a hundred times as fast as a kernel's, so that a short run has
//! many scans.

use crate::common::PAGE;
use crate::common::store::FaultyStore;
use crate::pin_thread;
use crate::run::{Run, play};
use crate::scripts::{SCRIPTS, everything, skewed_reads};
use pagetide::{
    Advice, Builder, Bytes, Millis, PageCache, PcpTuning, PolicyName, Stage, Tier, TieringKnobs,
    TieringOptions,
};
use pagetide_core::record::{RecordedNodes, RecordedTiers};
use pagetide_core::tiering::{BalancingMode, DemotionMode};
use pagetide_lab::replay::{Memory, TierMemory};
use pagetide_lab::trace::{Access, DenseTrace, Note};
use proptest::prelude::*;
use std::time::Duration;

/// Frames of fast and slow memory: the minimum, few, and enough for leaves and batches.
const SIZES: [(u64, u64); 3] = [(16, 16), (40, 130), (300, 900)];

fn slow(nr_frames: u64) -> Tier {
    Tier::emulated(Bytes::from_pages(nr_frames), Duration::from_nanos(50))
}

fn options(stage: Stage) -> TieringOptions {
    let knobs = TieringKnobs {
        scan_period_min: Millis(10),
        scan_period_max: Millis(60),
        scan_pages: 64,
        scan_delay: Millis(20),
        hot_threshold: Millis(40),
        promote_rate_frames: 400,
        rate_window: Millis(50),
        free_space_frames: 16,
        ..TieringKnobs::default()
    };
    TieringOptions { knobs, ..TieringOptions::from(stage) }
}

fn tiered(nr_fast: u64, nr_slow: u64, stage: Stage) -> Builder {
    let fast = Tier::dram(Bytes::from_pages(nr_fast));
    PageCache::builder().tier(fast).tier(slow(nr_slow)).tiering(options(stage))
}

fn nr_moved(run: &Run) -> (u64, u64) {
    let tiering = run.stats.tiering.as_ref().expect("tiers");
    (tiering.promoted, tiering.demoted)
}

#[test]
fn a_replayed_run_moves_the_pages_that_the_run_did() {
    if !pin_thread("a_replayed_run_moves_the_pages_that_the_run_did") {
        return;
    }
    let (mut nr_promoted, mut nr_demoted) = (0, 0);
    for (nr_fast, nr_slow) in SIZES {
        for (name, script) in SCRIPTS {
            for &policy in PolicyName::ALL {
                let what = format!("{name}, {policy}, {nr_fast} and {nr_slow} frames");
                let builder = tiered(nr_fast, nr_slow, Stage::default()).policy(policy);
                let builder = builder.readahead_max(Bytes(64 << 10));
                let run = Run::record_with(builder, |cache| play(cache, script, 0));
                run.check(&what);
                nr_promoted += nr_moved(&run).0;
                nr_demoted += nr_moved(&run).1;
            }
        }
    }
    assert!(nr_promoted > 10_000 && nr_demoted > 10_000, "{nr_promoted} up, {nr_demoted} down");
}

#[test]
fn every_stage_of_promotion_is_replayed() {
    if !pin_thread("every_stage_of_promotion_is_replayed") {
        return;
    }
    for stage in Stage::ALL {
        for (seed, &policy) in (0..).zip(PolicyName::ALL) {
            let builder = tiered(60, 300, stage).policy(policy);
            let run = Run::record_with(builder, |cache| play(cache, everything, seed));
            run.check(&format!("{stage}, {policy}"));
            assert!(nr_moved(&run).0 > 0, "{stage}, {policy}: nothing is promoted");
        }
    }
}

/// The kind of memory makes no difference, but the number of kinds does.
#[test]
fn three_tiers_and_compressed_copies_are_replayed() {
    if !pin_thread("three_tiers_and_compressed_copies_are_replayed") {
        return;
    }
    for (seed, &policy) in (0..).zip(PolicyName::ALL) {
        let compressed = Tier::compressed(Bytes(200 << 10));
        let far = Tier::emulated(Bytes::from_pages(150), Duration::from_nanos(200));
        let two = tiered(40, 100, Stage::default());
        for (what, builder) in [
            ("three", two.clone().tier(far)),
            ("compressed", two.tier(compressed)),
            ("one", PageCache::builder().tier(Tier::dram(Bytes(1 << 20))).tier(compressed)),
        ] {
            let builder = builder.policy(policy).readahead_max(Bytes(32 << 10));
            let run = Run::record_with(builder, |cache| play(cache, everything, seed));
            run.check(&format!("{what}, {policy}"));
            let tiers = run.header.tiers.map_or(1, |tiers| tiers.nodes.as_slice().len());
            assert_eq!(tiers, if what == "three" { 3 } else { 1 + usize::from(what != "one") });
        }
    }
}

#[test]
fn tiers_that_may_grow_are_replayed() {
    if !pin_thread("tiers_that_may_grow_are_replayed") {
        return;
    }
    for &policy in PolicyName::ALL {
        let fast = Tier::dram(Bytes::from_pages(60)).growing_to(Bytes::from_pages(700));
        let slow = slow(300).growing_to(Bytes::from_pages(4000));
        let builder = PageCache::builder().tier(fast).tier(slow).tiering(options(Stage::Auto));
        let run = Run::record_with(builder.policy(policy), |cache| play(cache, everything, 2));
        run.check(&format!("60 of 700 and 300 of 4000 frames, {policy}"));
        assert!(nr_moved(&run).0 > 0, "{policy}: nothing is promoted");
    }
}

/// Per-CPU lists shrink over time, also in a cache without tiers.
#[test]
fn ticks_without_tiers_are_replayed() {
    if !pin_thread("ticks_without_tiers_are_replayed") {
        return;
    }
    for tuning in PcpTuning::ALL {
        let builder = PageCache::builder().memory(Bytes::from_pages(3000)).pcp_tuning(tuning);
        let run = Run::record_with(builder, |cache| {
            for round in 1..6 {
                play(cache, everything, round);
                cache.tick(Millis(round * 700));
            }
        });
        run.check(&format!("{tuning}"));
        assert_eq!(run.trace.notes().len(), 5, "{tuning}");
    }
}

/// Canary: each tier entry in the record is necessary.
#[test]
fn other_tiers_or_times_do_not_pass_for_the_run() {
    if !pin_thread("other_tiers_or_times_do_not_pass_for_the_run") {
        return;
    }
    let builder = tiered(60, 300, Stage::default());
    let run = Run::record_with(builder, |cache| play(cache, skewed_reads, 7));
    let Memory::Tiers(memory) = run.memory else { unreachable!("a record of tiers") };
    let policy = run.stats.policy;
    let differs = |tiers: RecordedTiers| {
        let memory = Memory::Tiers(TierMemory { tiers, ..memory });
        run.replay(policy, memory, &run.trace).differs_from(&run)
    };
    let tiers = memory.tiers;
    assert!(!differs(tiers), "the run itself");
    for stage in Stage::ALL.into_iter().filter(|stage| *stage != Stage::default()) {
        assert!(differs(RecordedTiers { switches: stage.switches(), ..tiers }), "{stage}");
    }
    assert!(differs(RecordedTiers { mode: BalancingMode::Off, ..tiers }));
    assert!(differs(RecordedTiers { demotion: DemotionMode::Off, ..tiers }));
    let knobs = TieringKnobs { hot_threshold: Millis(8), ..tiers.knobs };
    assert!(differs(RecordedTiers { knobs, ..tiers }), "another threshold");
    let mut nodes = tiers.nodes.as_slice().to_vec();
    for (node, nr_frames) in nodes.iter_mut().zip([61, 299]) {
        (node.nr_frames, node.nr_frames_max) = (nr_frames, nr_frames);
    }
    assert!(differs(RecordedTiers { nodes: RecordedNodes::new(&nodes), ..tiers }), "a frame up");
    let without = |leaves_out: fn(&Note) -> bool| {
        let mut trace = DenseTrace::default();
        let mut notes = run.trace.notes().iter().peekable();
        for (nth, (rank, kind)) in (0..).zip(run.trace.entries()) {
            while let Some((_, note)) = notes.next_if(|(before, _)| *before <= nth) {
                if !leaves_out(note) {
                    trace.push_notes(&[*note]);
                }
            }
            trace.push(Access { page: run.trace.page(rank), kind, thread: 0 });
        }
        run.replay(policy, run.memory, &trace).differs_from(&run)
    };
    assert!(!without(|_| false), "the run itself");
    assert!(without(|note| matches!(note, Note::Tick(_))), "no time");
    assert!(without(|note| matches!(note, Note::Mapping(_))), "files of unknown length");
}

/// An operation of a script. Positions are in thousandths of the file.
#[derive(Clone, Debug)]
enum Op {
    Read(u64, u64),
    Write(u64, u64),
    Guard(u64),
    GuardMut(u64),
    /// A guard of the lower half, which is never written, until dropped.
    Hold(u64),
    Release,
    Tick(u64),
    Sync,
    DontNeed(u64),
    WillNeed(u64),
    Cut(u64),
}

fn any_op() -> impl Strategy<Value = Op> {
    // Small numbers are more frequent: some pages are hot.
    let part = || (0..1000_u64).prop_map(|part| part * part / 1000);
    prop_oneof![
        20 => (part(), 1..6_u64).prop_map(|(at, nr)| Op::Read(at, nr)),
        3 => (part(), 1..9000_u64).prop_map(|(at, len)| Op::Write(at, len)),
        5 => part().prop_map(Op::Guard),
        2 => part().prop_map(Op::GuardMut),
        1 => part().prop_map(Op::Hold),
        1 => Just(Op::Release),
        8 => (0..40_u64).prop_map(Op::Tick),
        1 => Just(Op::Sync),
        1 => part().prop_map(Op::DontNeed),
        1 => part().prop_map(Op::WillNeed),
        1 => (500..1000_u64).prop_map(Op::Cut),
    ]
}

fn any_cache() -> impl Strategy<Value = (PolicyName, Builder)> {
    let policy = prop::sample::select(PolicyName::ALL);
    let frames = (16..70_u64, 0..200_u64);
    let stage = prop::sample::select(&Stage::ALL[..]);
    let moves = (prop::bool::weighted(0.9), prop::bool::weighted(0.9));
    let others = (0..3_u32, prop::sample::select(vec![0_u64, 16 << 10, 128 << 10]));
    (policy, frames, stage, moves, others).prop_map(|(policy, frames, stage, moves, others)| {
        let (fast, more) = frames;
        let mut builder = tiered(fast, fast + more, stage);
        let (promotion, demotion) = moves;
        builder = builder.tiering(TieringOptions { promotion, demotion, ..options(stage) });
        builder = match others.0 {
            0 => builder,
            1 => builder.tier(Tier::emulated(Bytes::from_pages(50), Duration::from_nanos(300))),
            _ => builder.tier(Tier::compressed(Bytes(100 << 10))),
        };
        (policy, builder.policy(policy).readahead_max(Bytes(others.1)))
    })
}

fn carry_out(cache: &PageCache, ops: &[Op]) {
    let nr_pages = 3 * cache.stats().memory_bytes / PAGE as u64 / 2;
    let store = FaultyStore::with_contents(&vec![1; nr_pages as usize * PAGE]);
    let file = cache.open_store(store.boxed()).unwrap();
    let (mut held, mut now) = (Vec::new(), 0);
    let half = nr_pages / 2;
    let (any, low) = (|at: u64| nr_pages * at / 1000, |at: u64| half * at / 1000);
    let offset = |index: u64| index * PAGE as u64;
    for op in ops {
        match *op {
            Op::Read(at, nr) => {
                let mut target = vec![0; (nr - 1) as usize * PAGE + 100];
                file.read_at(&mut target, offset(any(at))).unwrap();
            }
            Op::Write(at, len) => {
                file.write_at(&vec![7; len as usize], offset(half + low(at))).map(drop).unwrap();
            }
            Op::Guard(at) => drop(file.page(any(at))),
            Op::GuardMut(at) => drop(file.page_mut(half + low(at)).map(|mut page| page[0] = 1)),
            Op::Hold(at) if held.len() < 8 => held.extend(file.page(low(at))),
            Op::Hold(_) | Op::Release => held.clear(),
            Op::Tick(step) => {
                now += step;
                cache.tick(Millis(now));
            }
            Op::Sync => file.sync_data().unwrap(),
            Op::DontNeed(at) => file.advise(Advice::DontNeed, offset(any(at)), 90_000).unwrap(),
            Op::WillNeed(at) => file.advise(Advice::WillNeed, offset(any(at)), 90_000).unwrap(),
            Op::Cut(at) => {
                held.clear();
                file.set_len(offset(any(at))).unwrap();
                file.set_len(offset(nr_pages)).unwrap();
            }
        }
    }
    drop(held);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_program_over_tiers_is_replayed(
        (policy, builder) in any_cache(),
        ops in prop::collection::vec(any_op(), 100..1500),
    ) {
        if pin_thread("any_program_over_tiers_is_replayed") {
            let run = Run::record_with(builder, |cache| carry_out(cache, &ops));
            run.check(&format!("{policy}"));
        }
    }
}

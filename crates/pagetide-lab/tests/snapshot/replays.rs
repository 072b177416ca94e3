//! Replays in each kind of memory and circumstance, over synthetic traces.

use crate::digest::Digest;
use crate::notes;
use crate::records;
use crate::subjects::Design;
use crate::synthetic;
use crate::table::Row;
use pagetide_core::ids::{MappingId, PageId};
use pagetide_core::lru::PolicyName;
use pagetide_core::page_alloc::{HighFraction, PcpTuning};
use pagetide_core::tiering::{BalancingMode, DemotionMode, Stage, TieringSwitches};
use pagetide_core::units::Millis;
use pagetide_lab::replay::{
    self, Memory, Reader, ReplayClock, ReplayOutcome, Setup, StatisticsFold, ZoneMemory,
};
use pagetide_lab::trace::{Access, DenseTrace};
use rayon::prelude::*;

type MakeSetup = fn(PolicyName, u32) -> Setup;

/// A trace with its replay setup.
pub(crate) struct Play {
    what: String,
    trace: DenseTrace,
    frames: &'static [u32],
    setup: MakeSetup,
}

impl Play {
    fn new(what: &str, trace: DenseTrace, frames: &'static [u32], setup: MakeSetup) -> Play {
        Play { what: what.to_owned(), trace, frames, setup }
    }
}

pub(crate) fn rows(plays: &[Play], designs: &[Design]) -> Vec<Row> {
    let sizes = |play| move |frames: &u32| (play, *frames);
    let runs: Vec<(&Play, u32, Design)> = plays
        .iter()
        .flat_map(|play: &Play| play.frames.iter().map(sizes(play)))
        .flat_map(|(play, frames)| designs.iter().map(move |design| (play, frames, *design)))
        .collect();
    let run = |(play, frames, design): &(&Play, u32, Design)| {
        let setup = (play.setup)(design.policy, *frames);
        replayed(&play.what, *design, *frames, setup, &play.trace)
    };
    runs.par_iter().map(run).collect()
}

pub(crate) fn replayed(
    what: &str,
    design: Design,
    frames: u32,
    setup: Setup,
    trace: &DenseTrace,
) -> Row {
    let setup = Setup { switches: design.switches(), ..setup };
    let mut evictions = Digest::EMPTY;
    let outcome = replay::run_observed(setup, trace, |page| evictions.add_page(page));
    Row {
        what: what.to_owned(),
        policy: design.policy.to_string(),
        switches: design.switches_text(),
        frames,
        // A fill counts as a miss even if its access is cut off.
        hits: outcome.accesses.checked_sub(outcome.misses),
        evictions: Some(evictions),
        counters: counters_of(&outcome),
    }
}

fn counters_of(outcome: &ReplayOutcome) -> Digest {
    let mut digest = Digest::EMPTY;
    for (name, number) in [
        ("accesses", outcome.accesses),
        ("misses", outcome.misses),
        ("bypasses", outcome.bypasses),
        ("out_of_memory", outcome.out_of_memory),
        ("evictions", outcome.evictions),
        ("pages_ahead", outcome.pages_ahead),
    ] {
        digest.add_count(name, number);
    }
    digest.add_counters(&outcome.vmstat);
    if let Some(tiers) = &outcome.tiers {
        let text = serde_json::to_string(tiers).expect("it serializes");
        // Keeps the old names, so that a rename changes no snapshot.
        let text = text.replace("resident_pages_by_tier", "resident");
        digest.add_bytes(text.replace("served_by_tier", "served").as_bytes());
    }
    digest
}

pub(crate) fn reads() -> Vec<Play> {
    let play = |(name, trace)| {
        let small = if name == "once" { &[96][..] } else { &[96, 333] };
        Play::new(&format!("limit/{name}"), trace, small, |policy, frames| {
            Setup::new(policy, frames)
        })
    };
    synthetic::reads().into_iter().map(play).collect()
}

/// All other entries, memories and times, and records with tiers and groups.
pub(crate) fn circumstances() -> Vec<Play> {
    let mixed = || synthetic::mixed(3, 7_000);
    let recorded = || records::recorded(1, 6_000);
    vec![
        Play::new("limit/mixed", mixed(), &[96, 200], Setup::new),
        Play::new("kernel-group/mixed", mixed(), &[150, 250], |policy, limit_pages| {
            Setup::new(policy, Memory::KernelGroup { limit_pages })
        }),
        Play::new("machine/recorded", recorded(), &[128, 400], |policy, nr_frames| {
            Setup::new(policy, Memory::Machine { nr_frames })
        }),
        Play::new("swap/mixed", with_anonymous(&mixed()), &[96, 200], swapping),
        Play::new("no-swap/mixed", with_anonymous(&mixed()), &[200], |policy, frames| Setup {
            swap_pages: Some(0),
            ..Setup::new(policy, frames)
        }),
        Play::new("timed/mixed", with_times(&mixed()), &[96], |policy, frames| Setup {
            statistics: StatisticsFold::Every { period: Millis(500), phase: Millis(90) },
            flush_every: Some(Millis(300)),
            ..Setup::new(policy, frames)
        }),
        Play::new("min-ttl/mixed", mixed(), &[96], |policy, frames| Setup {
            min_ttl: Millis(3),
            ..Setup::new(policy, frames)
        }),
        Play::new("one-handle/recorded", recorded(), &[96], |policy, frames| Setup {
            reader: Reader::OneHandle,
            ..Setup::new(policy, frames)
        }),
        Play::new("recorded/mixed", mixed(), &[96, 200], zone),
        Play::new("recorded/readahead", recorded(), &[128], zone),
        Play::new("recorded-groups/mixed", notes::with_groups(&mixed()), &[200], zone),
        Play::new("recorded-groups/readahead", notes::with_groups(&recorded()), &[200], zone),
        Play::new("recorded-tiers/mixed", notes::with_ticks(&mixed()), &[160], tiers),
        Play::new("recorded-tiers/readahead", notes::with_ticks(&recorded()), &[160], tiers),
    ]
}

/// Swap, a flusher, stale statistics, and a clock with costs.
fn swapping(policy: PolicyName, frames: u32) -> Setup {
    Setup {
        swap_pages: Some(150),
        swappiness: 100,
        clock: ReplayClock::Costs,
        statistics: StatisticsFold::Every { period: Millis(40), phase: Millis(7) },
        flush_every: Some(Millis(25)),
        ..Setup::new(policy, frames)
    }
}

fn zone_memory(nr_frames: u32, pcp_tuning: PcpTuning) -> ZoneMemory {
    ZoneMemory {
        nr_frames,
        nr_frames_max: nr_frames + 20,
        nr_cpus: 2,
        swappiness: 60,
        pcp_tuning,
        pcp_fraction: HighFraction::DEFAULT,
    }
}

fn zone(policy: PolicyName, nr_frames: u32) -> Setup {
    Setup::new(policy, Memory::Zone(zone_memory(nr_frames, PcpTuning::Depth)))
}

fn tiers(policy: PolicyName, nr_fast: u32) -> Setup {
    Setup::new(policy, Memory::Tiers(notes::tiers_of(nr_fast)))
}

/// Runs two policies in each tuning of the per-CPU lists, and with each switch of tiering flipped.
pub(crate) fn memory_rows(policies: [PolicyName; 2]) -> Vec<Row> {
    let mixed = synthetic::mixed(5, 12_000);
    let ticked = notes::with_ticks(&records::recorded(2, 10_000));
    let mut rows = Vec::new();
    for policy in policies {
        let design = Design { policy, flipped: None };
        for tuning in PcpTuning::ALL {
            let setup = Setup::new(policy, Memory::Zone(zone_memory(160, tuning)));
            rows.push(replayed(&format!("recorded-{tuning}/mixed"), design, 160, setup, &mixed));
        }
        for (name, memory) in tier_variants() {
            let setup = Setup::new(policy, Memory::Tiers(memory));
            rows.push(replayed(&format!("recorded-tiers-{name}"), design, 160, setup, &ticked));
        }
    }
    rows
}

fn tier_variants() -> Vec<(&'static str, replay::TierMemory)> {
    let usual = notes::tiers_of(160);
    let with = |change: &dyn Fn(&mut replay::TierMemory)| {
        let mut memory = usual;
        change(&mut memory);
        memory
    };
    let flip = |change: fn(&mut TieringSwitches)| with(&|it| change(&mut it.tiers.switches));
    vec![
        ("hot-selection", flip(|it| it.hot_selection ^= true)),
        ("rate-limit", flip(|it| it.rate_limit ^= true)),
        ("auto-threshold", flip(|it| it.auto_threshold ^= true)),
        ("auto", with(&|it| it.tiers.switches = Stage::Auto.switches())),
        ("base", with(&|it| it.tiers.switches = Stage::Base.switches())),
        ("no-demotion", with(&|it| it.tiers.demotion = DemotionMode::Off)),
        ("no-balancing", with(&|it| it.tiers.mode = BalancingMode::Off)),
    ]
}

fn with_anonymous(trace: &DenseTrace) -> DenseTrace {
    let mut anonymous = DenseTrace::default();
    anonymous.mark_anonymous(MappingId(1));
    for (rank, kind) in trace.entries() {
        let page: PageId = trace.page(rank);
        anonymous.push(Access { page, kind, thread: 0 });
    }
    anonymous
}

/// Adds a millisecond after every third entry.
fn with_times(trace: &DenseTrace) -> DenseTrace {
    let mut timed = DenseTrace::default();
    for (nth, (rank, kind)) in (0..).zip(trace.entries()) {
        timed.push_at(Access { page: trace.page(rank), kind, thread: 0 }, Millis(nth / 3));
    }
    timed
}

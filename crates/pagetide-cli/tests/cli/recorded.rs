//! `pagetide replay --recorded`: repeats a run over fast and slow memory.

use crate::run::{run, stderr, stdout};
use pagetide::{
    Bytes, CacheStats, Mechanism, Millis, OpenOptions, PageCache, PolicyName, Stage, Switches,
};
use pagetide::{Tier, TieringKnobs, TieringOptions};
use rustix::thread::{CpuSet, sched_getcpu, sched_setaffinity};
use serde_json::Value;
use std::path::Path;
use std::time::Duration;

const PAGE: usize = 4096;

/// Records accesses mostly to a tenth of a file, a tick every few accesses, and one mechanism off.
fn record(dir: &Path) -> CacheStats {
    let mut here = CpuSet::new();
    here.set(sched_getcpu());
    if let Err(error) = sched_setaffinity(None, &here) {
        eprintln!("SKIPPED: a record made on one CPU: it may differ, {error}");
    }
    let file = dir.join("file");
    std::fs::write(&file, vec![1; 600 * PAGE]).expect("room");
    let knobs = TieringKnobs {
        scan_period_min: Millis(10),
        scan_period_max: Millis(40),
        scan_delay: Millis(0),
        hot_threshold: Millis(40),
        free_space_frames: 16,
        ..TieringKnobs::default()
    };
    let slow = Tier::emulated(Bytes::from_pages(300), Duration::from_nanos(50));
    let cache = PageCache::builder()
        .tier(Tier::dram(Bytes::from_pages(60)))
        .tier(slow)
        .tiering(TieringOptions { knobs, ..Stage::default().into() })
        .policy(PolicyName::Mglru)
        .switches(Switches::default().without(Mechanism::Generations))
        .background(false)
        .record(dir.join("run.ptt"))
        .build()
        .expect("a cache");
    let file = cache.open(&file, OpenOptions::new().read(true)).expect("a file");
    let (mut state, mut bytes) = (1_u64, vec![0; 100]);
    for nth in 0..20_000 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let pages = if state >> 60 < 14 { 60 } else { 600 };
        let index = (state >> 33) % pages;
        file.read_at(&mut bytes, index * PAGE as u64).expect("a page");
        if nth % 5 == 0 {
            cache.tick(Millis(nth / 5));
        }
    }
    cache.stats()
}

fn replayed(record: &str, more: &[&str]) -> Value {
    let output = run(&[&["replay", record, "--recorded", "--json"], more].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let mut document: Value = serde_json::from_slice(&output.stdout).expect("one document");
    assert_eq!(document["rows"].as_array().map(Vec::len), Some(1));
    document["rows"][0].take()
}

#[test]
fn a_run_over_tiers_is_repeated_and_its_mechanisms_can_be_switched() {
    let dir = tempfile::tempdir().expect("a folder");
    let stats = record(dir.path());
    let tiering = stats.tiering.clone().expect("tiers");
    assert!(tiering.promoted > 10 && tiering.demoted > 10, "{tiering}");
    let record = dir.path().join("run.ptt");
    let record = record.to_str().expect("a plain name");

    let row = replayed(record, &[]);
    assert_eq!(row["policy"], "mglru");
    assert_eq!(row["frames"], 360);
    assert_eq!(row["misses"], stats.misses);
    assert_eq!(row["evictions"], stats.evictions);
    let served: Vec<u64> = tiering.tiers.iter().map(|tier| tier.served).collect();
    assert_eq!(row["served_by_tier"], serde_json::json!(served));
    for (name, number) in [
        ("promoted", tiering.promoted),
        ("demoted", tiering.demoted),
        ("hint_faults", tiering.hint_faults),
        ("too_cold", tiering.too_cold),
        ("rate_limited", tiering.rate_limited),
        ("no_room", tiering.no_room),
        ("unmovable", tiering.unmovable),
    ] {
        assert_eq!(row[name], number, "{name}");
    }

    // Options override the recorded mechanisms.
    let on = replayed(record, &["--on", "generations"]);
    assert_ne!((&on["misses"], &on["evictions"]), (&row["misses"], &row["evictions"]));

    assert!(tiering.too_cold > 0, "{tiering}");
    let off = ["--off", "hot-selection,rate-limit,auto-threshold"];
    let base = replayed(record, &off);
    assert_eq!(base["too_cold"], 0, "nothing selects");
    assert_ne!(base["promoted"], row["promoted"]);

    let output = run(&["replay", record, "--recorded", "--policy", "fifo,lru"]);
    let text = stdout(&output);
    let told: Vec<&str> = text.lines().filter(|line| line.contains("tier1 held")).collect();
    assert_eq!(told.len(), 1, "{text}");
    assert_eq!(text.lines().filter(|line| line.starts_with("fifo ")).count(), 2, "{text}");
}

/// A replay at any size reclaims in the same way as the recorded run.
#[test]
fn a_replay_makes_room_as_the_recorded_run_did() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("file");
    std::fs::write(&file, vec![1; 4000 * PAGE]).expect("room");
    for (is_on, name) in [(true, "background"), (false, "group")] {
        let record = dir.path().join(name);
        let builder = PageCache::builder().memory(Bytes::from_pages(1000)).background(is_on);
        let cache = builder.record(&record).build().expect("a cache");
        let file = cache.open(&file, OpenOptions::new().read(true)).expect("a file");
        let (mut state, mut bytes) = (1_u64, [0; 8]);
        for _ in 0..20_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let index = (state >> 33) % if state >> 60 < 10 { 1200 } else { 4000 };
            file.read_at(&mut bytes, index * PAGE as u64).expect("a page");
        }
        drop((file, cache));
        let misses = |more: &[&str]| {
            let record = record.to_str().expect("a plain name");
            let args = ["replay", record, "--frames", "1000", "--policy", "mglru", "--json"];
            let output = run(&[&args[..], more].concat());
            assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
            let rows: Value = serde_json::from_slice(&output.stdout).expect("one document");
            rows["rows"][0]["misses"].as_u64().expect("a number")
        };
        let other = if is_on { "group" } else { "background" };
        assert_eq!(misses(&[]), misses(&["--reclaim", name]), "{name}");
        assert_ne!(misses(&[]), misses(&["--reclaim", other]), "{name}");
    }
}

#[test]
fn what_cannot_be_repeated_is_refused() {
    let dir = tempfile::tempdir().expect("a folder");
    record(dir.path());
    let record = dir.path().join("run.ptt");
    let record = record.to_str().expect("a plain name");
    let reads = dir.path().join("reads.trace");
    std::fs::write(&reads, "1\n2\n3\n").expect("room");
    let reads = reads.to_str().expect("a plain name");
    for (args, code, why) in [
        (&["replay", record][..], 2, "how much memory?"),
        (&["replay", record, "--recorded", "--memory", "1M"], 2, "cannot be used with"),
        (&["replay", record, "--memory", "1M", "--off", "rate-limit"], 2, "part of tiering"),
        (&["replay", reads, "--recorded"], 1, "is of no recorded run"),
    ] {
        let output = run(args);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(why), "{args:?}: {}", stderr(&output));
    }
}

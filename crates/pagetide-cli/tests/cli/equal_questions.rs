//! `mrc`, `replay` and `ablate` of a record with readahead: consistent numbers in every column.

use crate::run::{document, rows_of, run, stderr, stdout};
use pagetide::{Bytes, OpenOptions, PageCache};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const PAGE: u64 = 4096;
const SIZES: &str = "100,400,1600";
const ALL: &str = "pagetide,mglru,active-inactive,lru,fifo,clock,sieve,s3fifo,arc,lirs,opt";

/// Records two streams and random reads in little memory, with readahead.
fn record(dir: &Path) -> PathBuf {
    let path = dir.join("file");
    std::fs::write(&path, vec![1; 2000 * PAGE as usize]).expect("room");
    let record = dir.join("run.ptt");
    let builder = PageCache::builder().memory(Bytes::from_pages(400)).background(false);
    let cache = builder.record(&record).build().expect("a cache");
    let open = || cache.open(&path, OpenOptions::new().read(true)).expect("a file");
    let (stream, other) = (open(), open());
    let (mut state, mut bytes) = (1_u64, vec![0; 3 * PAGE as usize]);
    for nth in 0..4000 {
        stream.read_at(&mut bytes, nth % 600 * 3 * PAGE).expect("pages");
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let index = (state >> 33) % 2000;
        other.read_at(&mut bytes[..8], index.min(state >> 40 & 1023) * PAGE).expect("a page");
    }
    let stats = cache.stats();
    let ahead = stats.vmstat.iter().find(|(name, _)| *name == "readahead_pages");
    assert!(ahead.is_some_and(|(_, pages)| *pages > 1000), "the run read ahead: {ahead:?}");
    record
}

/// Maps frames and policy to misses per access and bytes read.
fn columns(rows: &Value) -> BTreeMap<(u64, String), (f64, u64)> {
    let rows = rows.as_array().expect("a list").iter().map(|row| {
        let policy = row["policy"].as_str().expect("a name").to_owned();
        let frames = row["frames"].as_u64().expect("a size");
        let ratio = row["miss_ratio"].as_f64().expect("a ratio");
        ((frames, policy), (ratio, row["device_read_bytes"].as_u64().expect("bytes")))
    });
    rows.collect()
}

fn check_bound(columns: &BTreeMap<(u64, String), (f64, u64)>, what: &str) {
    for ((frames, policy), (ratio, _)) in columns {
        let best = columns[&(*frames, "opt".to_owned())].0;
        assert!(best <= *ratio, "{what}: {policy} {ratio} below opt {best} at {frames} frames");
    }
}

#[test]
fn opt_is_never_above_another_whatever_becomes_of_the_readahead() {
    let dir = tempfile::tempdir().expect("a folder");
    let record = record(dir.path());
    let record = record.to_str().expect("a plain name");
    for readahead in ["without", "recorded"] {
        let asked = ["--policy", ALL, "--readahead", readahead, "--json"];
        let rows = rows_of(&[&["replay", record, "--frames", SIZES], &asked[..]].concat());
        assert!(rows.as_array().expect("a list").iter().all(|row| row["readahead"] == readahead));
        let replayed = columns(&rows);
        assert_eq!(replayed.len(), 3 * 11);
        check_bound(&replayed, "replay");
        let curves = document(&[&["mrc", record, "--points", "6"], &asked[..]].concat());
        assert_eq!(curves["readahead"], readahead);
        check_bound(&columns(&curves["rows"]), "mrc");
    }
}

#[test]
fn opt_is_never_above_another_in_the_memory_the_run_had() {
    let dir = tempfile::tempdir().expect("a folder");
    let record = record(dir.path());
    let record = record.to_str().expect("a plain name");
    let rows = rows_of(&["replay", record, "--recorded", "--policy", ALL, "--json"]);
    assert!(rows.as_array().expect("a list").iter().all(|row| row["readahead"] == "recorded"));
    check_bound(&columns(&rows), "replay --recorded");
}

#[test]
fn device_bytes_stand_beside_the_misses() {
    let dir = tempfile::tempdir().expect("a folder");
    let record = record(dir.path());
    let record = record.to_str().expect("a plain name");
    let rows = |readahead| {
        let asked = ["--policy", "lru,opt", "--readahead", readahead, "--json"];
        rows_of(&[&["replay", record, "--frames", SIZES], &asked[..]].concat())
    };
    for row in rows("without").as_array().expect("a list") {
        assert_eq!(row["device_read_bytes"], row["misses"].as_u64().expect("misses") * PAGE);
    }
    let (without, given) = (columns(&rows("without")), columns(&rows("recorded")));
    for (key, (ratio, bytes)) in given {
        assert!(ratio < without[&key].0, "{key:?}: readahead saves misses");
        assert!(bytes > 0);
    }
}

#[test]
fn what_is_compared_is_said() {
    let dir = tempfile::tempdir().expect("a folder");
    let record = record(dir.path());
    let record = record.to_str().expect("a plain name");
    let sizes = ["--frames", "400"];
    for (command, sizes) in [("replay", &sizes[..]), ("mrc", &[]), ("ablate", &sizes)] {
        for (readahead, said) in [
            ("without", "without the recorded readahead"),
            ("recorded", "what the recorded run read ahead"),
        ] {
            let asked = [command, record, "--readahead", readahead, "--policy", "mglru"];
            let output = run(&[&asked, sizes].concat());
            assert_eq!(output.status.code(), Some(0), "{command}: {}", stderr(&output));
            assert!(stdout(&output).contains(said), "{command}: {}", stdout(&output));
        }
    }
    let report = dir.path().join("replay.html");
    let report_name = report.to_str().expect("a plain name");
    let output = run(&["replay", record, "--frames", "400", "--report", report_name]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let page = std::fs::read_to_string(&report).expect("the report");
    assert!(page.contains("without the recorded readahead"), "{page}");
    let output = run(&["replay", record, "--recorded", "--readahead", "without"]);
    assert_eq!(output.status.code(), Some(2), "a run again is a run with its readahead");
}

//! `replay --explain` and `lab why`.

use crate::run::{run, stderr, stdout};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// Writes a loop larger than memory, then pages that only recency keeps.
fn shifting_trace(dir: &Path) -> PathBuf {
    let path = dir.join("shift.txt");
    let looped = (0..40_000).map(|at| at % 1200);
    let sliding = (0..60_000).map(|at| 10_000 + at / 4 + at % 2 * 300);
    let lines: String = looped.chain(sliding).map(|page| format!("{page}\n")).collect();
    std::fs::write(&path, lines).expect("it works");
    path
}

#[test]
fn explain_tells_the_arms_and_draws_them() {
    let dir = tempfile::tempdir().expect("it works");
    let trace = shifting_trace(dir.path());
    let trace = trace.to_str().expect("it works");
    let report = dir.path().join("settings.html");
    let report = report.to_str().expect("it works");
    let asked = ["replay", trace, "--frames", "1000", "--policy", "lru,pagetide", "--explain"];
    let told = run(&[&asked[..], &["--report", report, "--json"]].concat());
    assert_eq!(told.status.code(), Some(0), "{}", stderr(&told));
    let document: Value = serde_json::from_str(&stdout(&told)).expect("JSON");
    let rows = &document["rows"];
    assert!(rows[0].get("settings").is_none(), "lru has no settings: {rows}");
    let settings = rows[1]["settings"].as_array().expect("settings");
    assert!(settings.len() > 1 && settings[0]["in_charge"] == "tight", "{rows}");
    let accesses: u64 =
        settings.iter().map(|stay| stay["accesses"].as_u64().expect("a number")).sum();
    assert_eq!(accesses, 100_000);
    let html = std::fs::read_to_string(report).expect("a report");
    assert!(html.contains("Settings of pagetide with 1000 frames"));
    let told = run(&asked);
    assert!(stdout(&told).contains("chosen by"), "{}", stdout(&told));
}

#[test]
fn a_made_trace_is_written_and_its_arms_are_drawn() {
    let dir = tempfile::tempdir().expect("it works");
    let path = |name: &str| dir.path().join(name).to_str().expect("it works").to_owned();
    let (trace, picture) = (path("loop15.txt"), path("settings.svg"));
    let made = run(&["lab", "make", "loop15", &trace]);
    assert_eq!(made.status.code(), Some(0), "{}", stderr(&made));
    let text = std::fs::read_to_string(&trace).expect("a trace");
    assert_eq!((text.lines().count(), text.lines().nth(30_001)), (1_500_000, Some("1")));
    let asked = ["replay", &trace, "--frames", "20000", "--policy", "pagetide", "--svg", &picture];
    assert_eq!(run(&asked).status.code(), Some(2), "--svg draws what --explain tells");
    let told = run(&[&asked[..], &["--explain"]].concat());
    assert_eq!(told.status.code(), Some(0), "{}", stderr(&told));
    let svg = std::fs::read_to_string(picture).expect("a picture");
    assert!(svg.starts_with("<svg") && svg.contains("tight"), "{svg}");
    let refused = run(&["lab", "make", "circle", &trace]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("zigzag"), "{}", stderr(&refused));
}

#[test]
fn explain_without_arms_is_a_usage_error() {
    let dir = tempfile::tempdir().expect("it works");
    let trace = shifting_trace(dir.path());
    let trace = trace.to_str().expect("it works");
    let told = run(&["replay", trace, "--frames", "100", "--policy", "lru", "--explain"]);
    assert_eq!(told.status.code(), Some(2));
    assert!(stderr(&told).contains("--policy pagetide"), "{}", stderr(&told));
}

#[test]
fn why_tells_a_pages_story() {
    let dir = tempfile::tempdir().expect("it works");
    let trace = shifting_trace(dir.path());
    let trace = trace.to_str().expect("it works");
    for policy in ["pagetide", "mglru", "lru"] {
        let told =
            run(&["lab", "why", trace, "5", "--frames", "1000", "--policy", policy, "--json"]);
        assert_eq!(told.status.code(), Some(0), "{}", stderr(&told));
        let story: Value = serde_json::from_str(&stdout(&told)).expect("JSON");
        let events = story["rows"].as_array().expect("events");
        assert_eq!((&events[0]["what"], &events[0]["access"]), (&"missed".into(), &6.into()));
        let is_evicted = events.iter().any(|event| event["what"] == "evicted");
        assert!(is_evicted && story["is_resident"] == false, "{policy}: {story}");
    }
    let told = run(&["lab", "why", trace, "5", "--frames", "1000"]);
    assert!(stdout(&told).contains("at the end: not resident"), "{}", stdout(&told));
}

#[test]
fn why_refuses_pages_that_are_not_there() {
    let dir = tempfile::tempdir().expect("it works");
    let trace = shifting_trace(dir.path());
    let trace = trace.to_str().expect("it works");
    let told = run(&["lab", "why", trace, "99999999", "--frames", "100"]);
    assert_eq!(told.status.code(), Some(1));
    assert!(stderr(&told).contains("not among the"), "{}", stderr(&told));
    let told = run(&["lab", "why", trace, "page", "--frames", "100"]);
    assert_eq!(told.status.code(), Some(2));
}

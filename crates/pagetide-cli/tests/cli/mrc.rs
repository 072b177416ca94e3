//! `pagetide mrc` and `pagetide replay`: equal numbers, and pictures.

use crate::run::{document, rows_of, run, skewed, stderr, stdout};
use serde_json::Value;
use std::collections::BTreeMap;

/// Maps policy and frames to miss ratio and error.
fn points(curves: &Value) -> BTreeMap<(String, u64), (f64, f64)> {
    let points = curves["rows"].as_array().expect("a list").iter().map(|point| {
        let policy = point["policy"].as_str().expect("a name").to_owned();
        let frames = point["frames"].as_u64().expect("a size");
        assert_eq!(point["memory_bytes"], frames * 4096);
        let number = |name: &str| point[name].as_f64().expect("a number");
        ((policy, frames), (number("miss_ratio"), number("miss_ratio_error")))
    });
    points.collect()
}

#[test]
fn the_curve_is_what_replays_at_its_sizes_say() {
    let dir = tempfile::tempdir().expect("a folder");
    let trace = skewed(dir.path(), 60_000, 6000);
    let name = trace.to_str().expect("a plain name");
    let curves = document(&["mrc", name, "--policy", "lru,mglru,opt", "--points", "5", "--json"]);
    assert_eq!((&curves["accesses"], &curves["sample_rate"]), (&60_000.into(), &Value::Null));
    let points = points(&curves);
    assert_eq!(points.len(), 15);
    let sizes: Vec<u64> = points.keys().filter(|key| key.0 == "lru").map(|key| key.1).collect();
    let frames = sizes.iter().map(u64::to_string).collect::<Vec<_>>().join(",");
    let args = ["replay", name, "--frames", &frames, "--policy", "lru,mglru,opt", "--json"];
    for row in rows_of(&args).as_array().expect("a list") {
        let policy = row["policy"].as_str().expect("a name").to_owned();
        let (ratio, error) = points[&(policy, row["frames"].as_u64().expect("a size"))];
        assert_eq!(row["miss_ratio"].as_f64(), Some(ratio), "{row}");
        assert_eq!(error, 0.0);
    }
    for frames in sizes {
        let of = |policy: &str| points[&(policy.to_owned(), frames)].0;
        assert!(of("opt") <= of("lru") && of("opt") <= of("mglru"), "{frames}");
    }
}

#[test]
fn a_sample_states_an_error_that_covers_the_truth() {
    let dir = tempfile::tempdir().expect("a folder");
    let trace = skewed(dir.path(), 60_000, 6000);
    let name = trace.to_str().expect("a plain name");
    let args = ["mrc", name, "--policy", "lru,active-inactive", "--points", "6", "--sample", "0.3"];
    let curves = document(&[&args[..], &["--json"]].concat());
    assert_eq!(curves["sample_rate"], 0.3);
    let exact = rows_of(&["trace", "info", name, "--json"])[0]["pages"].as_f64().expect("pages");
    let estimate = curves["pages"].as_f64().expect("pages");
    assert!((estimate / exact - 1.0).abs() < 0.1, "{estimate} pages for {exact}");
    let sampled = points(&curves);
    let frames: Vec<String> =
        sampled.keys().filter(|key| key.0 == "lru").map(|key| key.1.to_string()).collect();
    let policies = ["--policy", "lru,active-inactive", "--json"];
    let rows = rows_of(&[&["replay", name, "--frames", &frames.join(",")], &policies[..]].concat());
    for row in rows.as_array().expect("a list") {
        let policy = row["policy"].as_str().expect("a name").to_owned();
        let (ratio, error) = sampled[&(policy, row["frames"].as_u64().expect("a size"))];
        let off = (row["miss_ratio"].as_f64().expect("a ratio") - ratio).abs();
        assert!(0.0 < error && error < 0.05, "{row}: {error} stated");
        assert!(off < 4.0 * error, "{row}: {ratio} is off by {off}, {error} stated");
    }
    assert!(stdout(&run(&args)).contains("+-"));
}

#[test]
fn the_picture_and_the_report_show_every_policy() {
    let dir = tempfile::tempdir().expect("a folder");
    let trace = skewed(dir.path(), 60_000, 6000);
    let name = trace.to_str().expect("a plain name");
    let svg = dir.path().join("mrc.svg");
    let svg_name = svg.to_str().expect("a plain name");
    let output = run(&["mrc", name, "--policy", "lru,mglru", "--points", "4", "--svg", svg_name]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(stdout(&output).lines().count(), 7, "{}", stdout(&output));
    let picture = std::fs::read_to_string(&svg).expect("the picture");
    assert!(picture.starts_with("<svg") && picture.contains("mglru"));
    let report = dir.path().join("replay.html");
    let report_name = report.to_str().expect("a plain name");
    let sizes = ["--memory", "1M,4M,16M", "--policy", "lru,mglru"];
    let output = run(&[&["replay", name, "--report", report_name], &sizes[..]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let page = std::fs::read_to_string(&report).expect("the report");
    assert_eq!(page.matches("<svg").count(), 1);
    assert_eq!(page.matches("<tr><td>").count(), 6);
    for fetched in ["src=", "href=", "@import", "url("] {
        assert!(!page.contains(fetched), "the report fetches something: {fetched}");
    }
}

#[test]
fn what_cannot_be_meant_is_a_usage_error() {
    for (wrong, said) in [
        (&["--policy", "lru,fastest"][..], "mglru"),
        (&["--points", "0"], "1..=4096"),
        (&["--sample", "0"], "above 0"),
        (&["--sample", "2"], "at most 1"),
        (&["--sample", "tenth"], "above 0"),
        (&["--jobs", "0"], "--jobs"),
    ] {
        let output = run(&[&["mrc", "/no/such/trace"], wrong].concat());
        assert_eq!(output.status.code(), Some(2), "{wrong:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(said), "{wrong:?}: {}", stderr(&output));
        assert!(output.stdout.is_empty());
    }
    for wrong in [
        &["--frames", "0"][..],
        &["--frames", "x"],
        &["--memory", "4095"],
        &["--frames", "1", "--policy", "fastest"],
    ] {
        let output = run(&[&["replay", "/no/such/trace"], wrong].concat());
        assert_eq!(output.status.code(), Some(2), "{wrong:?}: {}", stderr(&output));
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn too_small_a_sample_is_refused_with_what_would_do() {
    let dir = tempfile::tempdir().expect("a folder");
    let trace = skewed(dir.path(), 60_000, 6000);
    let output = run(&["mrc", trace.to_str().expect("a plain name"), "--sample", "0.001"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("larger --sample"), "{}", stderr(&output));
    assert!(output.stdout.is_empty());
}

//! Mechanisms on the command line: switched, listed, and ablated.

use crate::run::{rows_of, run, stderr, stdout};
use std::fmt::Write;

fn trace(folder: &tempfile::TempDir) -> String {
    let mut text = String::new();
    for step in 0..1200_u64 {
        let page = if step % 3 == 0 { step % 7 } else { step * 31 % 200 };
        writeln!(text, "{page}").expect("a string takes it");
    }
    let path = folder.path().join("pages.trace");
    std::fs::write(&path, text).expect("room");
    path.to_str().expect("a plain name").to_owned()
}

#[test]
fn unknown_and_foreign_mechanisms_are_usage_errors() {
    let folder = tempfile::tempdir().expect("a folder");
    let name = &trace(&folder);
    for (policy, off, said) in [
        ("mglru", "tears", "tiers"),
        ("lru,opt", "tiers", "no chosen policy"),
        ("mglru", "tiers,tears", "unknown mechanism"),
    ] {
        for flag in ["--off", "--on"] {
            let output = run(&["replay", name, "--frames", "50", "--policy", policy, flag, off]);
            assert_eq!(output.status.code(), Some(2), "{policy} {flag} {off}");
            assert!(stderr(&output).contains(said), "{}", stderr(&output));
        }
    }
    let both = ["--off", "tiers", "--on", "tiers"];
    let output =
        run(&[&["replay", name, "--frames", "50", "--policy", "mglru"][..], &both].concat());
    assert_eq!(output.status.code(), Some(2));
    let output = run(&["ablate", name, "--frames", "50", "--policy", "lru"]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
}

#[test]
fn ablation_has_a_row_for_each_mechanism_that_replay_agrees_with() {
    let folder = tempfile::tempdir().expect("a folder");
    let name = &trace(&folder);
    let report = folder.path().join("ablation.html");
    let report_name = report.to_str().expect("a plain name");
    let args = ["ablate", name, "--frames", "60,90", "--report", report_name, "--json"];
    let rows = rows_of(&args);
    let rows = rows.as_array().expect("a list");
    let listed = rows_of(&["policies", "--json"]);
    let is_mglru = |policy: &&serde_json::Value| policy["name"] == "mglru";
    let listed = listed.as_array().and_then(|all| all.iter().find(is_mglru)).expect("mglru");
    let mechanisms = listed["mechanisms"].as_array().expect("a list");
    assert_eq!(rows.len(), 2 * (1 + mechanisms.len()));
    assert!(mechanisms.iter().all(|it| it["effect"].is_string() && it["default"].is_boolean()));
    let off = rows.iter().find(|row| row["mechanism"] == "tiers").expect("tiers");
    assert_eq!(off["is_on"], false);
    let args = ["replay", name, "--frames", "60", "--policy", "mglru", "--off", "tiers", "--json"];
    assert_eq!(rows_of(&args)[0]["misses"], off["misses"]);
    let page = std::fs::read_to_string(report).expect("written");
    assert!(page.contains("<svg") && page.contains("tiers off"));
    assert!(stdout(&run(&["ablate", name, "--frames", "60"])).contains("as it is"));
    assert!(stdout(&run(&["policies", "--mechanisms"])).contains("lazy-promotion"));
}

#[test]
fn folded_rows_are_means_with_a_range_and_live_rows_are_as_ever() {
    let folder = tempfile::tempdir().expect("a folder");
    let name = &trace(&folder);
    let args = ["replay", name, "--frames", "60", "--policy", "active-inactive,opt", "--json"];
    let live = rows_of(&args);
    assert!(live[0].get("miss_ratio_min").is_none());
    let folded = rows_of(&[&args[..], &["--fold", "2ms"]].concat());
    let ratio = |field: &str| folded[0][field].as_f64().expect("a number");
    assert!(ratio("miss_ratio_min") <= ratio("miss_ratio_max"));
    assert!((ratio("miss_ratio_min")..=ratio("miss_ratio_max")).contains(&ratio("miss_ratio")));
    assert_eq!(folded.as_array().map(Vec::len), Some(2));
    assert_eq!(folded[1]["misses"], live[1]["misses"], "the optimum reads no statistics");
    assert_eq!(run(&["replay", name, "--frames", "60", "--fold", "often"]).status.code(), Some(2));
    let counted = rows_of(&[&args[..], &["--fold-every", "50"]].concat());
    assert!(counted[0]["miss_ratio_min"].as_f64() <= counted[0]["miss_ratio"].as_f64());
}

#[test]
fn limit_that_pays_for_more_than_pages_holds_fewer_of_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let name = &trace(&folder);
    let args = ["replay", name, "--frames", "128", "--policy", "lru,opt", "--json"];
    let group = rows_of(&args);
    let args = [&args[..], &["--reclaim", "kernel-group"]].concat();
    let kernel_group = rows_of(&args);
    let held = |rows: &serde_json::Value| {
        let number = |field: &str| rows[0][field].as_u64().expect("a number");
        number("misses") - number("evictions")
    };
    assert!(held(&kernel_group) < 128 - 28 && held(&group) == 128, "{kernel_group}");
    assert_eq!(kernel_group[0]["frames"], 128, "the row is of the limit");
    assert_eq!(kernel_group[1]["misses"], group[1]["misses"], "the optimum has all of it");

    let limited = run(&[&args[..4], &["--policy", "lru", "--on", "shadow-limit"]].concat());
    assert_eq!(limited.status.code(), Some(2), "lru leaves no shadows");
}

#[test]
fn background_reclaim_keeps_frames_free_and_misses_more() {
    let folder = tempfile::tempdir().expect("a folder");
    let name = &trace(&folder);
    let args = ["replay", name, "--frames", "128", "--policy", "mglru", "--json"];
    let group = rows_of(&args);
    let background = rows_of(&[&args[..], &["--reclaim", "background"]].concat());
    let misses = |rows: &serde_json::Value| rows[0]["misses"].as_u64().expect("a number");
    assert!(misses(&background) >= misses(&group));
    assert!(background[0]["evictions"].as_u64() > Some(0));
}

//! `pagetide lab run pmbench` and `pagetide tier`: rows, and refused machines.

use crate::run::{rows_of, run, skewed, stderr, stdout};
use serde_json::Value;

const FIELDS: [&str; 10] = [
    "workload",
    "stage",
    "accesses_per_s",
    "promotion_mb_per_s",
    "demotion_mb_per_s",
    "hint_faults",
    "fast_share",
    "precision",
    "recall",
    "ping_pong",
];

const STAGES: [&str; 9] = [
    "all-slow",
    "first-touch",
    "oracle",
    "all-fast",
    "base",
    "hot-selection",
    "rate-limit",
    "auto-threshold",
    "auto",
];

/// A scale with few accesses.
#[test]
fn a_row_a_stage_with_exactly_these_fields_and_ratios_and_seeds_where_there_are_several() {
    let dir = tempfile::tempdir().expect("a folder");
    let report = dir.path().join("tiers.html");
    let path = report.to_str().expect("a plain name");
    let usual = ["lab", "run", "pmbench", "--scale", "65536", "--json"];
    let rows = rows_of(&[&usual[..], &["--report", path]].concat());
    let rows = rows.as_array().expect("rows");
    let stages: Vec<_> = rows.iter().filter_map(|row| row["stage"].as_str()).collect();
    assert_eq!(stages, STAGES);
    for row in rows {
        let mut names: Vec<_> = row.as_object().expect("a row").keys().collect();
        names.sort_unstable();
        let mut wanted = FIELDS;
        wanted.sort_unstable();
        assert!(names.into_iter().eq(wanted), "{row}");
        assert!(row["accesses_per_s"].as_f64() > Some(0.0), "{row}");
    }
    let text = std::fs::read_to_string(&report).expect("a report");
    assert_eq!(text.matches("<svg").count(), 2);
    let more = ["--ratio", "1:2,1:8", "--seeds", "2", "--off", "rate-limit"];
    let rows = rows_of(&[&usual[..], &more].concat());
    let rows = rows.as_array().expect("rows");
    assert_eq!(rows.len(), 2 * 2 * 10);
    assert_eq!((&rows[0]["fast_to_slow"], &rows[1]["seed"]), (&"1:2".into(), &2.into()));
    assert_eq!(rows[19]["stage"], "all~rate-limit");
}

#[test]
fn a_slow_tier_costs_more_the_less_is_fast_and_never_less_than_nothing() {
    let dir = tempfile::tempdir().expect("a folder");
    let trace = skewed(dir.path(), 40_000, 600);
    let name = trace.to_str().expect("a plain name");
    let report = dir.path().join("tier.html");
    let path = report.to_str().expect("a plain name");
    let rows = rows_of(&["tier", name, "--fast", "50%,10%", "--json", "--report", path]);
    let rows = rows.as_array().expect("rows");
    assert_eq!(rows.len(), 2 * 8);
    let slowdown = |fast: f64, stage: &str| {
        let is_it = |row: &&Value| row["fast"] == fast && row["stage"] == stage;
        rows.iter().find(is_it).and_then(|row| row["slowdown"].as_f64()).expect(stage)
    };
    assert!(rows.iter().all(|row| row["slowdown"].as_f64() > Some(0.99)), "{rows:?}");
    for stage in ["oracle", "base", "auto-threshold"] {
        assert!(slowdown(0.1, stage) > slowdown(0.5, stage), "{stage}: {rows:?}");
        assert!(slowdown(0.1, stage) < slowdown(0.1, "all-slow"), "{stage}: {rows:?}");
    }
    let text = std::fs::read_to_string(&report).expect("a report");
    assert_eq!(text.matches("<svg").count(), 3);
    for fetched in ["src=", "href=", "@import", "url("] {
        assert!(!text.contains(fetched), "the report fetches something: {fetched}");
    }
    let slower = ["--slow", "latency=1us", "--ratio", "1:4", "--seconds", "60"];
    let text = stdout(&run(&[&["tier", name][..], &slower].concat()));
    assert!(text.contains("slow_read 1000") && text.contains("20 %  oracle"), "{text}");
}

#[test]
fn machines_that_cannot_be_are_usage_errors_in_a_sentence() {
    for (wrong, said) in [
        (&["--fast", "60%"][..], "at most 50%"),
        (&["--fast", "0%"], "above 0%"),
        (&["--fast", "25"], "as in 25%"),
        (&["--fast", "25%", "--ratio", "1:4"], "cannot be used with"),
        (&["--ratio", "4:1"], "1:1 to 1:64"),
        (&["--slow", "latency=0ns"], "slow_read is 0"),
        (&["--slow", "latency=90ns"], "these are one tier"),
        (&["--slow", "latency=110ns,bandwidth=204GB,write-bandwidth=136GB"], "is in tier"),
        (&["--slow", "latency=300"], "latency=305ns"),
        (&["--cost", "slow=3"], "slow_read_mb"),
        (&["--policy", "fastest"], "mglru"),
    ] {
        let output = run(&[&["tier", "/no/such/trace"], wrong].concat());
        assert_eq!(output.status.code(), Some(2), "{wrong:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(said), "{wrong:?}: {}", stderr(&output));
        assert!(output.stdout.is_empty());
    }
    for (args, said) in [
        (&["tier-nothing"][..], "tier-oltp"),
        (&["pmbench", "wschange"], "run apart"),
        (&["pmbench", "--tuning", "fixed"], "have stages"),
        (&["pmbench", "--policy", "lru,mglru"], "one policy at a time"),
        (&["pmbench", "--cost", "slow_read=50"], "these are one tier"),
        (&["pmbench", "--off", "everything"], "rate-limit"),
        (&["pmbench", "--scale", "0"], "1..="),
        (&["wschange", "--ratio", "1:4"], "for pmbench and tier-..."),
    ] {
        let output = run(&[&["lab", "run"][..], args].concat());
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(stderr(&output).contains(said), "{args:?}: {}", stderr(&output));
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn a_trace_of_too_few_pages_is_refused() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("tiny.trace");
    std::fs::write(&path, (0..255).map(|page| format!("{page}\n")).collect::<String>())
        .expect("room");
    let output = run(&["tier", path.to_str().expect("a plain name")]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains("255 pages are too few"), "{}", stderr(&output));
}

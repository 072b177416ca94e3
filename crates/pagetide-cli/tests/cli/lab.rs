//! `pagetide lab run pcp-...`: rows, a report, and refused requests.

use crate::run::{run, stderr, stdout};
use serde_json::Value;

#[test]
fn a_workload_of_the_lists_gives_a_row_a_tuning_and_a_report() {
    let dir = tempfile::tempdir().expect("a folder");
    let report = dir.path().join("lists.html");
    let path = report.to_str().expect("a plain name");
    let args = ["lab", "run", "pcp-pattern-a", "--tuning", "fixed,refill", "--report", path];
    let output = run(&[&args[..], &["--json"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let document: Value = serde_json::from_slice(&output.stdout).expect("one JSON document");
    let rows = document["rows"].as_array().expect("a list");
    let tunings: Vec<_> = rows.iter().map(|row| row["tuning"].as_str()).collect();
    assert_eq!(tunings, [Some("fixed"), Some("refill")]);
    for row in rows {
        let share = row["lock_wait_share"].as_f64().expect("a number");
        assert!(
            row["allocated_gb_per_s"].as_f64() > Some(0.0) && (0.0..=1.0).contains(&share),
            "{row}"
        );
        assert_eq!(
            (row["workload"].as_str(), row["cpus"].as_u64()),
            (Some("pcp-pattern-a"), Some(8))
        );
    }
    let text = std::fs::read_to_string(&report).expect("a report");
    assert_eq!(text.matches("<svg").count(), 3);
}

#[test]
fn a_price_set_by_hand_is_printed_and_changes_the_answer() {
    let table = |args: &[&str]| {
        let usual = ["lab", "run", "pcp-pattern-a", "--tuning", "fixed"];
        let output = run(&[&usual[..], args].concat());
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        stdout(&output)
    };
    let (usual, dear) = (table(&[]), table(&["--cost", "zone_page=5000"]));
    assert!(usual.contains("zone_page 20") && dear.contains("zone_page 5000"), "{dear}");
    assert_ne!(usual.lines().nth(2), dear.lines().nth(2));
}

#[test]
fn what_makes_no_sense_is_a_usage_error() {
    for (args, said) in [
        (&["pcp-nothing"][..], "pcp-page-fault1"),
        (&["pcp-kbuild", "wschange"][..], "run apart"),
        (&["pcp-kbuild", "--policy", "lru"][..], "tunings, not policies"),
        (&["wschange", "--tuning", "fixed"][..], "for pcp-... workloads"),
        (&["pcp-kbuild", "--tuning", "none"][..], "refill"),
        (&["pcp-kbuild", "--cost", "zone_page"][..], "NAME=NUMBER"),
        (&["pcp-kbuild", "--cost", "slow_read=3"][..], "zone_page"),
        (&["pcp-kbuild", "--seeds", "0"][..], "--seeds"),
    ] {
        let output = run(&[&["lab", "run"][..], args].concat());
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(stderr(&output).contains(said), "{args:?}: {}", stderr(&output));
        assert!(output.stdout.is_empty());
    }
}

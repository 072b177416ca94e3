//! The demo end to end, small: rows, report, and no leftovers.

use crate::run::{cgroups_of, left_in, pagetide, run, stderr, stdout};
use serde_json::Value;
use std::io::Read;
use std::process::Stdio;

#[test]
fn tiny_demo_plays_every_workload_under_every_subject() {
    let dir = tempfile::tempdir().expect("a folder");
    let dir_name = dir.path().to_str().expect("a plain name");
    let report = dir.path().join("report.html");
    let report_name = report.to_str().expect("a plain name");
    let output = run(&[
        "demo",
        "--memory",
        "8M",
        "--seconds",
        "0.1",
        "--rounds",
        "1",
        "--dir",
        dir_name,
        "--report",
        report_name,
        "--json",
    ]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let document: Value = serde_json::from_slice(&output.stdout).expect("one JSON document");
    assert_eq!(document["schema"], "pagetide.demo/1");
    let is_known = ["two-lists", "multi-generational"].map(Value::from);
    assert!(is_known.contains(&document["kernel_lru"]), "{document}");
    let rows = document["rows"].as_array().expect("a list of rows");
    assert_eq!(rows.len(), 5 * 7);
    let verdict = document["verdicts"].as_array().expect("sentences");
    assert!(
        verdict.iter().any(|said| said.as_str().is_some_and(|said| said.starts_with("uniform: "))),
        "{verdict:?}"
    );
    let said = stderr(&output);
    assert!(
        said.starts_with("   0 s   0 %  35 runs: ") && said.contains("oltp, round 1"),
        "{said}"
    );
    for row in rows {
        let name = format!("{} under {}", row["workload"], row["subject"]);
        if let Some(reason) = row["detail"].get("skipped") {
            assert_eq!(row["subject"], "linux", "{name} was skipped: {reason}");
            eprintln!("SKIPPED: {name}: {reason}");
            continue;
        }
        assert!(row["ops_per_s"].as_f64().is_some_and(|speed| speed > 0.0), "{name}: {row}");
        assert!(row["max_us"].as_f64() >= row["p99_us"].as_f64(), "{name}: {row}");
        assert!(
            row["resident_bytes_max"].as_u64().is_some_and(|bytes| bytes <= 8 << 20),
            "{name}: {row}"
        );
        match row["workload"].as_str().expect("a name") {
            "wschange" => {
                let rounds = row["detail"]["reads_until_cached"].as_array().expect("rounds");
                assert_eq!(rounds.len(), 2);
                assert!(
                    rounds
                        .iter()
                        .all(|round| round.as_array().is_some_and(|files| files.len() == 3))
                );
            }
            "wsprotect" => assert!(row["detail"].get("protected_ratio").is_some(), "{name}: {row}"),
            "oltp" => assert_eq!(row["detail"]["verified_pages"], 8192, "{name}: {row}"),
            _ => {}
        }
    }
    let page = std::fs::read_to_string(&report).expect("the report");
    assert!(
        page.starts_with("<!doctype html>")
            && page.contains("<svg")
            && page.trim_end().ends_with("</html>")
    );
    assert_eq!(left_in(dir.path()), ["report.html"]);
}

#[test]
fn table_is_printed_without_colours_or_bars_when_nobody_watches() {
    let dir = tempfile::tempdir().expect("a folder");
    let dir_name = dir.path().to_str().expect("a plain name");
    let output = run(&[
        "demo",
        "--memory",
        "4M",
        "--dir",
        dir_name,
        "--workloads",
        "wsprotect",
        "--subjects",
        "mglru,linux,pagetide",
        "--no-report",
    ]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let table = stdout(&output);
    for part in ["wsprotect: ", "linux", "operations a second", "the best other policy (", "timed"]
    {
        assert!(table.contains(part), "{part} is missing:\n{table}");
    }
    assert!(
        !output.stdout.contains(&0x1b) && !output.stderr.contains(&0x1b),
        "escape codes without a terminal"
    );
    assert!(left_in(dir.path()).is_empty());
}

#[test]
fn interrupted_demo_fails_and_leaves_nothing() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut child = pagetide()
        .args([
            "demo",
            "--memory",
            "8M",
            "--seconds",
            "60",
            "--workloads",
            "uniform",
            "--no-report",
            "--dir",
        ])
        .arg(dir.path())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let pid = child.id();
    // A child process means that files are made and a subject plays.
    let children = format!("/proc/{pid}/task/{pid}/children");
    while !std::fs::read_to_string(&children).is_ok_and(|children| !children.is_empty()) {
        assert!(child.try_wait().expect("a child").is_none(), "it ended by itself");
        std::thread::yield_now();
    }
    let signal = rustix::process::Signal::INT;
    let child_pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(child_pid, signal).expect("it is ours");
    let status = child.wait().expect("a child");
    let mut said = String::new();
    child.stderr.take().expect("piped").read_to_string(&mut said).expect("text");
    assert_eq!(status.code(), Some(130), "{said}");
    assert!(said.contains("interrupted"), "{said}");
    assert!(left_in(dir.path()).is_empty(), "left behind: {:?}", left_in(dir.path()));
    assert_eq!(cgroups_of(pid), Vec::<String>::new());
}

#[test]
fn unwritable_report_is_a_failure_that_names_it() {
    let dir = tempfile::tempdir().expect("a folder");
    let output = run(&[
        "demo",
        "--memory",
        "4M",
        "--workloads",
        "wsprotect",
        "--subjects",
        "lru",
        "--report",
        "/no/such/report.html",
        "--dir",
        dir.path().to_str().expect("a plain name"),
    ]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("/no/such/report.html"), "{}", stderr(&output));
    assert!(left_in(dir.path()).is_empty());
}

#[test]
fn tiers_stand_beside_memory_that_is_all_fast() {
    let dir = tempfile::tempdir().expect("a folder");
    let dir_name = dir.path().to_str().expect("a plain name");
    let tiers = ["--tier", "dram=4M", "--tier", "slow=12M,latency=500ns"];
    let rest =
        ["demo", "--seconds", "0.3", "--rounds", "1", "--no-report", "--dir", dir_name, "--json"];
    let output = run(&[&rest[..], &tiers[..]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let document: Value = serde_json::from_slice(&output.stdout).expect("one JSON document");
    assert_eq!(document["schema"], "pagetide.demo/1");
    let rows = document["rows"].as_array().expect("a list of rows");
    let subjects: Vec<&str> = rows.iter().filter_map(|row| row["subject"].as_str()).collect();
    assert_eq!(subjects, ["mglru@fast-only", "mglru", "mglru@all-fast"]);
    let limits = [4 << 20, 16 << 20, 16 << 20];
    for (row, limit) in rows.iter().zip(limits) {
        assert_eq!(row["workload"], "zipf-fit");
        assert!(row["resident_bytes_max"].as_u64().is_some_and(|bytes| bytes <= limit), "{row}");
    }
    let served = rows[1]["detail"]["served_by_tier"].as_array().expect("two tiers");
    assert_eq!(served.len(), 2);
    assert!(served.iter().all(|count| count.as_u64() > Some(0)), "{}", rows[1]);
    assert!(rows[2]["detail"].get("served_by_tier").is_none(), "{}", rows[2]);
}

#[test]
fn tiers_that_cannot_be_are_usage_errors() {
    let refused = |args: &[&str], said: &str| {
        let output = run(&[&["demo", "--no-report"], args].concat());
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(said), "{args:?}: {}", stderr(&output));
    };
    let slow = "slow=64M,latency=300ns";
    refused(&["--tier", "dram=1G", "--tier", slow], "at least as large");
    refused(&["--tier", "dram=16M", "--tier", "slow=64M,latency=0ns"], "is not slow");
    refused(&["--tier", "dram=16M", "--tier", "numa4095=64M"], "no memory node 4095");
    refused(&["--tier", "dram=16M", "--tier", "dram=64M"], "the same memory");
    refused(&["--tier", "dram=16M", "--memory", "64M"], "cannot be used with");
    refused(&["--tier", "slow=64M"], "latency");
    refused(&["--subjects", "mglru@all-fast"], "--tier");
}

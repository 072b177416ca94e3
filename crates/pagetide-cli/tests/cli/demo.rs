//! The demo from end to end, small: rows, report, and nothing left behind.

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
        "0.2",
        "--dir",
        dir_name,
        "--report",
        report_name,
        "--json",
    ]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let rows: Value = serde_json::from_slice(&output.stdout).expect("one JSON document");
    let rows = rows.as_array().expect("a list of rows");
    assert_eq!(rows.len(), 5 * 4);
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
        "mglru,linux",
        "--no-report",
    ]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let table = stdout(&output);
    assert!(
        table.contains("wsprotect: ") && table.contains("mglru") && table.contains("linux"),
        "{table}"
    );
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
    // The files are made and a subject plays once the command has a child of its own.
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
    assert_eq!(status.code(), Some(1), "{said}");
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

//! A run's estimates for other memory sizes, and its report.

use super::{folder, has, noise, pagetide, summary_in};
use std::path::Path;
use std::process::{Command, Output};

fn run_with_report(folder: &Path, memory: &str, line: &str) -> (Output, serde_json::Value, String) {
    let mut run = Command::new(pagetide());
    run.args(["run", "--memory", memory, "--policy", "mglru", "--set", "readahead_max=0"]);
    run.args(["--report", "r.html", "--json", "s.json"]);
    run.args(["--exclude", "*.html", "--exclude", "*.json"]);
    let output = run.args(["--", "sh", "-c", line]).current_dir(folder).output().unwrap();
    let summary = summary_in(&folder.join("s.json"));
    let report = std::fs::read_to_string(folder.join("r.html")).unwrap();
    (output, summary, report)
}

/// A loop over 2 MiB in 1 MiB never hits. Twice the memory would hit nearly always.
#[test]
fn a_loop_is_told_how_much_memory_it_needs() {
    let here = folder();
    std::fs::write(here.path().join("a"), noise(2 << 20, 5)).unwrap();
    let line = "for i in 1 2 3 4 5 6 7 8; do cat a; done >/dev/null";
    let (output, summary, report) = run_with_report(here.path(), "1M", line);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("working set (99% of the hits): 2.0 MiB"), "{said}");
    assert!(said.contains("with 512.0 KiB") && said.contains("with 2.0 MiB 0.8"), "{said}");
    let sizing = &summary["sizing"];
    assert_eq!(sizing["working_set_bytes"], 2 << 20, "{sizing}");
    let ratios = sizing["hit_ratios"].as_array().unwrap();
    assert_eq!(ratios.len(), 6);
    assert_eq!(ratios[3]["hit_ratio"], summary["hit_ratio"], "drawn through what was");
    assert!(ratios[4]["lru_hit_ratio_without_readahead"].as_f64().unwrap() > 0.87, "{sizing}");
    assert_eq!(report.matches("<svg").count(), 5);
}

/// One page in 16 is sampled: estimates have error bars and matching precision.
#[test]
fn estimates_from_a_sample_carry_their_error() {
    let here = folder();
    std::fs::write(here.path().join("a"), noise(48 << 20, 5)).unwrap();
    let line = "for i in 1 2 3; do cat a; head -c 20M a; done >/dev/null";
    let (output, summary, _) = run_with_report(here.path(), "32M", line);
    let said = String::from_utf8_lossy(&output.stderr);
    let told = said.lines().find(|line| line.contains("working set")).expect("a line");
    assert!(told.matches(" +- ").count() >= 2, "{told}");
    let sizing = &summary["sizing"];
    assert!(sizing["working_set_error_bytes"].as_u64().unwrap() > 0, "{sizing}");
    for row in sizing["hit_ratios"].as_array().unwrap() {
        let is_measured = row["memory_bytes"] == summary["memory_bytes"];
        let error = row["hit_ratio_error"].as_f64().unwrap();
        assert!(error < 0.5 && (!is_measured || error == 0.0), "{row}");
        assert!(row["lru_hit_ratio_without_readahead_error"].is_number(), "{row}");
    }
}

#[test]
fn a_program_that_is_killed_has_its_report_as_well() {
    let here = folder();
    let line = "echo x > a; cat a; kill -9 $$";
    let (output, summary, report) = run_with_report(here.path(), "1M", line);
    assert_eq!(output.status.code(), Some(137));
    assert_eq!(summary["exit_code"], 137);
    assert!(report.contains("kill -9") && report.trim_end().ends_with("</html>"));
}

#[test]
fn a_report_that_cannot_be_written_is_said_before_the_program_runs() {
    let here = folder();
    let mut run = Command::new(pagetide());
    run.args(["run", "--memory", "1M", "--report", "/nonexistent/r.html", "--", "touch", "ran"]);
    let output = run.current_dir(here.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(!here.path().join("ran").exists());
}

fn replayed(folder: &Path, record: &str, memory: &str) -> f64 {
    let mut replay = Command::new(pagetide());
    replay.args(["replay", record, "--memory", memory, "--policy", "pagetide", "--json"]);
    // The compared run read ahead as well.
    replay.args(["--readahead", "recorded"]);
    let output = replay.current_dir(folder).output().unwrap();
    let rows: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    1.0 - rows["rows"][0]["miss_ratio"].as_f64().unwrap()
}

#[test]
fn a_record_predicts_real_runs_at_half_and_double_the_memory() {
    if !has("fio", "a_record_predicts_real_runs_at_half_and_double_the_memory") {
        return;
    }
    let here = folder();
    std::fs::write(here.path().join("a"), noise(32 << 20, 9)).unwrap();
    let job = "fio --name=a --filename=a --size=32M --rw=randread --bs=4k --ioengine=psync \
               --random_distribution=zipf:0.8 --io_size=96M --randseed=7 --invalidate=0";
    let measured = |memory: &str, settings: &[&str]| {
        let mut run = Command::new(pagetide());
        run.args(["run", "--memory", memory, "--json", "s.json", "--include", "**/a"]);
        run.args(settings);
        let output = run.args(["--", "sh", "-c", job]).current_dir(here.path()).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        summary_in(&here.path().join("s.json"))["hit_ratio"].as_f64().unwrap()
    };
    // A busy machine delivers hits to the policy later, and a larger run reads ahead pages unknown
    // to the record. Either moves a ratio by up to a point.
    for alone in [&["--set", "readahead_max=0"][..], &[]] {
        let record = [alone, &["--record", "t.ptt"]].concat();
        for (memory, settings) in [("8M", &record[..]), ("4M", alone), ("16M", alone)] {
            let (real, told) = (measured(memory, settings), replayed(here.path(), "t.ptt", memory));
            println!("{memory} {alone:?}: {real:.4} measured, {told:.4} replayed");
            assert!((real - told).abs() <= 0.02, "{memory}: {real}, replayed {told}");
        }
    }
}

/// The last thread to release the page cache ends the record. All threads are awaited, including
/// ones delayed by strace.
#[test]
fn a_record_is_whole_however_late_a_thread_is() {
    let test = "a_record_is_whole_however_late_a_thread_is";
    if !has("strace", test) {
        return;
    }
    let here = folder();
    std::fs::write(here.path().join("a"), noise(1 << 20, 9)).unwrap();
    for turn in 0..5 {
        let late = "inject=set_robust_list:delay_exit=200000";
        let mut strace = Command::new("strace");
        strace.args(["-f", "-b", "execve", "-o", "/dev/null", "-e", "trace=set_robust_list"]);
        strace.args(["-e", late]).arg(pagetide()).args(["run", "--memory", "8M"]);
        strace.args(["--record", "t.ptt", "--", "sh", "-c", "cp a b && cat a >/dev/null"]);
        assert!(strace.current_dir(here.path()).status().unwrap().success());
        let mut replay = Command::new(pagetide());
        replay.args(["replay", "t.ptt", "--memory", "8M", "--policy", "lru", "--json"]);
        let output = replay.current_dir(here.path()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!said.contains("has no end"), "turn {turn}: {said}");
    }
}

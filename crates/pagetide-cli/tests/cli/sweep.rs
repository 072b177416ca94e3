//! `sweep`: the numbers of `replay`, kept after a kill and shared by shards.

use crate::run::{run, skewed, stderr};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn traces(folder: &Path, nr_traces: u32) -> PathBuf {
    let traces = folder.join("traces");
    for nth in 0..nr_traces {
        let group = traces.join(if nth % 2 == 0 { "even" } else { "odd" });
        fs::create_dir_all(&group).expect("a folder");
        let made = skewed(folder, 30_000 + 1000 * u64::from(nth), 3000 + nth);
        fs::rename(made, group.join(format!("{nth}.txt"))).expect("one file system");
    }
    traces
}

fn arguments<'a>(traces: &'a Path, out: &'a Path) -> Vec<&'a str> {
    let text = |path: &'a Path| path.to_str().expect("a plain name");
    let asked = ["--policy", "lru,sieve,opt", "--memory", "1M,10%", "--out"];
    [&["sweep", text(traces)], &asked[..], &[text(out)]].concat()
}

fn json(output: &Output) -> Value {
    assert!(output.status.success(), "{}", stderr(output));
    serde_json::from_slice(&output.stdout).expect("one document")
}

/// Returns all rows, without fields that differ between runs.
fn rows(out: &Path) -> Vec<String> {
    let folder = PathBuf::from(format!("{}.rows", out.display()));
    let entries = fs::read_dir(folder).expect("a folder");
    let lines = entries.flat_map(|entry| {
        let text = fs::read_to_string(entry.expect("an entry").path()).expect("lines");
        text.lines().map(str::to_owned).collect::<Vec<_>>()
    });
    let mut rows: Vec<String> = lines
        .filter_map(|line| {
            let mut line: Value = serde_json::from_str(&line).ok()?;
            line["row"]["numbers"].as_object_mut()?.remove("seconds");
            Some(line.to_string())
        })
        .collect();
    rows.sort();
    rows
}

#[test]
fn a_sweep_has_the_numbers_of_replay_and_says_which_policy_won() {
    let dir = tempfile::tempdir().expect("a folder");
    let (traces, out) = (traces(dir.path(), 2), dir.path().join("results.parquet"));
    let swept = json(&run(&[&arguments(&traces, &out)[..], &["--json"]].concat()));
    assert_eq!((&swept["traces"], &swept["cells"]), (&2.into(), &12.into()));
    assert_eq!(swept["rows"].as_array().map(Vec::len), Some(6), "{swept}");
    assert!(fs::read(&out).expect("the table").starts_with(b"PAR1"));

    let trace = traces.join("even/0.txt");
    let replay = ["replay", trace.to_str().expect("a name"), "--memory", "1M", "--json"];
    let replayed = json(&run(&[&replay[..], &["--policy", "lru,sieve,opt"]].concat()));
    for row in replayed["rows"].as_array().expect("rows") {
        let numbers = format!("\"misses\":{},", row["misses"]);
        let policy = format!("\"policy\":{}", row["policy"]);
        let same = rows(&out).iter().any(|it| it.contains(&numbers) && it.contains(&policy));
        assert!(same, "{row} is not among {:#?}", rows(&out));
    }
    let text = run(&arguments(&traces, &out));
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(text.contains("2 traces, 12 rows\n") && text.contains("\nall "), "{text}");
}

#[test]
fn a_killed_sweep_goes_on_and_shards_are_the_same_rows() {
    let dir = tempfile::tempdir().expect("a folder");
    let traces = traces(dir.path(), 8);
    let [whole, killed, shared] =
        ["whole", "killed", "shared"].map(|name| dir.path().join(format!("{name}.parquet")));
    json(&run(&[&arguments(&traces, &whole)[..], &["--json"]].concat()));
    assert_eq!(rows(&whole).len(), 8 * 6);

    let mut child = Command::new(env!("CARGO_BIN_EXE_pagetide"))
        .args(arguments(&traces, &killed))
        .spawn()
        .expect("it starts");
    // Wait for some rows or the end.
    let folder = PathBuf::from(format!("{}.rows", killed.display()));
    while !folder.exists() && child.try_wait().expect("a child").is_none() {
        std::thread::yield_now();
    }
    child.kill().expect("a child");
    child.wait().expect("a child");
    for again in ["after the kill", "once more"] {
        json(&run(&[&arguments(&traces, &killed)[..], &["--json"]].concat()));
        assert_eq!(rows(&killed), rows(&whole), "{again}");
    }

    for shard in ["1/2", "2/2"] {
        let output = run(&[&arguments(&traces, &shared)[..], &["--shard", shard]].concat());
        assert!(output.status.success() && !shared.exists(), "{}", stderr(&output));
    }
    json(&run(&[&arguments(&traces, &shared)[..], &["--json"]].concat()));
    assert_eq!(rows(&shared), rows(&whole));
    assert!(shared.exists());
}

#[test]
fn what_cannot_be_swept_is_said_before_or_in_its_row() {
    let dir = tempfile::tempdir().expect("a folder");
    let out = dir.path().join("results.parquet");
    let absent = dir.path().join("absent.csv");
    let output = run(&arguments(&absent, &out));
    assert!(output.status.success(), "{}", stderr(&output));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("failed: ") && text.contains("No such file"), "{text}");
    for wrong in [["--shard", "3/2"], ["--memory", "0%"], ["--policy", "fastest"]] {
        let output = run(&[&arguments(&absent, &out)[..], &wrong].concat());
        assert_eq!(output.status.code(), Some(2), "{wrong:?}: {}", stderr(&output));
    }
    let piped = run(&arguments(Path::new("-"), &out));
    assert!(stderr(&piped).contains("not from standard input"), "{}", stderr(&piped));
    let nowhere = dir.path().join("no/where.parquet");
    assert!(stderr(&run(&arguments(&absent, &nowhere))).contains("cannot write the table"));
}

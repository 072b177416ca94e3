//! Shared helpers: running the command, and finding its leftovers.

use crate::schema::check;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

pub(crate) fn pagetide() -> Command {
    Command::new(env!("CARGO_BIN_EXE_pagetide"))
}

pub(crate) fn run(args: &[&str]) -> Output {
    pagetide().args(args).output().expect("the binary runs")
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Runs the command, which must succeed, and parses its document.
pub(crate) fn document(args: &[&str]) -> Value {
    let output = run(args);
    assert_eq!(output.status.code(), Some(0), "{args:?}: {}", stderr(&output));
    let document = serde_json::from_slice(&output.stdout).expect("one JSON document");
    check(&document);
    document
}

pub(crate) fn rows_of(args: &[&str]) -> Value {
    document(args)["rows"].take()
}

/// Makes a trace with hot low pages.
pub(crate) fn skewed(dir: &Path, nr_uses: u64, nr_pages: u32) -> PathBuf {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let line = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let share = (state >> 11) as f64 / (1_u64 << 53) as f64;
        format!("{}\n", (share * share * share * f64::from(nr_pages)) as u64)
    };
    let path = dir.join("skewed.trace");
    std::fs::write(&path, (0..nr_uses).map(line).collect::<String>()).expect("room");
    path
}

pub(crate) fn left_in(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).expect("the folder is there");
    entries
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect()
}

pub(crate) fn cgroups_of(pid: u32) -> Vec<String> {
    let find = Command::new("find")
        .args([
            "/sys/fs/cgroup",
            "-maxdepth",
            "6",
            "-type",
            "d",
            "-name",
            &format!("pagetide-{pid}-*"),
        ])
        .output()
        .expect("find runs");
    stdout(&find).lines().map(str::to_owned).collect()
}

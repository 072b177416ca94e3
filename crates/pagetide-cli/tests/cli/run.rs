//! What the tests of the command share: running it, and looking for what it left behind.

use std::path::Path;
use std::process::{Command, Output};

/// The command under test.
pub(crate) fn pagetide() -> Command {
    Command::new(env!("CARGO_BIN_EXE_pagetide"))
}

/// Runs the command with `args` to its end.
pub(crate) fn run(args: &[&str]) -> Output {
    pagetide().args(args).output().expect("the binary runs")
}

/// What the command said on stderr.
pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// What the command said on stdout.
pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Names in `dir` that a run left behind.
pub(crate) fn left_in(dir: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(dir).expect("the folder is there");
    entries
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect()
}

/// Memory cgroups of process `pid` that are still there.
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

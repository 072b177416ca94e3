//! Real programs under `pagetide run`: the same output and files as natively.
//!
//! Missing programs are skipped with a message.

mod agents;
mod as_without;
mod auto;
mod bad_luck;
mod broken_disk;
mod call_table;
mod closed_terminals;
mod coherence;
mod containers;
mod coverage;
mod data_packages;
#[path = "../../../pagetide/tests/common/failing_disk.rs"]
mod failing_disk;
mod filesystems;
mod full_table;
mod killed_writes;
mod limit;
mod locks;
mod lost_sockets;
mod many_opens;
mod mapped;
mod mapped_memory;
mod new_files;
mod odd_programs;
mod processes;
mod programs;
mod quiet;
mod raw_programs;
mod refused;
mod resident;
mod room;
mod schedules;
mod seccomp;
mod servers;
mod signals;
mod simulation;
mod sizing;
mod small_files;
mod sqlite_mixtures;
mod stopped_readers;
mod suites;
mod users;
mod windows;
mod worlds;

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Output};
use tempfile::TempDir;

fn pagetide() -> &'static Path {
    wait_for_execs();
    Path::new(env!("CARGO_BIN_EXE_pagetide"))
}

/// A child between fork and exec holds copies of open descriptors, and a file that is open for
/// writing anywhere is the kernel's.
fn wait_for_execs() {
    let own = std::fs::read_link("/proc/self/exe").ok();
    let is_before_exec =
        |child: &str| own.is_some() && std::fs::read_link(format!("/proc/{child}/exe")).ok() == own;
    let has_some = || {
        let threads = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
        let children = threads.map(|one| std::fs::read_to_string(one.path().join("children")));
        children.flatten().any(|line| line.split_whitespace().any(is_before_exec))
    };
    let begun = std::time::Instant::now();
    while has_some() && begun.elapsed().as_secs() < 60 {
        std::thread::yield_now();
    }
}

/// Makes a folder on the disk, not in memory.
fn folder() -> TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn run_in<S: AsRef<OsStr>>(folder: &Path, memory: &str, command: &[S]) -> Output {
    let mut run = Command::new(pagetide());
    run.args(["run", "--memory", memory, "--"]).args(command);
    run.current_dir(folder).output().unwrap()
}

/// As [`run_in`], with options and the summary.
fn run_counted(
    folder: &Path,
    memory: &str,
    options: &[&str],
    command: &[&str],
) -> (Output, serde_json::Value) {
    let mut run = Command::new(pagetide());
    run.args(["run", "--memory", memory, "--json", "summary.json"]).args(options).arg("--");
    let output = run.args(command).current_dir(folder).output().unwrap();
    (output, summary_in(&folder.join("summary.json")))
}

/// Runs a Python script that succeeds. Returns the summary.
fn python_counted(
    folder: &Path,
    memory: &str,
    options: &[&str],
    script: &str,
) -> serde_json::Value {
    let (output, summary) = run_counted(folder, memory, options, &["python3", "-c", script]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    summary
}

fn summary_in(path: &Path) -> serde_json::Value {
    let mut document: serde_json::Value =
        serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    assert_eq!(document["schema"], "pagetide.run/1");
    document["rows"][0].take()
}

/// Returns stdout of a line that must succeed.
fn shell_in(folder: &Path, memory: &str, line: &str) -> String {
    let output = run_in(folder, memory, &["sh", "-c", line]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{line}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// As [`shell_in`], natively.
fn plain_shell_in(folder: &Path, line: &str) -> String {
    let output = Command::new("sh").args(["-c", line]).current_dir(folder).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{line}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// Runs a script that must end with "ok".
fn python_in(folder: &Path, memory: &str, script: &str) {
    std::fs::write(folder.join("children.py"), include_str!("children.py")).unwrap();
    std::fs::write(folder.join("script.py"), script).unwrap();
    let output = run_in(folder, memory, &["python3", "script.py"]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "ok\n", "{memory}: {errors}");
}

/// Prints a skip message. `cargo x check --install` installs all programs.
fn has(program: &str, test: &str) -> bool {
    let look = format!("PATH=$PATH:/usr/sbin command -v {program}");
    let found = Command::new("sh").args(["-c", &look]).output();
    let is_there = found.is_ok_and(|output| output.status.success());
    if !is_there {
        eprintln!("SKIPPED: {test}: {program} is not installed (cargo x check --install)");
    }
    is_there
}

/// Returns true for `cargo x check --long`.
fn is_long() -> bool {
    std::env::var_os("PAGETIDE_LONG").is_some_and(|value| value == "1")
}

/// Returns linear congruential bytes.
fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed;
    let next = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as u8
    };
    std::iter::repeat_with(next).take(len).collect()
}

fn script(name: &str) -> String {
    let here = folder();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/run").join(name);
    let mut command = Command::new(agents::python());
    let output = command.arg(script).arg(pagetide()).arg(here.path()).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    eprintln!("{errors}");
    assert!(output.status.success(), "{errors}");
    String::from_utf8(output.stdout).unwrap()
}

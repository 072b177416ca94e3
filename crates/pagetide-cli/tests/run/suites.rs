//! Third-party test suites: a failure in a run must also occur natively.

use super::agents::python;
use super::mapped::is_served;
use super::{folder, has, is_long, pagetide, plain_shell_in, run_counted};
use std::collections::BTreeSet;
use std::process::{Command, Output};

/// Suites on files.
const SUITES: [&str; 12] = [
    "test_fileio",
    "test_tempfile",
    "test_subprocess",
    "test_io",
    "test_os",
    "test_multiprocessing_spawn",
    "test_shutil",
    "test_zipfile",
    "test_tarfile",
    "test_sqlite3",
    "test_mmap",
    "test_posix",
];

/// `SUITES` without the classes that repeat a class, and without a class of `SYSTEM_SUITES_SHORT`.
const SUITES_SHORT: [&str; 3] = ["test_fileio", "test_tempfile", "test_subprocess.ProcessTestCase"];

/// Suites of the calls that `run` intercepts.
const SYSTEM_SUITES: [&str; 5] =
    ["test_fcntl", "test_mmap", "test_os", "test_signal", "test_subprocess"];

/// `SYSTEM_SUITES` without classes that mostly wait.
const SYSTEM_SUITES_SHORT: [&str; 6] = [
    "test_fcntl",
    "test_mmap",
    "test_os",
    "test_signal.PosixTests",
    "test_signal.PendingSignalsTests",
    "test_subprocess.POSIXProcessTestCase",
];

/// Returns the newest interpreter with its own tests.
fn tested_python(test: &str) -> Option<String> {
    let begins = |name: &String| {
        let output = Command::new(name).args(["-c", "import test.test_fileio"]).output();
        output.is_ok_and(|output| output.status.success())
    };
    let numbered = (8..20).rev().map(|minor| format!("python3.{minor}"));
    let given = std::env::var("PAGETIDE_TESTED_PYTHON").ok();
    let found = given.into_iter().chain(numbered).chain([python().to_owned()]).find(begins);
    if found.is_none() {
        eprintln!("SKIPPED: {test}: no python3 has its tests (libpython3.11-testsuite)");
    }
    found
}

fn failures(output: &Output) -> (BTreeSet<String>, String) {
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    let is_failure = |line: &&str| line.starts_with("FAIL: ") || line.starts_with("ERROR: ");
    let failed = text.lines().filter(is_failure).map(str::to_owned).collect();
    (failed, text)
}

/// Requires the same failed tests natively.
fn check_suites(test: &str, mmap: &str, suites: &[&str]) {
    if !has("python3", test) || (mmap == "cache" && !is_served(folder().path(), test)) {
        return;
    }
    let Some(python) = tested_python(test) else { return };
    for suite in suites {
        // Some tests need several files, but one run suffices.
        let words = [&python, "-m", "unittest", "-v", &format!("test.{suite}")];
        let ours = folder();
        let (output, _) = run_counted(ours.path(), "16M", &["--mmap", mmap], &words);
        let (failed, text) = failures(&output);
        let ran = text.lines().any(|line| line.starts_with("Ran "));
        if output.status.success() && ran {
            continue;
        }
        let theirs = folder();
        let plain = Command::new(&python).args(&words[1..]).current_dir(theirs.path()).output();
        let (expected, _) = failures(&plain.unwrap());
        let new: Vec<&String> = failed.difference(&expected).collect();
        assert!(ran && new.is_empty(), "{} {mmap} {suite}: {new:?}\n{text}", pagetide().display());
    }
}

#[test]
fn pythons_own_tests_fail_where_they_fail_without_us() {
    let suites = if is_long() { &SUITES[..] } else { &SUITES_SHORT };
    check_suites("pythons_own_tests_fail_where_they_fail_without_us", "kernel", suites);
}

fn system_suites() -> &'static [&'static str] {
    if is_long() { &SYSTEM_SUITES } else { &SYSTEM_SUITES_SHORT }
}

#[test]
fn pythons_tests_of_system_calls_pass_as_they_do_without_us() {
    let test = "pythons_tests_of_system_calls_pass_as_they_do_without_us";
    check_suites(test, "kernel", system_suites());
}

#[test]
fn pythons_tests_of_system_calls_pass_with_served_mappings() {
    let test = "pythons_tests_of_system_calls_pass_with_served_mappings";
    check_suites(test, "cache", system_suites());
}

/// An fsx-like test.
#[test]
fn random_operations_leave_what_they_leave_in_memory() {
    let test = "random_operations_leave_what_they_leave_in_memory";
    if !has("gcc", test) {
        return;
    }
    let here = folder();
    std::fs::write(here.path().join("fsx.c"), include_str!("fsx.c")).unwrap();
    plain_shell_in(here.path(), "gcc -O1 -w fsx.c -o fsx");
    let (nr_seeds, steps) = if is_long() { (100, "20000") } else { (2, "1000") };
    for seed in 1..=nr_seeds {
        let seed = seed.to_string();
        for (memory, processes) in [("256K", "1"), ("256K", "3"), ("8M", "1"), ("8M", "3")] {
            for kinds in ["calls", "mapped", "served"] {
                if kinds == "served" && !is_served(here.path(), test) {
                    continue;
                }
                let words = ["./fsx", "f", &seed, steps, processes, kinds];
                let (output, counts) = match kinds {
                    "served" => run_counted(here.path(), memory, &["--mmap", "cache"], &words),
                    _ => run_counted(here.path(), memory, &[], &words),
                };
                let printed = String::from_utf8_lossy(&output.stdout);
                let errors = String::from_utf8_lossy(&output.stderr);
                assert_eq!(printed, "ok\n", "{words:?} with {memory}: {errors}");
                // The other kind's file becomes the kernel's.
                assert!(kinds == "mapped" || counts["accesses"].as_u64() > Some(0), "{words:?}");
            }
        }
    }
}

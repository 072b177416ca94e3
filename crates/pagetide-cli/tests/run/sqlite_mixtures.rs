//! One database with writers inside, outside, in two runs, and in a nested run.

use super::agents::python;
use super::mapped::is_served;
use super::{folder, has, is_long, pagetide, plain_shell_in};
use std::process::{Child, Command};

fn run() -> Vec<&'static str> {
    vec![pagetide().to_str().unwrap(), "run", "--memory", "1M", "--"]
}

fn run_with_maps() -> Vec<&'static str> {
    vec![pagetide().to_str().unwrap(), "run", "--memory", "1M", "--mmap", "cache", "--"]
}

/// Starts two writers, or four under shells. `mode` is a journal mode and an optional mapping size:
/// `wal 1000000`.
fn write_all(test: &str, mode: &str, mixture: &[Vec<&str>], is_forked: bool) {
    if !has("python3", test) {
        return;
    }
    let here = folder();
    std::fs::write(here.path().join("rows.py"), include_str!("rows.py")).unwrap();
    let nr_rows = if is_long() { 3000 } else { 200 };
    let begin = |(number, words): (usize, &Vec<&str>)| -> Child {
        let writer = |name: String| format!("{} rows.py {name} {nr_rows} {mode}", python());
        let second =
            format!("& {}; second=$?; wait $! && exit $second", writer(format!("{number}b")));
        let line = writer(format!("{number}a")) + if is_forked { &second } else { "" };
        let mut words = words.iter().copied().chain(["sh", "-c", &line]);
        let mut command = Command::new(words.next().unwrap());
        command.args(words).current_dir(here.path()).spawn().unwrap()
    };
    let writers: Vec<Child> = mixture.iter().enumerate().map(begin).collect();
    for mut writer in writers {
        assert!(writer.wait().unwrap().success());
    }
    let check = "import sqlite3; rows = sqlite3.connect('rows.db'); \
                 print(*rows.execute('pragma integrity_check').fetchone(), \
                 *rows.execute('select count(*), count(distinct who || nr) from t').fetchone())";
    let seen = plain_shell_in(here.path(), &format!("{} -c \"{check}\"", python()));
    let nr_all = mixture.len() * nr_rows * if is_forked { 2 } else { 1 };
    assert_eq!(seen.trim(), format!("ok {nr_all} {nr_all}"));
}

/// Opens the database outside while a run holds its locks.
fn take_turns(test: &str, mmap: &str) {
    if !has("python3", test) || (mmap == "cache" && !is_served(folder().path(), test)) {
        return;
    }
    let nr_rounds = if is_long() { "100" } else { "6" };
    for mode in ["delete", "wal"] {
        let here = folder();
        std::fs::write(here.path().join("turns.py"), include_str!("sqlite_turns.py")).unwrap();
        let mut driver = Command::new(python());
        driver.args(["turns.py", mode, nr_rounds]).arg(pagetide());
        driver.args(["run", "--memory", "1M", "--mmap", mmap, "--"]).current_dir(here.path());
        let output = driver.output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(String::from_utf8_lossy(&output.stdout), "ok\n", "{mmap} {mode}: {errors}");
    }
}

#[test]
fn a_mapped_database_is_locked_for_writers_outside() {
    take_turns("a_mapped_database_is_locked_for_writers_outside", "kernel");
}

#[test]
fn a_database_with_served_mappings_is_locked_for_writers_outside() {
    take_turns("a_database_with_served_mappings_is_locked_for_writers_outside", "cache");
}

macro_rules! mixtures {
    ($($test:ident = $mode:literal, $mixture:expr, $is_forked:literal;)+) => {
        $(
            #[test]
            fn $test() {
                write_all(stringify!($test), $mode, &$mixture, $is_forked);
            }
        )+
    };
}

mixtures! {
    inside_and_outside_with_a_journal = "delete", [run(), vec![]], false;
    inside_and_outside_with_a_log = "wal", [run(), vec![]], false;
    two_runs_with_a_journal = "delete", [run(), run()], false;
    two_runs_with_a_log = "wal", [run(), run()], false;
    inside_only_with_a_journal = "delete", [run()], true;
    inside_only_with_a_truncated_journal = "truncate", [run()], true;
    inside_only_with_a_log = "wal", [run()], true;
    many_everywhere_with_a_kept_journal = "persist", [run(), run(), vec![]], true;
    mapped_inside_and_outside_with_a_journal = "delete 1000000000", [run(), vec![]], true;
    mapped_inside_and_outside_with_a_log = "wal 1000000000", [run(), vec![]], true;
    served_maps_and_outside_with_a_journal = "delete 1000000000", [run_with_maps(), vec![]], true;
    served_maps_and_outside_with_a_log = "wal 1000000000", [run_with_maps(), vec![]], true;
    served_maps_in_two_runs_with_a_kept_journal =
        "persist 1000000000", [run_with_maps(), run_with_maps()], true;
}

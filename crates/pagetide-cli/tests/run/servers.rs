//! Large programs: a database server under load, a compiler with its driver.

use super::mapped::is_served;
use super::{folder, has, is_long, pagetide, plain_shell_in, run_counted};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// Runs a script that must succeed.
fn script_in(folder: &Path, memory: &str, script: &str, arguments: &[&str]) -> (String, Value) {
    std::fs::write(folder.join("script.sh"), script).unwrap();
    let (output, summary) =
        run_counted(folder, memory, &[], &[&["sh", "script.sh"], arguments].concat());
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    (String::from_utf8(output.stdout).unwrap(), summary)
}

#[test]
fn a_database_server_keeps_its_tables_under_a_load() {
    let test = "a_database_server_keeps_its_tables_under_a_load";
    for program in ["mariadbd", "mariadb-install-db", "mariadb", "mariadb-check", "sysbench"] {
        if !has(program, test) {
            return;
        }
    }
    let here = folder();
    let (load, memory) =
        if is_long() { (["4", "20000", "100000"], "64M") } else { (["2", "100", "2000"], "16M") };
    let (printed, summary) = script_in(here.path(), memory, include_str!("mariadb.sh"), &load);
    let lines: Vec<&str> = printed.lines().collect();
    for (line, table) in lines.iter().zip(["t.sbtest1", "t.sbtest2"]) {
        assert!(line.starts_with(table) && line.ends_with(" OK"), "{printed}");
    }
    assert!(lines[2].contains(&format!(" {} ", load[1])), "{printed}");
    assert_eq!(lines[3..], ["2"], "clean ends: {printed}");
    let count = |name: &str| summary[name].as_u64().unwrap();
    assert!(count("accesses") > 10_000, "{summary}");
    assert!(count("resident_bytes_max") <= count("memory_bytes"), "{summary}");
}

#[test]
fn cargo_builds_and_tests_a_crate() {
    if !has("cargo", "cargo_builds_and_tests_a_crate") {
        return;
    }
    let here = folder();
    let (printed, _) = script_in(here.path(), "4M", include_str!("cargo.sh"), &[]);
    assert_eq!(printed, "42\n1\n24\n");
}

/// Returns words that switch the user, because PostgreSQL refuses root. Returns nothing with a
/// message if PostgreSQL is not installed.
fn postgres_words(here: &Path, test: &str) -> Option<Vec<&'static str>> {
    let found = "PATH=$PATH:$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | tail -n 1); \
                 for name in initdb pgbench postgres psql; do command -v $name; done | wc -l; \
                 id -u";
    let seen = plain_shell_in(Path::new("/"), found);
    let lines: Vec<&str> = seen.lines().collect();
    if lines[0] != "4" {
        eprintln!("SKIPPED: {test}: PostgreSQL is not installed (apt-get install postgresql)");
        return None;
    }
    if lines[1] != "0" {
        return Some(vec!["env"]);
    }
    if !has("setpriv", test) {
        return None;
    }
    plain_shell_in(here, "chown -R 65534 .");
    Some(vec!["setpriv", "--reuid=65534", "--clear-groups", "env"])
}

#[test]
fn a_database_server_that_is_killed_keeps_what_was_committed() {
    let test = "a_database_server_that_is_killed_keeps_what_was_committed";
    let here = folder();
    std::fs::write(here.path().join("postgres.sh"), include_str!("postgres.sh")).unwrap();
    let Some(words) = postgres_words(here.path(), test) else { return };
    let mut run = Command::new(words[0]);
    let (load, memory) =
        if is_long() { (["20", "2000", "10"], "64M") } else { (["2", "50", "1"], "16M") };
    run.args(&words[1..]).arg(pagetide());
    run.args(["run", "--memory", memory, "--", "sh", "postgres.sh"]).args(load);
    let output = run.current_dir(here.path()).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "t|t|t\nt\n", "{errors}");
}

/// Tables are equal after a restart, and the server's own tool finds no wrong checksum.
#[test]
fn a_database_servers_tables_are_those_of_a_native_run() {
    let test = "a_database_servers_tables_are_those_of_a_native_run";
    let (load, memory) = if is_long() { (["20", "20000"], "64M") } else { (["1", "300"], "4M") };
    let mut printed = Vec::new();
    for mode in ["native", "kernel", "cache"] {
        let here = folder();
        let script = include_str!("postgres_compared.sh");
        std::fs::write(here.path().join("load.sh"), script).unwrap();
        let Some(words) = postgres_words(here.path(), test) else { return };
        if mode == "cache" && !is_served(here.path(), test) {
            continue;
        }
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).current_dir(here.path());
        if mode != "native" {
            command.arg(pagetide()).args(["run", "--memory", memory, "--mmap", mode, "--"]);
        }
        let output = command.args(["sh", "load.sh"]).args(load).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{mode}: {errors}");
        let check = "PATH=$PATH:$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | tail -n 1); \
                     pg_checksums --check --pgdata=data | grep 'Bad checksums'";
        assert_eq!(plain_shell_in(here.path(), check), "Bad checksums:  0\n", "{mode}");
        printed.push((mode, String::from_utf8(output.stdout).unwrap()));
    }
    let expected = &printed[0].1;
    assert_eq!(expected.lines().count(), 4, "{expected}");
    for (mode, tables) in &printed[1..] {
        assert_eq!(tables, expected, "{mode}");
    }
}

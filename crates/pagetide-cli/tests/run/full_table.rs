//! A program with a full table of descriptors: what works natively works under a run, and the
//! program has as many descriptors as its limit says.

use super::{folder, has, pagetide};
use std::path::{Path, PathBuf};
use std::process::Command;

fn program_in(here: &Path) -> PathBuf {
    std::fs::write(here.join("full_table.c"), include_str!("full_table.c")).unwrap();
    let program = here.join("full_table");
    let mut compile = Command::new("gcc");
    compile.args(["-O1", "-w", "-pthread", "-o"]).arg(&program).arg("full_table.c");
    assert!(compile.current_dir(here).status().unwrap().success());
    program
}

/// What the program prints natively, or in a run with these options.
fn printed(program: &Path, arguments: &[&str], options: Option<&[&str]>) -> String {
    let here = folder();
    let mut command = match options {
        None => Command::new(program),
        Some(options) => {
            let mut run = Command::new(pagetide());
            run.args(["run", "--quiet", "--memory", "4M"]).args(options).arg("--").arg(program);
            run
        }
    };
    let output = command.args(arguments).current_dir(here.path()).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?} {options:?}: {}, {errors}", output.status);
    String::from_utf8(output.stdout).unwrap()
}

/// The program prints the same in all three worlds.
fn is_the_same(test: &str, all: &[&[&str]]) {
    if !has("gcc", test) {
        return;
    }
    let here = folder();
    let program = program_in(here.path());
    for arguments in all {
        let kernel = printed(&program, arguments, None);
        for options in [&[][..], &["--mmap", "cache"][..]] {
            let run = printed(&program, arguments, Some(options));
            let first = kernel.lines().zip(run.lines()).find(|(kernel, run)| kernel != run);
            assert_eq!(first, None, "{arguments:?} {options:?}");
            assert_eq!(kernel, run, "{arguments:?} {options:?}");
        }
    }
}

#[test]
fn a_program_opens_locks_and_maps_as_many_files_as_natively() {
    let test = "a_program_opens_locks_and_maps_as_many_files_as_natively";
    let kinds = ["open", "lock", "map", "flock"];
    let soft = kinds.map(|kind| [kind, "128", "1000"]);
    let hard = kinds.map(|kind| [kind, "128", "128"]);
    let all: Vec<&[&str]> = soft.iter().chain(&hard).map(|one| &one[..]).collect();
    is_the_same(test, &all);
}

#[test]
fn every_call_works_with_a_full_table_of_descriptors() {
    let test = "every_call_works_with_a_full_table_of_descriptors";
    let threads = ["calls", "256", "256", "0", "threads"];
    is_the_same(test, &[&["calls", "256", "1000"], &["calls", "256", "256"], &threads]);
}

#[test]
fn every_call_works_with_more_descriptors_than_the_limit() {
    let test = "every_call_works_with_more_descriptors_than_the_limit";
    is_the_same(
        test,
        &[&["calls", "256", "256", "50"], &["calls", "256", "1000", "60", "threads"]],
    );
}

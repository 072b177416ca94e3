//! Programs that filter their system calls: their files are the kernel's before, and the library
//! makes no call that the filter forbids.

use super::{folder, has, pagetide};
use std::path::{Path, PathBuf};
use std::process::Command;

fn program_in(here: &Path) -> PathBuf {
    std::fs::write(here.join("seccomp.c"), include_str!("seccomp.c")).unwrap();
    let program = here.join("seccomp");
    let mut compile = Command::new("gcc");
    compile.args(["-O1", "-w", "-pthread", "-o"]).arg(&program).arg("seccomp.c");
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
    if !cfg!(target_arch = "x86_64") {
        eprintln!("SKIPPED: {test}: the filter allows calls of x86-64");
        return;
    }
    if !has("gcc", test) {
        return;
    }
    let here = folder();
    let program = program_in(here.path());
    for arguments in all {
        let kernel = printed(&program, arguments, None);
        assert!(kernel.contains("status 0\n") || kernel.contains("status 400\n"), "{kernel}");
        for options in [&[][..], &["--mmap", "cache"][..]] {
            assert_eq!(
                kernel,
                printed(&program, arguments, Some(options)),
                "{arguments:?} {options:?}"
            );
        }
    }
}

#[test]
fn a_program_in_strict_mode_reads_and_writes_its_files() {
    let test = "a_program_in_strict_mode_reads_and_writes_its_files";
    is_the_same(test, &[&["strict", "kill"], &["strict-number", "kill"]]);
}

#[test]
fn a_program_with_a_filter_uses_the_files_that_it_has_open() {
    let test = "a_program_with_a_filter_uses_the_files_that_it_has_open";
    let all =
        [["prctl", "kill"], ["prctl-number", "kill"], ["seccomp", "kill"], ["seccomp", "errno"]];
    is_the_same(test, &all.each_ref().map(|one| &one[..]));
}

#[test]
fn a_filter_of_all_threads_finds_none_that_asks_for_more() {
    let test = "a_filter_of_all_threads_finds_none_that_asks_for_more";
    is_the_same(test, &[&["threads", "kill"], &["threads", "errno"]]);
}

#[test]
fn programs_that_inherit_a_filter_run_as_natively() {
    is_the_same("programs_that_inherit_a_filter_run_as_natively", &[&["program"]]);
}

//! Programs with system call filters: their files go to the kernel first, and the library makes no
//! forbidden call.

use super::worlds::{compiled, printed_in_each};

fn is_the_same(test: &str, all: &[&[&str]]) {
    if !cfg!(target_arch = "x86_64") {
        eprintln!("SKIPPED: {test}: the filter allows calls of x86-64");
        return;
    }
    let Some(here) = compiled(include_str!("seccomp.c"), "-w -pthread", test) else { return };
    for arguments in all {
        let kernel = printed_in_each(&here.path().join("compiled"), arguments);
        assert!(kernel.contains("status 0\n") || kernel.contains("status 400\n"), "{kernel}");
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

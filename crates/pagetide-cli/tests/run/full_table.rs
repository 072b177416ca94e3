//! A program with a full descriptor table: works as natively, with as many descriptors as its
//! limit.

use super::worlds::{compiled, printed_in_each};

fn is_the_same(test: &str, all: &[&[&str]]) {
    let Some(here) = compiled(include_str!("full_table.c"), "-w -pthread", test) else { return };
    for arguments in all {
        printed_in_each(&here.path().join("compiled"), arguments);
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

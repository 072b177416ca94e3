//! Runs the examples, which check themselves.

#[path = "../../examples/groups.rs"]
mod groups;
#[path = "../../examples/hash_map_in_a_region.rs"]
mod hash_map_in_a_region;
#[path = "../../examples/page_cache.rs"]
mod page_cache;
#[path = "../../examples/prefix_cache.rs"]
mod prefix_cache;
#[path = "../../examples/region.rs"]
mod region;
#[path = "../../examples/sort_larger_than_memory.rs"]
mod sort_larger_than_memory;
#[path = "../../examples/warm_restart.rs"]
mod warm_restart;

use crate::common::skip;
use pagetide::CreateRegionError;

#[test]
fn a_page_cache_runs() {
    page_cache::main().unwrap();
}

#[test]
fn groups_run() {
    groups::main().unwrap();
}

#[test]
fn a_prefix_cache_runs() {
    prefix_cache::main().unwrap();
}

#[test]
fn a_warm_restart_runs() {
    warm_restart::main().unwrap();
}

#[test]
fn a_region_runs() {
    check("a_region_runs", region::main());
}

#[test]
fn a_sort_larger_than_memory_runs() {
    check("a_sort_larger_than_memory_runs", sort_larger_than_memory::main());
}

#[test]
fn a_hash_map_in_a_region_runs() {
    check("a_hash_map_in_a_region_runs", hash_map_in_a_region::main());
}

/// Skips examples if regions are not available.
fn check(test: &str, ended: Result<(), Box<dyn std::error::Error>>) {
    let Err(error) = ended else { return };
    match error.downcast_ref() {
        Some(CreateRegionError::Memory(why)) => skip(test, &why.to_string()),
        _ => panic!("{error}"),
    }
}

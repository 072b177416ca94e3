//! What the examples promise in their assertions, held: each runs as it is.

mod common;
#[path = "../examples/groups.rs"]
mod groups;
#[path = "../examples/page_cache.rs"]
mod page_cache;
#[path = "../examples/region.rs"]
mod region;

use common::skip;
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
fn a_region_runs() {
    let Err(error) = region::main() else { return };
    match error.downcast_ref() {
        Some(CreateRegionError::Memory(why)) => skip("a_region_runs", &why.to_string()),
        _ => panic!("{error}"),
    }
}

//! Most integration tests in one program, to save compile time.
//!
//! Tests that count resources of the process, change its limits, or watch its allocator are
//! separate programs in the folder above.

#[path = "../common/mod.rs"]
mod common;

mod bad_input;
mod broken_disk;
mod cursor;
mod enospc;
mod examples;
mod faults;
mod foreign;
mod generations;
mod group_room;
mod groups;
mod guard_calls;
mod guards;
mod kill;
mod one_pass;
mod open_files;
mod page_cache;
mod pins;
mod power_loss;
mod read_into;
mod region_full;
mod region_owned;
mod region_signal;
mod region_tiers;
mod shared;
mod sizing;
mod stress;
mod tier_resize;
mod tiers;
mod warm;

//! Most integration tests, in one program to save compile and link time.

#[path = "../support/records.rs"]
mod records;
#[path = "../support/mod.rs"]
mod support;
#[path = "../support/synthetic.rs"]
mod synthetic;

mod baseline_twins;
mod equal_questions;
mod frames_kept_free;
mod golden;
mod golden_policies;
mod pagetide;
mod replay;
mod scan_prefetch;
mod sizing;
mod table_walks;

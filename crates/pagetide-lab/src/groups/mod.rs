//! Several memory groups in one memory, in virtual time: which loses pages to which.
//!
//! # Problem
//!
//! A [`replay`](crate::replay) has one tenant and one limit. What limits and protection do for
//! several shows only where they compete: a stream beside a working set, equals of different size,
//! a group that is full of what cannot leave.
//!
//! # Idea
//!
//! ```text
//!   access(group, page) --charge, refault, log--> core's Groups
//!       |            <---- victims, shadows -----
//!       +-- page words, frames: plain maps             counts by group: accesses,
//!                                                      misses, evictions
//! ```
//!
//! [`GroupsWorld`] does for core what the page cache would: it charges first, reclaims for the
//! group that is named, then looks for a frame, and reclaims from all groups if there is none. It
//! decides nothing. The [`plays`](play_out_of_memory) are short runs that answer one question each.
//!
//! # Data and invariants
//!
//! The same calls give the same counts, always. Resident pages are the root's usage, and with the
//! free frames the memory ([`GroupsWorld::validate`]).
//!
//! # What it deliberately ignores
//!
//! Time, threads, dirty pages, and traces: groups are driven access by access. Background reclaim
//! runs when it is called. Page tables are one vector of young bits, walked whole.
//!
//! # Sources
//!
//! The multi-gen LRU specification, sections 6, 10 and 15; the kernel's documented control group
//! v2.

mod plays;
mod world;

pub use plays::{
    Fairness, OutOfMemory, SiblingProtection, play_fairness, play_out_of_memory,
    play_sibling_protection,
};
pub use world::{AccessOutcome, GroupCounts, GroupsSetup, GroupsWorld};

//! The decisions of Pagetide.
//!
//! Memory is smaller than the data. This crate decides which pages stay, which frame a page gets,
//! and when to look for more; it never touches a byte of memory, a file, a thread or a clock. Two
//! worlds act on what it says: the `pagetide` crate on real files, the lab in virtual time. The
//! same decisions run in both, and a recorded run replayed in the lab ends the same.
//!
//! Not inside: I/O, locks, unsafe code, floating point, randomness of its own. Time, CPU ids and
//! seeds are arguments.
#![no_std]
#![forbid(unsafe_code)]
#![deny(clippy::float_arithmetic)]

extern crate alloc;

pub mod autosize;
pub mod driver;
pub mod folio;
pub mod group;
pub mod ids;
mod key_table;
pub mod knobs;
pub mod list;
pub mod lru;
mod named;
pub mod page_alloc;
pub mod readahead;
pub mod reclaim;
pub mod record;
pub mod sizing;
pub mod tiering;
pub mod units;
pub mod vmstat;
pub mod writeback;

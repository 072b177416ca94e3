//! The decisions of Pagetide.
//!
//! This crate decides on pages to keep, frames to use and reclaim to start, without access to
//! memory, files, threads or clocks. Two worlds act on it: the `pagetide` crate on real files, the
//! lab in virtual time. A recorded run replays in the lab with the same result.
//!
//! Not inside: I/O, locks, unsafe code, floating point, randomness. Time, CPU ids and seeds are
//! arguments.
#![no_std]
#![forbid(unsafe_code)]
#![deny(clippy::float_arithmetic)]

extern crate alloc;

pub mod autosize;
pub mod driver;
pub mod extents;
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

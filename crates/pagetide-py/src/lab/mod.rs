//! The lab: replays, curves and sweeps, the compiled half of `pagetide.replay` and so on.
//!
//! ```text
//!   a path, or arrays of pages --> source --> replay: cells --> rows
//!                                        `--> curve:  sizes, cells --> points
//!   names and paths --------------> sweep: journal, crew --> rows, standings, Parquet
//! ```
//!
//! Rows are tuples in the field order of Python's dataclasses. Work runs on other threads, while
//! the caller's thread checks for Ctrl-C.

mod curve;
mod pages;
mod replays;
mod source;
mod sweep;
mod watch;

pub(crate) use curve::mrc;
pub(crate) use pages::{frames_of, read_pages};
pub(crate) use replays::replay;
pub(crate) use sweep::{Plan, in_shard, run_unit};

use crate::errors::parse;
use pagetide_lab::replay::Contender;
use pyo3::prelude::*;

fn contenders(names: &[String]) -> PyResult<Vec<Contender>> {
    names.iter().map(|name| parse("policy", name)).collect()
}

//! The lab: replays, curves and sweeps, as the compiled half of `pagetide.replay` and the others.
//!
//! ```text
//!   a path, or arrays of pages --> source --> replay: cells --> rows
//!                                        `--> curve:  sizes, cells --> points
//!   names and paths --------------> sweep: journal, crew --> rows, standings, Parquet
//! ```
//!
//! Rows are tuples in the order of the fields of Python's dataclasses. All of it runs on threads
//! beside the caller's, which looks for Ctrl-C meanwhile.

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

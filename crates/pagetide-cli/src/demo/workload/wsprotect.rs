//! A working set beside a stream: how much of the set survives.
//!
//! Problem: a file larger than memory, read once through, leaves a plain LRU with nothing but its
//! own last part, which is not read again.
//!
//! ```text
//!   set      [####]  read 5 times
//!   stream   [------------------------------------------->  longer than memory, 10 times
//!   then: pages of the set still resident / pages of the set = protected_ratio
//! ```
//!
//! Data: `protected_ratio` after the streams, and `protected_ratio_before` them (1 when the set
//! was cached to begin with); null where that cannot be counted.
//!
//! Ignored: reading the set again while the stream runs; surviving unused is the point.
//! Source: the 2013 thrash-detection patches, "wsprotect".

use super::{Harness, measurements_of};
use crate::demo::measure::{Client, HitSampling, Measurements};
use crate::demo::plan::{SET_FILE, STREAM_FILE};
use crate::demo::subject::OpenMode;
use crate::failure::Failure;
use serde_json::{Map, json};

/// Passes over the set.
const SET_PASSES: u32 = 5;
/// Passes over the stream.
const STREAM_PASSES: u32 = 10;

pub(super) fn run(harness: &Harness<'_>) -> Result<Measurements, Failure> {
    let start = harness.begin()?;
    let mut client = Client::new(harness.hits, HitSampling::Never);
    let (set_data, stream_data) = (harness.data(SET_FILE), harness.data(STREAM_FILE));
    let set = harness.open(set_data, OpenMode::Read)?;
    let stream = harness.open(stream_data, OpenMode::Read)?;
    let resident_ratio = || {
        let resident = set.resident_pages(0, set_data.len())?;
        Some(resident as f64 / set_data.nr_pages as f64)
    };
    for _ in 0..SET_PASSES {
        harness.read_through(&mut client, set.as_ref(), set_data)?;
    }
    let before = resident_ratio();
    for pass in 1..=STREAM_PASSES {
        harness.read_through(&mut client, stream.as_ref(), stream_data)?;
        harness.set_done(f64::from(pass) / f64::from(STREAM_PASSES));
    }
    let mut detail = Map::new();
    detail.insert("protected_ratio".into(), json!(resident_ratio()));
    detail.insert("protected_ratio_before".into(), json!(before));
    Ok(measurements_of(client, start, detail))
}

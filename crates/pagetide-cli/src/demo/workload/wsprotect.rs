//! A working set beside a stream: the surviving share of the set.
//!
//! ```text
//!   set      [####]  read 5 times
//!   stream   [------------------------------------------->  longer than memory, 10 times
//!   then: pages of the set still resident / pages of the set = protected_ratio
//! ```
//!
//! Data: `protected_ratio` after the streams, and `protected_ratio_before` them (1 if the whole set
//! was cached), null if unknown. The set is not read during the stream.
//!
//! Source: the 2013 thrash-detection patches, "wsprotect".

use super::{Harness, measurements_of};
use crate::demo::measure::{Client, HitSampling, Measurements};
use crate::demo::plan::{SET_FILE, STREAM_FILE};
use crate::demo::subject::OpenMode;
use crate::failure::Failure;
use serde_json::{Map, json};

const SET_PASSES: u32 = 5;
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

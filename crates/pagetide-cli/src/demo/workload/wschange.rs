//! A changing working set: reads until the new set is kept.
//!
//! Problem: protection of frequently used pages may keep a new working set out forever.
//!
//! ```text
//!   memory   [##########################################]
//!   data-1   [###############################]             read repeatedly until a pass reads
//!   data-2   [###############################]             nothing from the device; then 2 more
//!   data-3   [###############################]             passes; then the next file; 2 rounds
//! ```
//!
//! Data: `reads_until_cached`, a list per round with an entry per file: the number of the first
//! pass without a device read (at best 2), null if none up to the cap.
//!
//! Source: the 2013 thrash-detection patches, "wschange".

use super::{Harness, measurements_of};
use crate::dataset::DataFile;
use crate::demo::measure::{Client, HitSampling, Measurements};
use crate::demo::plan::CHANGE_FILES;
use crate::demo::subject::{MeasuredFile, OpenMode};
use crate::failure::Failure;
use serde_json::{Map, json};

pub(crate) const PASSES_MAX: u32 = 12;
/// Passes that mark a cached file as used.
const EXTRA_PASSES: u32 = 2;
const ROUNDS: usize = 2;

pub(super) fn run(harness: &Harness<'_>) -> Result<Measurements, Failure> {
    let start = harness.begin()?;
    let mut client = Client::new(harness.hits, HitSampling::Never);
    let data: Vec<&DataFile> = CHANGE_FILES.iter().map(|name| harness.data(name)).collect();
    let files = data
        .iter()
        .map(|data| harness.open(data, OpenMode::Read))
        .collect::<Result<Vec<_>, _>>()?;
    let mut rounds = Vec::new();
    let mut nr_done = 0;
    for _ in 0..ROUNDS {
        let mut reads = Vec::new();
        for (file, data) in files.iter().zip(&data) {
            reads.push(read_until_cached(harness, &mut client, file.as_ref(), data)?);
            for _ in 0..EXTRA_PASSES {
                harness.read_through(&mut client, file.as_ref(), data)?;
            }
            nr_done += 1;
            harness.set_done(f64::from(nr_done) / (ROUNDS * CHANGE_FILES.len()) as f64);
        }
        rounds.push(reads);
    }
    let mut detail = Map::new();
    detail.insert("reads_until_cached".into(), json!(rounds));
    detail.insert("passes_max".into(), json!(PASSES_MAX));
    Ok(measurements_of(client, start, detail))
}

/// Returns `None` after [`PASSES_MAX`].
fn read_until_cached(
    harness: &Harness<'_>,
    client: &mut Client<'_>,
    file: &dyn MeasuredFile,
    data: &DataFile,
) -> Result<Option<u32>, Failure> {
    for pass in 1..=PASSES_MAX {
        let before = harness.subject.read_device_read_bytes();
        harness.read_through(client, file, data)?;
        if harness.subject.read_device_read_bytes() == before {
            return Ok(Some(pass));
        }
    }
    Ok(None)
}

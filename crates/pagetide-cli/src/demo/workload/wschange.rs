//! The working set changes: how many reads until the new one is kept.
//!
//! Problem: a cache that protects what was used often may never let a new working set in (before
//! refault detection the kernel read the second file from disk thirty times, then gave up).
//!
//! ```text
//!   memory   [##########################################]
//!   data-1   [###############################]             read, read, ... until a pass reads
//!   data-2   [###############################]             nothing from the device; then 2 more
//!   data-3   [###############################]             passes; then the next file; 2 rounds
//! ```
//!
//! Data: `reads_until_cached`, a list per round, an entry per file: the number of the first pass
//! that read nothing from the device (2 is the best there is: one to fill, one to find), null when
//! no pass up to the cap did.
//!
//! Ignored: warming up; the first file of the first round meets an empty cache, as in the source.
//! Source: the 2013 thrash-detection patches, "wschange".

use super::{Stage, tally_of};
use crate::dataset::DataFile;
use crate::demo::measure::{Lane, Looking, Tally};
use crate::demo::plan::CHANGE_FILES;
use crate::demo::subject::{Access, SubjectFile};
use crate::failure::Failure;
use serde_json::{Map, json};

/// Passes after which a file counts as never cached.
pub(crate) const PASSES_MAX: u32 = 12;
/// Passes over a file once it is cached, so that it counts as used.
const EXTRA_PASSES: u32 = 2;
/// Rounds over the files.
const ROUNDS: usize = 2;

pub(super) fn run(stage: &Stage<'_>) -> Result<Tally, Failure> {
    let start = stage.begin()?;
    let mut lane = Lane::new(stage.hits, Looking::Never);
    let data: Vec<&DataFile> = CHANGE_FILES.iter().map(|name| stage.data(name)).collect();
    let files =
        data.iter().map(|data| stage.open(data, Access::Read)).collect::<Result<Vec<_>, _>>()?;
    let mut rounds = Vec::new();
    let mut nr_done = 0;
    for _ in 0..ROUNDS {
        let mut reads = Vec::new();
        for (file, data) in files.iter().zip(&data) {
            reads.push(read_until_cached(stage, &mut lane, file.as_ref(), data)?);
            for _ in 0..EXTRA_PASSES {
                stage.read_through(&mut lane, file.as_ref(), data)?;
            }
            nr_done += 1;
            stage.set_done(f64::from(nr_done) / (ROUNDS * CHANGE_FILES.len()) as f64);
        }
        rounds.push(reads);
    }
    let mut detail = Map::new();
    detail.insert("reads_until_cached".into(), json!(rounds));
    detail.insert("passes_max".into(), json!(PASSES_MAX));
    Ok(tally_of(lane, start, detail))
}

/// Passes until one reads nothing from the device; `None` after [`PASSES_MAX`].
fn read_until_cached(
    stage: &Stage<'_>,
    lane: &mut Lane<'_>,
    file: &dyn SubjectFile,
    data: &DataFile,
) -> Result<Option<u32>, Failure> {
    for pass in 1..=PASSES_MAX {
        let before = stage.subject.read_device_read_bytes();
        stage.read_through(lane, file, data)?;
        if stage.subject.read_device_read_bytes() == before {
            return Ok(Some(pass));
        }
    }
    Ok(None)
}

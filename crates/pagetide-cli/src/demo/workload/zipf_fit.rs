//! Zipf reads of what fits: nothing misses for long, so what counts is where memory is fast.
//!
//! ```text
//!   memory   [ fast |           slow         ]
//!   fit      [...............................]   0.8x memory, zipf 0.99, shuffled
//! ```
//!
//! The file is read through once, which fills memory in the order of pages; random reads follow.
//! Source: our own; the skew is YCSB's.

use super::Stage;
use crate::demo::measure::{LOOK_EVERY, Lane, Looking, Tally};
use crate::demo::plan::FIT_FILE;
use crate::demo::subject::Access;
use crate::failure::Failure;
use crate::pages::Skew;
use pagetide_core::units::PAGE_BYTES;

/// Skew of the reads.
const ZIPF_EXPONENT: f64 = 0.99;

pub(super) fn run(stage: &Stage<'_>) -> Result<Tally, Failure> {
    let data = stage.data(FIT_FILE);
    let file = stage.open(data, Access::Read)?;
    let pickers = stage.pickers(data.nr_pages, Skew::Zipf(ZIPF_EXPONENT));
    let states = pickers.map(|picker| (picker, vec![0; PAGE_BYTES])).collect();
    stage.begin()?;
    let mut filling = Lane::new(stage.hits, Looking::Every(LOOK_EVERY));
    stage.read_through(&mut filling, file.as_ref(), data)?;
    stage.run_timed(states, |(picker, buffer), lane| {
        let index = u64::from(picker.pick());
        let end = lane.read(file.as_ref(), data, index, buffer)?;
        lane.check(data, index, 0, buffer)?;
        Ok(end)
    })
}

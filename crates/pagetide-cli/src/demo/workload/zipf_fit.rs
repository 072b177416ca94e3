//! Zipf reads of a file that fits in memory, for the placement in tiers.
//!
//! ```text
//!   memory   [ fast |           slow         ]
//!   fit      [...............................]   0.8x memory, zipf 0.99, shuffled
//! ```
//!
//! One pass fills memory in file order before the random reads. Source: the skew is YCSB's.

use super::Harness;
use crate::demo::measure::{Client, HitSampling, LOOK_EVERY, Measurements};
use crate::demo::plan::FIT_FILE;
use crate::demo::subject::OpenMode;
use crate::failure::Failure;
use crate::pages::Skew;
use pagetide_core::units::PAGE_BYTES;

const ZIPF_EXPONENT: f64 = 0.99;

pub(super) fn run(harness: &Harness<'_>) -> Result<Measurements, Failure> {
    let data = harness.data(FIT_FILE);
    let file = harness.open(data, OpenMode::Read)?;
    let pickers = harness.pickers(data.nr_pages, Skew::Zipf(ZIPF_EXPONENT));
    let states = pickers.map(|picker| (picker, vec![0; PAGE_BYTES])).collect();
    harness.begin()?;
    let mut filling = Client::new(harness.hits, HitSampling::Every(LOOK_EVERY));
    harness.read_through(&mut filling, file.as_ref(), data)?;
    harness.run_timed(states, |(picker, buffer), client| {
        let index = u64::from(picker.pick());
        let end = client.read(file.as_ref(), data, index, buffer)?;
        client.check(data, index, 0, buffer)?;
        Ok(end)
    })
}

//! Uniform random reads: nothing to learn, so the cost of a miss counts.
//!
//! ```text
//!   memory   [############]
//!   big      [.................................]   2.75x memory, uniform: at best
//!                                                  1/2.75 = 36 % can hit
//! ```
//!
//! Readers are `--threads` blocking threads, instead of the source's 72 jobs and io_uring queues.
//! Source: the MGLRU cover letter's fio run, 99 GiB of files under a 36 GiB limit.

use super::Harness;
use crate::demo::measure::Measurements;
use crate::demo::plan::{BIG_FILE, share_pages};
use crate::demo::subject::OpenMode;
use crate::failure::Failure;
use crate::pages::Skew;
use pagetide_core::units::PAGE_BYTES;

/// Hundredths of the memory limit.
const COVER: u64 = 275;

pub(super) fn run(harness: &Harness<'_>) -> Result<Measurements, Failure> {
    let data = harness.data(BIG_FILE);
    let file = harness.open(data, OpenMode::Read)?;
    let nr_pages = share_pages(harness.memory, COVER).min(data.nr_pages);
    let pickers = harness.pickers(nr_pages, Skew::Uniform);
    let states = pickers.map(|picker| (picker, vec![0; PAGE_BYTES])).collect();
    harness.begin()?;
    harness.run_timed(states, |(picker, buffer), client| {
        let index = u64::from(picker.pick());
        let end = client.read(file.as_ref(), data, index, buffer)?;
        client.check(data, index, 0, buffer)?;
        Ok(end)
    })
}

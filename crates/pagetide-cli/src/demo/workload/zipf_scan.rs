//! Skewed random reads with a scan beside them: does the hot set survive a backup?
//!
//! ```text
//!   readers   4 KiB, zipf 0.99 over `big` (4x memory)          counted: latency, hits, operations
//!   scanner   64 KiB calls over data-1, data-2, data-3, again  beside: only its speed is told
//! ```
//!
//! Data: the row is the readers' alone; `detail.scan_bytes_per_s` says how hard the scan pushed.
//! One of `--threads` scans, the others read (at least one).
//!
//! Ignored: advice. A scan that says it is one (`Advice::NoReuse`) is an easier problem.

use super::{SEQUENTIAL_BYTES, Stage, Tally};
use crate::demo::dataset::DataFile;
use crate::demo::measure::{HitCounts, Lane, Looking};
use crate::demo::plan::{BIG_FILE, CHANGE_FILES};
use crate::demo::subject::Access;
use crate::failure::Failure;
use crate::pages::{PagePicker, Shuffle, Skew};
use pagetide_core::units::{Bytes, PAGE_BYTES};
use serde_json::json;
use std::sync::atomic::{AtomicBool, Ordering};

/// Skew of the readers.
const ZIPF_EXPONENT: f64 = 0.99;

pub(super) fn run(stage: &Stage<'_>) -> Result<Tally, Failure> {
    let data = stage.data(BIG_FILE);
    let file = stage.open(data, Access::Read)?;
    let shuffle = Shuffle::new(u32::try_from(data.nr_pages).unwrap_or(u32::MAX), stage.seed);
    let nr_readers = u64::from(stage.nr_threads.saturating_sub(1).max(1));
    let states = (0..nr_readers)
        .map(|thread| {
            let skew = Skew::Zipf(ZIPF_EXPONENT);
            (PagePicker::new(&shuffle, skew, stage.seed ^ (thread + 1)), vec![0; PAGE_BYTES])
        })
        .collect();
    let is_over = AtomicBool::new(false);
    stage.begin()?;
    let (tally, scanned) = std::thread::scope(|scope| {
        let scanner = scope.spawn(|| scan_until(stage, &is_over));
        let tally = stage.run_timed(states, |(picker, buffer), lane| {
            let index = u64::from(picker.pick());
            let end = lane.read(file.as_ref(), data, index, buffer)?;
            lane.check(data, index, 0, buffer)?;
            Ok(end)
        });
        is_over.store(true, Ordering::Relaxed);
        (tally, scanner.join().expect("the scanner does not panic"))
    });
    let (mut tally, scanned) = (tally?, scanned?);
    let scan_speed = scanned as f64 / tally.elapsed.as_secs_f64();
    tally.detail.insert("scan_bytes_per_s".into(), json!(scan_speed.round()));
    Ok(tally)
}

/// Reads the scan's files over and over; returns the bytes read once `is_over`.
fn scan_until(stage: &Stage<'_>, is_over: &AtomicBool) -> Result<u64, Failure> {
    let beside = HitCounts::default();
    let mut lane = Lane::new(&beside, Looking::Never);
    let data: Vec<&DataFile> = CHANGE_FILES.iter().map(|name| stage.data(name)).collect();
    let files =
        data.iter().map(|data| stage.open(data, Access::Read)).collect::<Result<Vec<_>, _>>()?;
    let mut buffer = vec![0; SEQUENTIAL_BYTES];
    let mut bytes = 0;
    for (file, data) in files.iter().zip(data).cycle() {
        let mut index = 0;
        while index < data.nr_pages {
            if is_over.load(Ordering::Relaxed) || stage.interrupt.is_set() {
                return Ok(bytes);
            }
            let nr_pages = (data.nr_pages - index).min(Bytes(buffer.len() as u64).whole_pages());
            let part = &mut buffer[..nr_pages as usize * PAGE_BYTES];
            lane.read(file.as_ref(), data, index, part)?;
            lane.check(data, index, 0, part)?;
            index += nr_pages;
            bytes += part.len() as u64;
        }
    }
    Ok(bytes)
}

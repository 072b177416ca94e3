//! Skewed random reads with a concurrent scan.
//!
//! Problem: an independent scan thread would run faster under a policy that keeps its pages, so
//! each subject would get another load. Idea: each read is followed by one call of the scan, 16
//! scan pages per page read.
//!
//! ```text
//!   reader 1   4 KiB, zipf 0.99 over `big` (4x memory)   r   r   r   r     counted: latency, hits
//!                                                         \   \   \   \
//!   the scan   64 KiB calls over data-1, data-2, data-3    S   S   S   S   over and over
//!                                                         /   /   /   /
//!   reader 2                                             r   r   r   r
//! ```
//!
//! Data: latency, hits and operations count only reads. Their time includes the scan, reported in
//! `detail.scan_bytes_per_s`. All readers share one scan. The accesses are deterministic with one
//! thread. More threads change only their order.
//!
//! Ignored: advice (`Advice::NoReuse`), which makes the problem easier.

use super::{Harness, SEQUENTIAL_BYTES};
use crate::dataset::DataFile;
use crate::demo::measure::{Client, HitCounts, HitSampling, Measurements};
use crate::demo::plan::{BIG_FILE, CHANGE_FILES};
use crate::demo::subject::{MeasuredFile, OpenMode};
use crate::failure::Failure;
use crate::pages::Skew;
use pagetide_core::units::{Bytes, PAGE_BYTES};
use serde_json::json;
use std::sync::{Mutex, PoisonError};

const ZIPF_EXPONENT: f64 = 0.99;

pub(super) fn run(harness: &Harness<'_>) -> Result<Measurements, Failure> {
    let data = harness.data(BIG_FILE);
    let file = harness.open(data, OpenMode::Read)?;
    let pickers = harness.pickers(data.nr_pages, Skew::Zipf(ZIPF_EXPONENT));
    let states = pickers.map(|picker| (picker, vec![0; PAGE_BYTES])).collect();
    let beside = HitCounts::default();
    let scan = Mutex::new(Scan::new(harness, &beside)?);
    harness.begin()?;
    let mut measured = harness.run_timed(states, |(picker, buffer), client| {
        let index = u64::from(picker.pick());
        let end = client.read(file.as_ref(), data, index, buffer)?;
        client.check(data, index, 0, buffer)?;
        scan.lock().unwrap_or_else(PoisonError::into_inner).read_on()?;
        Ok(end)
    })?;
    let scanned = scan.into_inner().unwrap_or_else(PoisonError::into_inner).bytes;
    let scan_speed = scanned as f64 / measured.elapsed.as_secs_f64();
    measured.detail.insert("scan_bytes_per_s".into(), json!(scan_speed.round()));
    Ok(measured)
}

/// Reads files cyclically.
struct Scan<'a> {
    files: Vec<(&'a DataFile, Box<dyn MeasuredFile>)>,
    client: Client<'a>,
    buffer: Vec<u8>,
    /// The current file and page.
    nth: usize,
    index: u64,
    bytes: u64,
}

impl<'a> Scan<'a> {
    fn new(harness: &'a Harness<'a>, beside: &'a HitCounts) -> Result<Scan<'a>, Failure> {
        let open = |name: &&str| {
            let data = harness.data(name);
            Ok((data, harness.open(data, OpenMode::Read)?))
        };
        Ok(Scan {
            files: CHANGE_FILES.iter().map(open).collect::<Result<Vec<_>, Failure>>()?,
            client: Client::new(beside, HitSampling::Never),
            buffer: vec![0; SEQUENTIAL_BYTES],
            nth: 0,
            index: 0,
            bytes: 0,
        })
    }

    fn read_on(&mut self) -> Result<(), Failure> {
        let (data, file) = &self.files[self.nth];
        let nr_pages =
            (data.nr_pages - self.index).min(Bytes(self.buffer.len() as u64).whole_pages());
        let part = &mut self.buffer[..nr_pages as usize * PAGE_BYTES];
        self.client.read(file.as_ref(), data, self.index, part)?;
        self.client.check(data, self.index, 0, part)?;
        self.index += nr_pages;
        self.bytes += part.len() as u64;
        if self.index == data.nr_pages {
            (self.nth, self.index) = ((self.nth + 1) % self.files.len(), 0);
        }
        Ok(())
    }
}

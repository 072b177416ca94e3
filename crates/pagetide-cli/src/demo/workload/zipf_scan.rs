//! Skewed random reads with a scan beside them: does the hot set survive a backup?
//!
//! Problem: were the scan a thread that reads as fast as it can, a policy that keeps the scan's
//! pages would speed it up, and push its own reads out by that: each subject would be given another
//! job.
//! Idea: a call for a call. Each read of a reader is followed by one call of the scan, so sixteen
//! of its pages go with each page that is read, whatever the subject makes of them.
//!
//! ```text
//!   reader 1   4 KiB, zipf 0.99 over `big` (4x memory)   r   r   r   r     counted: latency, hits
//!                                                         \   \   \   \
//!   the scan   64 KiB calls over data-1, data-2, data-3    S   S   S   S   over and over
//!                                                         /   /   /   /
//!   reader 2                                             r   r   r   r
//! ```
//!
//! Data: latency and hits are of the reads alone, and so is the number of operations; their time
//! is of both, and `detail.scan_bytes_per_s` is the scan's share. There is one scan, and every
//! reader moves it on: with one thread every subject sees the same accesses, with several the
//! order in which they come to it differs, and the numbers do not.
//!
//! Ignored: advice. A scan that says it is one (`Advice::NoReuse`) is an easier problem.

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

/// Skew of the readers.
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

/// One reader of files, from start to end, over and over.
struct Scan<'a> {
    files: Vec<(&'a DataFile, Box<dyn MeasuredFile>)>,
    client: Client<'a>,
    buffer: Vec<u8>,
    /// Which file it is at, and which page of it.
    nth: usize,
    index: u64,
    /// Read so far.
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

    /// One call.
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

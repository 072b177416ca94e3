//! The jobs that subjects are given, and the harness they are played on.
//!
//! Problem: each subject must get exactly the same job. Idea: a workload is a function of a harness
//! (a subject, files of known content, a limit, a seed), and knows neither which subject it drives
//! nor what is measured meanwhile.
//!
//! ```text
//!   wschange   sequential   a working set that changes: how many reads until the new one is kept
//!   wsprotect  sequential   a working set beside a stream: how much of it survives
//!   zipf-scan  random       skewed reads beside a scan
//!   uniform    random       nothing to learn: the cost of a miss
//!   oltp       random       skewed reads and writes with syncs, every byte verified at the end
//!   zipf-fit   random       skewed reads of what fits: for tiers of memory
//! ```
//!
//! Data: [`Harness`], shared by the threads of a run; [`Measurements`], what a run leaves.

mod oltp;
mod uniform;
mod wschange;
mod wsprotect;
mod zipf_bare;
mod zipf_fit;
mod zipf_scan;

use super::measure::{Client, HitCounts, HitSampling, LOOK_EVERY, Measurements, nanoseconds};
use super::plan::Workload;
use super::subject::{MeasuredCache, MeasuredFile, OpenMode};
use crate::cgroup::GroupHandle;
use crate::dataset::DataFile;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::pages::{PagePicker, Shuffle, Skew};
use hdrhistogram::Histogram;
use pagetide_core::units::{Bytes, PAGE_BYTES};
use serde_json::{Map, Value};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Bytes in one sequential read.
pub(crate) const SEQUENTIAL_BYTES: usize = 64 << 10;
/// What a workload is played on.
pub(crate) struct Harness<'a> {
    /// The cache under measurement.
    pub(crate) subject: &'a dyn MeasuredCache,
    /// Its limit, on which all sizes depend.
    pub(crate) memory: Bytes,
    /// The plan's files, those of [`Workload::file_names`].
    pub(crate) files: &'a [DataFile],
    /// How long timed workloads run.
    pub(crate) duration: Duration,
    /// Threads of random access.
    pub(crate) nr_threads: u32,
    /// Where all randomness comes from.
    pub(crate) seed: u64,
    /// Hits seen by the clients that count.
    pub(crate) hits: &'a HitCounts,
    /// Thousandths of the job that are done.
    pub(crate) done: &'a AtomicU64,
    /// Ctrl-C.
    pub(crate) interrupt: &'a Interrupt,
    /// The cgroup to be in while playing.
    pub(crate) group: Option<&'a GroupHandle>,
    /// Whether the workload has begun.
    pub(crate) is_begun: AtomicBool,
}

/// Plays `workload` on `harness`.
///
/// # Errors
/// A failed or wrong read or write, or an interrupt.
pub(crate) fn run(workload: Workload, harness: &Harness<'_>) -> Result<Measurements, Failure> {
    let measured = match workload {
        Workload::WsChange => wschange::run(harness),
        Workload::WsProtect => wsprotect::run(harness),
        Workload::ZipfScan => zipf_scan::run(harness),
        Workload::Uniform => uniform::run(harness),
        Workload::Oltp => oltp::run(harness),
        Workload::ZipfFit => zipf_fit::run(harness),
        Workload::ZipfBare => zipf_bare::run(harness),
    }?;
    assert!(
        harness.is_begun.load(Ordering::Relaxed),
        "a workload that never begins plays without a limit"
    );
    Ok(measured)
}

impl Harness<'_> {
    /// Pages read so far and how many were hits; `device_read_bytes` since the start.
    pub(crate) fn load_hits(&self, workload: Workload, device_read_bytes: u64) -> (u64, u64) {
        if workload.is_timed() {
            self.hits.load()
        } else {
            self.hits.load_with_device(device_read_bytes)
        }
    }

    /// Joins the cgroup, and says when the clock starts. Every workload calls it once, when its own
    /// tables are made: what is charged before stays outside, so the limit is for the page cache.
    fn begin(&self) -> Result<Instant, Failure> {
        if let Some(group) = self.group {
            group.join().map_err(|error| Failure::on("join the memory cgroup", &error))?;
        }
        self.is_begun.store(true, Ordering::Relaxed);
        Ok(Instant::now())
    }

    /// The plan's file named `name`.
    fn data(&self, name: &str) -> &DataFile {
        let found = self.files.iter().find(|file| file.path.ends_with(name));
        found.expect("the plan makes the files that the workload names")
    }

    fn open(&self, data: &DataFile, access: OpenMode) -> Result<Box<dyn MeasuredFile>, Failure> {
        self.subject
            .open(&data.path, access)
            .map_err(|error| Failure::on_path("open", &data.path, &error))
    }

    /// Says that `share` of the job is done.
    fn set_done(&self, share: f64) {
        self.done.store((share * 1000.0) as u64, Ordering::Relaxed);
    }

    /// A picker of the first `nr_pages` pages of a file for each thread: one shuffle, a seed each.
    fn pickers(&self, nr_pages: u64, skew: Skew) -> impl Iterator<Item = PagePicker> {
        let shuffle = Shuffle::new(u32::try_from(nr_pages).unwrap_or(u32::MAX), self.seed);
        let seed = self.seed;
        (1..=u64::from(self.nr_threads))
            .map(move |thread| PagePicker::new(&shuffle, skew, seed ^ thread))
    }

    /// Reads `data` once from start to end.
    fn read_through(
        &self,
        client: &mut Client<'_>,
        file: &dyn MeasuredFile,
        data: &DataFile,
    ) -> Result<(), Failure> {
        let mut buffer = vec![0; SEQUENTIAL_BYTES];
        let mut index = 0;
        while index < data.nr_pages {
            self.interrupt.check()?;
            let nr_pages = (data.nr_pages - index).min((SEQUENTIAL_BYTES / PAGE_BYTES) as u64);
            let part = &mut buffer[..nr_pages as usize * PAGE_BYTES];
            client.read(file, data, index, part)?;
            client.check(data, index, 0, part)?;
            index += nr_pages;
        }
        Ok(())
    }

    /// Runs `operate` again and again on each of `nr_threads` clients until the time is over.
    ///
    /// The workload has begun. `operate` gets its client, and returns when its operation ended.
    fn run_timed<S: Send>(
        &self,
        states: Vec<S>,
        operate: impl Fn(&mut S, &mut Client<'_>) -> Result<Instant, Failure> + Sync,
    ) -> Result<Measurements, Failure> {
        let start = Instant::now();
        let client_main = |mut state: S, is_first: bool| {
            let mut client = Client::new(self.hits, HitSampling::Every(LOOK_EVERY));
            loop {
                self.interrupt.check()?;
                let elapsed = operate(&mut state, &mut client)? - start;
                if is_first {
                    self.set_done(elapsed.as_secs_f64() / self.duration.as_secs_f64());
                }
                if elapsed >= self.duration {
                    return Ok(client.into_histogram());
                }
            }
        };
        let client_main = &client_main;
        let histograms: Vec<Result<Histogram<u64>, Failure>> = std::thread::scope(|scope| {
            let clients: Vec<_> = (0..)
                .zip(states)
                .map(|(number, state)| scope.spawn(move || client_main(state, number == 0)))
                .collect();
            clients
                .into_iter()
                .map(|client| client.join().expect("a client does not panic"))
                .collect()
        });
        let elapsed = start.elapsed();
        let histograms = histograms.into_iter().collect::<Result<Vec<_>, _>>()?;
        Ok(Measurements { histogram: merge(histograms), elapsed, detail: Map::new() })
    }
}

/// All clients' latencies as one.
fn merge(histograms: Vec<Histogram<u64>>) -> Histogram<u64> {
    let merged = histograms.into_iter().reduce(|mut total, client| {
        total.add(client).expect("clients have the same bounds");
        total
    });
    merged.expect("a workload has a client")
}

/// The measurements of a workload that ran on one client from `start` on.
fn measurements_of(client: Client<'_>, start: Instant, detail: Map<String, Value>) -> Measurements {
    Measurements { histogram: client.into_histogram(), elapsed: start.elapsed(), detail }
}

/// Microseconds, for details.
fn microseconds(duration: Duration) -> f64 {
    nanoseconds(duration) as f64 / 1000.0
}

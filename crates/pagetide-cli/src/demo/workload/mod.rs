//! The workloads, and the harness that plays them, independent of the subject.
//!
//! ```text
//!   wschange   sequential   a changing working set: reads until the new set is kept
//!   wsprotect  sequential   a working set beside a stream: how much survives
//!   zipf-scan  random       skewed reads beside a scan
//!   uniform    random       nothing to learn: the cost of a miss
//!   oltp       random       skewed reads and writes with syncs, every byte verified at the end
//!   zipf-fit   random       skewed reads that fit in memory, for tiers
//! ```

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

pub(crate) const SEQUENTIAL_BYTES: usize = 64 << 10;
pub(crate) struct Harness<'a> {
    pub(crate) subject: &'a dyn MeasuredCache,
    /// The limit, the base of all sizes.
    pub(crate) memory: Bytes,
    pub(crate) files: &'a [DataFile],
    /// The duration of timed workloads.
    pub(crate) duration: Duration,
    /// Threads with random access.
    pub(crate) nr_threads: u32,
    pub(crate) seed: u64,
    pub(crate) hits: &'a HitCounts,
    /// Thousandths.
    pub(crate) done: &'a AtomicU64,
    pub(crate) interrupt: &'a Interrupt,
    /// The cgroup to join while playing.
    pub(crate) group: Option<&'a GroupHandle>,
    pub(crate) is_begun: AtomicBool,
}

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
    /// Returns (pages, hits), with `device_read_bytes` since the start.
    pub(crate) fn load_hits(&self, workload: Workload, device_read_bytes: u64) -> (u64, u64) {
        if workload.is_timed() {
            self.hits.load()
        } else {
            self.hits.load_with_device(device_read_bytes)
        }
    }

    /// Joins the cgroup and returns the start time. Called after the workload has made its tables,
    /// so that the limit holds only page cache.
    fn begin(&self) -> Result<Instant, Failure> {
        if let Some(group) = self.group {
            group.join().map_err(|error| Failure::on("join the memory cgroup", &error))?;
        }
        self.is_begun.store(true, Ordering::Relaxed);
        Ok(Instant::now())
    }

    fn data(&self, name: &str) -> &DataFile {
        let found = self.files.iter().find(|file| file.path.ends_with(name));
        found.expect("the plan makes the files that the workload names")
    }

    fn open(&self, data: &DataFile, access: OpenMode) -> Result<Box<dyn MeasuredFile>, Failure> {
        self.subject
            .open(&data.path, access)
            .map_err(|error| Failure::on_path("open", &data.path, &error))
    }

    fn set_done(&self, share: f64) {
        self.done.store((share * 1000.0) as u64, Ordering::Relaxed);
    }

    /// Makes a picker per thread: a common shuffle, different seeds.
    fn pickers(&self, nr_pages: u64, skew: Skew) -> impl Iterator<Item = PagePicker> {
        let shuffle = Shuffle::new(u32::try_from(nr_pages).unwrap_or(u32::MAX), self.seed);
        let seed = self.seed;
        (1..=u64::from(self.nr_threads))
            .map(move |thread| PagePicker::new(&shuffle, skew, seed ^ thread))
    }

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

    /// Calls `operate`, which returns its end time, until the duration is over.
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

fn merge(histograms: Vec<Histogram<u64>>) -> Histogram<u64> {
    let merged = histograms.into_iter().reduce(|mut total, client| {
        total.add(client).expect("clients have the same bounds");
        total
    });
    merged.expect("a workload has a client")
}

fn measurements_of(client: Client<'_>, start: Instant, detail: Map<String, Value>) -> Measurements {
    Measurements { histogram: client.into_histogram(), elapsed: start.elapsed(), detail }
}

fn microseconds(duration: Duration) -> f64 {
    nanoseconds(duration) as f64 / 1000.0
}

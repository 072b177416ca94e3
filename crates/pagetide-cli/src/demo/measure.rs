//! What is measured while a workload runs: each operation's latency, and hits over time.
//!
//! Problem: means hide the tail, and one hit ratio at the end hides how it got there. Idea: every
//! thread has a client with its own histogram (no sharing on the way), and adds to one pair of
//! counters of pages looked at and found; a sampler reads the pair a few times a second.
//!
//! ```text
//!   client 1: histogram  \                     +--> sampler: (seconds, hit ratio) ...
//!   client 2: histogram  -+--> HitCounts ------+
//!                        \--> merged at the end: p50 p99 max, operations
//! ```
//!
//! Invariant: a client times the operation alone; sampling residence before it and checking words
//! after it are outside. Every read is checked: its length, and a word of it.
//!
//! Ignored: coordinated omission; these are closed loops, and say so.

use super::subject::MeasuredFile;
use crate::dataset::{DataFile, WORDS_PER_PAGE};
use crate::failure::Failure;
use hdrhistogram::Histogram;
use pagetide_core::units::{Bytes, PAGE_BYTES};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Longest latency that is distinguished from longer ones.
const LATENCY_NS_MAX: u64 = 100_000_000_000;
/// Percentiles that a report draws.
const CURVE: [f64; 9] = [1.0, 10.0, 25.0, 50.0, 75.0, 90.0, 99.0, 99.9, 100.0];
/// Points of a timeline that a report draws at most.
const COURSE_POINTS_MAX: usize = 60;

/// Random reads for each one before which residence is looked up: rare enough to cost about 1 %.
pub(crate) const LOOK_EVERY: u32 = 16;

/// How a client learns whether its reads are hits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum HitSampling {
    /// Residence is looked up before every n-th read: for random reads.
    Every(u32),
    /// Pages are only counted; what the device did not read was a hit. For sequential reads, where
    /// readahead makes pages resident just before they are read.
    Never,
}

/// Pages read that count, and how many of them were seen to be resident before.
#[derive(Debug, Default)]
pub(crate) struct HitCounts {
    looked: AtomicU64,
    resident: AtomicU64,
}

impl HitCounts {
    fn add(&self, nr_pages: u64, resident: Option<u64>) {
        let Some(resident) = resident else { return };
        // Relaxed: statistics, read for their value only.
        self.looked.fetch_add(nr_pages, Ordering::Relaxed);
        self.resident.fetch_add(resident.min(nr_pages), Ordering::Relaxed);
    }

    /// Pages looked at and pages found so far.
    pub(crate) fn load(&self) -> (u64, u64) {
        (self.looked.load(Ordering::Relaxed), self.resident.load(Ordering::Relaxed))
    }

    /// As [`HitCounts::load`], with every page that the device did not read as a hit.
    pub(crate) fn load_with_device(&self, device_read_bytes: u64) -> (u64, u64) {
        let looked = self.looked.load(Ordering::Relaxed);
        (looked, looked.saturating_sub(Bytes(device_read_bytes).whole_pages()))
    }
}

/// One thread's measurements.
#[derive(Debug)]
pub(crate) struct Client<'a> {
    histogram: Histogram<u64>,
    hits: &'a HitCounts,
    sampling: HitSampling,
    until_look: u32,
    turn: usize,
}

impl<'a> Client<'a> {
    /// A client that adds to `hits`.
    pub(crate) fn new(hits: &'a HitCounts, sampling: HitSampling) -> Client<'a> {
        Client { histogram: empty_histogram(), hits, sampling, until_look: 1, turn: 0 }
    }

    /// Reads `buffer` from page `index` on, times it, and checks its length. Returns when it ended.
    ///
    /// # Errors
    /// A read that failed or fell short.
    pub(crate) fn read(
        &mut self,
        file: &dyn MeasuredFile,
        data: &DataFile,
        index: u64,
        buffer: &mut [u8],
    ) -> Result<Instant, Failure> {
        let offset = Bytes::from_pages(index).0;
        self.look(file, offset, buffer.len() as u64);
        let start = Instant::now();
        let got = file.read_at(buffer, offset);
        let end = self.record(start);
        let got = got.map_err(|error| Failure::on_path("read", &data.path, &error))?;
        if got == buffer.len() {
            return Ok(end);
        }
        Err(Failure::Refused(format!(
            "short read in {}: {got} of {} bytes at byte {offset}",
            data.path.display(),
            buffer.len()
        )))
    }

    fn look(&mut self, file: &dyn MeasuredFile, offset: u64, len: u64) {
        let nr_pages = Bytes(len).whole_pages();
        match self.sampling {
            HitSampling::Never => self.hits.add(nr_pages, Some(0)),
            HitSampling::Every(nr_reads) => {
                self.until_look -= 1;
                if self.until_look == 0 {
                    self.until_look = nr_reads;
                    self.hits.add(nr_pages, file.resident_pages(offset, len));
                }
            }
        }
    }

    /// Checks one word of each page in `buffer`, another one each time.
    ///
    /// # Errors
    /// The wrong word.
    pub(crate) fn check(
        &mut self,
        data: &DataFile,
        index: u64,
        generation: u32,
        buffer: &[u8],
    ) -> Result<(), Failure> {
        // 73 has no factor in common with the words of a page: every word gets its turn.
        self.turn = (self.turn + 73) % WORDS_PER_PAGE;
        for (page, at) in buffer.chunks_exact(PAGE_BYTES).zip(index..) {
            data.check_word(at, generation, page, self.turn)
                .map_err(|wrong| data.failure(wrong))?;
        }
        Ok(())
    }

    /// Writes `page` as page `index` and times it. Returns when it ended.
    ///
    /// # Errors
    /// A write that failed.
    pub(crate) fn write(
        &mut self,
        file: &dyn MeasuredFile,
        data: &DataFile,
        index: u64,
        page: &[u8],
    ) -> Result<Instant, Failure> {
        let start = Instant::now();
        let outcome = file.write_at(page, Bytes::from_pages(index).0);
        let end = self.record(start);
        outcome.map(|()| end).map_err(|error| Failure::on_path("write", &data.path, &error))
    }

    /// The latencies seen.
    pub(crate) fn into_histogram(self) -> Histogram<u64> {
        self.histogram
    }

    fn record(&mut self, start: Instant) -> Instant {
        let end = Instant::now();
        self.histogram.saturating_record(nanoseconds(end - start));
        end
    }
}

/// What a run leaves.
pub(crate) struct Measurements {
    /// Latencies in nanoseconds, of the operations that count.
    pub(crate) histogram: Histogram<u64>,
    /// How long the operations took together.
    pub(crate) elapsed: Duration,
    /// What only this workload knows.
    pub(crate) detail: Map<String, Value>,
}

/// Latencies of a run in microseconds, as rows and reports want them.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Latency {
    /// Median.
    pub(crate) p50_us: f64,
    /// 99th percentile.
    pub(crate) p99_us: f64,
    /// Largest.
    pub(crate) max_us: f64,
    /// (percentile, microseconds), rising.
    pub(crate) curve: Vec<(f64, f64)>,
}

impl Latency {
    /// The percentiles of `histogram`, whose values are nanoseconds.
    pub(crate) fn from_histogram(histogram: &Histogram<u64>) -> Latency {
        let at = |percentile: f64| histogram.value_at_percentile(percentile) as f64 / 1000.0;
        Latency {
            p50_us: at(50.0),
            p99_us: at(99.0),
            max_us: histogram.max() as f64 / 1000.0,
            curve: CURVE.iter().map(|&percentile| (percentile, at(percentile))).collect(),
        }
    }
}

/// How the hit ratio went: cumulative counts at moments, turned into a ratio per stretch.
#[derive(Debug, Default)]
pub(crate) struct HitTimeline(Vec<(f64, u64, u64)>);

impl HitTimeline {
    /// Notes that by `seconds`, `counts` (looked at, resident) had been seen.
    pub(crate) fn push(&mut self, seconds: f64, counts: (u64, u64)) {
        self.0.push((seconds, counts.0, counts.1));
    }

    /// (seconds, hit ratio of the stretch that ends there), few enough to draw.
    pub(crate) fn points(&self) -> Vec<(f64, f64)> {
        let stride = self.0.len().div_ceil(COURSE_POINTS_MAX).max(1);
        let mut last = (0.0, 0, 0);
        let mut points = Vec::new();
        for moment in self.0.iter().skip(stride - 1).step_by(stride) {
            let looked = moment.1 - last.1;
            if looked > 0 {
                points.push((moment.0, moment.2.saturating_sub(last.2) as f64 / looked as f64));
                last = *moment;
            }
        }
        points
    }
}

/// A histogram of nanoseconds.
pub(crate) fn empty_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_NS_MAX, 2).expect("constant bounds are valid")
}

/// Share of the pages that were hits, of (pages, hits); `None` where none were counted.
pub(crate) fn hit_ratio((pages, hits): (u64, u64)) -> Option<f64> {
    (pages > 0).then(|| hits as f64 / pages as f64)
}

/// Whole nanoseconds of a duration that is not centuries long.
pub(crate) fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn course_is_the_ratio_of_each_stretch() {
        let mut timeline = HitTimeline::default();
        timeline.push(1.0, (10, 0));
        timeline.push(2.0, (10, 0));
        timeline.push(3.0, (20, 9));
        assert_eq!(timeline.points(), [(1.0, 0.0), (3.0, 0.9)]);
    }

    #[test]
    fn long_course_is_thinned_and_keeps_its_totals() {
        let mut timeline = HitTimeline::default();
        for tick in 1..=1000_u32 {
            timeline.push(f64::from(tick), (u64::from(tick) * 4, u64::from(tick)));
        }
        let points = timeline.points();
        assert!(points.len() <= COURSE_POINTS_MAX);
        assert!(points.iter().all(|&(_, ratio)| ratio == 0.25));
    }

    #[test]
    fn percentiles_are_in_microseconds() {
        let mut histogram = Histogram::new_with_bounds(1, LATENCY_NS_MAX, 2).expect("valid bounds");
        for value in 1..=100_u64 {
            histogram.saturating_record(value * 1000);
        }
        let latency = Latency::from_histogram(&histogram);
        assert!(
            (latency.p50_us - 50.0).abs() < 1.0 && (latency.max_us - 100.0).abs() < 1.0,
            "{latency:?}"
        );
    }

    #[test]
    fn hits_that_cannot_be_counted_give_no_ratio() {
        let counts = HitCounts::default();
        counts.add(16, None);
        assert_eq!(hit_ratio(counts.load()), None);
        counts.add(16, Some(4));
        assert_eq!(hit_ratio(counts.load()), Some(0.25));
        assert_eq!(hit_ratio(counts.load_with_device(4 * 4096)), Some(0.75));
    }
}

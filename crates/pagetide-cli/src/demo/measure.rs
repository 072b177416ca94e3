//! Latencies and hits measured while a workload runs.
//!
//! Idea: each thread has a client with a private histogram, and all clients add to one pair of hit
//! counters, sampled a few times a second.
//!
//! ```text
//!   client 1: histogram  \                     +--> sampler: (seconds, hit ratio) ...
//!   client 2: histogram  -+--> HitCounts ------+
//!                        \--> merged at the end: p50 p99 max, operations
//! ```
//!
//! Invariant: the timed span holds only the operation, not the residence check before or the word
//! check after. Every read is checked for its length and a word per page.
//!
//! Ignored: coordinated omission (all loops are closed).

use super::subject::MeasuredFile;
use crate::dataset::{DataFile, WORDS_PER_PAGE};
use crate::failure::Failure;
use hdrhistogram::Histogram;
use pagetide_core::units::{Bytes, PAGE_BYTES};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const LATENCY_NS_MAX: u64 = 100_000_000_000;
/// Percentiles.
const CURVE: [f64; 9] = [1.0, 10.0, 25.0, 50.0, 75.0, 90.0, 99.0, 99.9, 100.0];
const COURSE_POINTS_MAX: usize = 60;

/// Random reads per residence check, at a cost of about 1 %.
pub(crate) const LOOK_EVERY: u32 = 16;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum HitSampling {
    /// Checks residence before every n-th read, for random reads.
    Every(u32),
    /// Counts pages that the device did not read as hits. For sequential reads, because readahead
    /// fills pages just before their read.
    Never,
}

#[derive(Debug, Default)]
pub(crate) struct HitCounts {
    looked: AtomicU64,
    resident: AtomicU64,
}

impl HitCounts {
    fn add(&self, nr_pages: u64, resident: Option<u64>) {
        let Some(resident) = resident else { return };
        // Relaxed: statistics.
        self.looked.fetch_add(nr_pages, Ordering::Relaxed);
        self.resident.fetch_add(resident.min(nr_pages), Ordering::Relaxed);
    }

    /// Returns (looked, resident).
    pub(crate) fn load(&self) -> (u64, u64) {
        (self.looked.load(Ordering::Relaxed), self.resident.load(Ordering::Relaxed))
    }

    /// As [`HitCounts::load`], with pages that the device did not read as hits.
    pub(crate) fn load_with_device(&self, device_read_bytes: u64) -> (u64, u64) {
        let looked = self.looked.load(Ordering::Relaxed);
        (looked, looked.saturating_sub(Bytes(device_read_bytes).whole_pages()))
    }
}

#[derive(Debug)]
pub(crate) struct Client<'a> {
    histogram: Histogram<u64>,
    hits: &'a HitCounts,
    sampling: HitSampling,
    until_look: u32,
    turn: usize,
}

impl<'a> Client<'a> {
    pub(crate) fn new(hits: &'a HitCounts, sampling: HitSampling) -> Client<'a> {
        Client { histogram: empty_histogram(), hits, sampling, until_look: 1, turn: 0 }
    }

    /// Reads from page `index`, times the read and checks its length. Returns the end time.
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

    /// Checks one word of each page in `buffer`, a different word each time.
    pub(crate) fn check(
        &mut self,
        data: &DataFile,
        index: u64,
        generation: u32,
        buffer: &[u8],
    ) -> Result<(), Failure> {
        // 73 is coprime with the words of a page, so every word gets checked.
        self.turn = (self.turn + 73) % WORDS_PER_PAGE;
        for (page, at) in buffer.chunks_exact(PAGE_BYTES).zip(index..) {
            data.check_word(at, generation, page, self.turn)
                .map_err(|wrong| data.failure(wrong))?;
        }
        Ok(())
    }

    /// Times the write of page `index`. Returns the end time.
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

    pub(crate) fn into_histogram(self) -> Histogram<u64> {
        self.histogram
    }

    fn record(&mut self, start: Instant) -> Instant {
        let end = Instant::now();
        self.histogram.saturating_record(nanoseconds(end - start));
        end
    }
}

pub(crate) struct Measurements {
    /// Latencies in nanoseconds.
    pub(crate) histogram: Histogram<u64>,
    pub(crate) elapsed: Duration,
    pub(crate) detail: Map<String, Value>,
}

#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Latency {
    pub(crate) p50_us: f64,
    pub(crate) p99_us: f64,
    pub(crate) max_us: f64,
    /// (percentile, microseconds), ascending.
    pub(crate) curve: Vec<(f64, f64)>,
}

impl Latency {
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

/// Cumulative counts over time, for a hit ratio per interval.
#[derive(Debug, Default)]
pub(crate) struct HitTimeline(Vec<(f64, u64, u64)>);

impl HitTimeline {
    /// Records (looked, resident) counts.
    pub(crate) fn push(&mut self, seconds: f64, counts: (u64, u64)) {
        self.0.push((seconds, counts.0, counts.1));
    }

    /// Returns (seconds, hit ratio of the preceding interval), thinned for a plot.
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

pub(crate) fn empty_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_NS_MAX, 2).expect("constant bounds are valid")
}

/// Returns hits / pages, `None` without pages.
pub(crate) fn hit_ratio((pages, hits): (u64, u64)) -> Option<f64> {
    (pages > 0).then(|| hits as f64 / pages as f64)
}

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

//! The miss-ratio curves of several policies: sizes, replays and points.
//!
//! Problem: only LRU's curve comes from one pass, and a sample of pages adds an error. Idea: derive
//! sizes and replays from the followed pages, and points from the outcomes. The caller runs the
//! replays.
//!
//! ```text
//!   accesses --(sample of the pages?)--> CurveTrace --sizes--> cells --> outcomes --> points
//! ```
//!
//! The error is LRU's, and stands for all policies. A sampled curve starts at some tens of frames,
//! where replays become meaningful.
//!
//! Here `lru` counts each access as a use, unlike core's `lru` for repeated reads and table
//! accesses. Stack distances ignore readahead: with recorded readahead `lru` is replayed too, but
//! its error is not.
//!
//! Sources: replaying a sample in a shrunken memory is Waldspurger, Saemundsson, Ahmad and Park,
//! "Cache Modeling and Optimization using Miniature Simulations", USENIX ATC 2017.

use super::{SampledCurve, Sampler};
use crate::judge::opt;
use crate::replay::{Cell, Contender, Reader, ReplayOutcome, Setup};
use crate::trace::{Access, DenseTrace, Header, ReadaheadUse, Trace};
use pagetide_core::lru::PolicyName;
use pagetide_core::units::{Bytes, Millis};
use serde::Serialize;

/// Maximum ratio of all pages to the smallest memory of a curve.
const RANGE: u32 = 1024;
/// Minimum frames for the replay of a sample.
const SCALED_FRAMES_MIN: f64 = 32.0;
const SAMPLED_PAGES_MIN: usize = 256;

/// The sample has too few pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a sample of {pages} pages says nothing: at least {SAMPLED_PAGES_MIN} are needed")]
pub struct SampleTooSmall {
    pages: usize,
}

/// A point of a curve. `mrc --json` prints the field names, so they are stable.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct CurvePoint {
    /// Name of the policy.
    pub policy: &'static str,
    /// Memory, in frames.
    pub frames: u32,
    /// Memory, in bytes.
    pub memory_bytes: u64,
    /// Misses per access.
    pub miss_ratio: f64,
    /// Bytes from the store, including readahead.
    pub device_read_bytes: u64,
    /// One standard error of the miss ratio from sampling, 0 without sampling.
    pub miss_ratio_error: f64,
}

/// The trace, or a sample of its pages.
#[derive(Clone, Debug)]
pub struct CurveTrace {
    sampler: Option<Sampler>,
    trace: DenseTrace,
    nr_accesses: u64,
    reader: Reader,
}

impl CurveTrace {
    /// Returns an empty trace. A sampler limits the pages that are followed.
    pub fn new(sampler: Option<Sampler>) -> CurveTrace {
        let trace = DenseTrace::default();
        CurveTrace { sampler, trace, nr_accesses: 0, reader: Reader::Recorded }
    }

    /// Returns a trace in memory with this reader, or the part that the sampler takes.
    pub fn of(trace: DenseTrace, reader: Reader, sampler: Option<Sampler>) -> CurveTrace {
        let nr_accesses = trace.nr_accesses();
        let Some(sampler) = sampler else {
            return CurveTrace { sampler, trace, nr_accesses, reader };
        };
        let mut sample = DenseTrace::default();
        for (at, (rank, kind)) in trace.entries().enumerate() {
            let access = Access { page: trace.page(rank), kind, thread: 0 };
            match trace.times().map(|times| Millis(times[at].into())) {
                _ if !sampler.takes(access.page) => {}
                Some(time) => sample.push_at(access, time),
                None => sample.push(access),
            }
        }
        let reader = Reader::Recorded;
        CurveTrace { sampler: Some(sampler), trace: sample, nr_accesses, reader }
    }

    /// Appends the entry last returned by `from`.
    pub fn push_from(&mut self, from: &Trace, access: Access) {
        self.nr_accesses += u64::from(access.kind.is_access());
        if self.sampler.is_none_or(|sampler| sampler.takes(access.page)) {
            self.trace.push_from(from, access);
        }
    }

    /// Ends the trace and takes its header. A sample loses the succession of reads.
    pub fn finish(&mut self, header: Option<&Header>) {
        self.reader = if self.sampler.is_some() { Reader::Recorded } else { Reader::of(header) };
    }

    /// Returns the entries.
    pub fn trace(&self) -> &DenseTrace {
        &self.trace
    }

    /// Returns the entries, for removing readahead.
    pub fn trace_mut(&mut self) -> &mut DenseTrace {
        &mut self.trace
    }

    /// Returns the accesses of the whole trace.
    pub fn nr_accesses(&self) -> u64 {
        self.nr_accesses
    }

    /// Returns the distinct pages of the whole trace, estimated from a sample.
    pub fn nr_pages(&self) -> u64 {
        (opt::count_pages(&self.trace) as f64 / self.sampler().rate()).round() as u64
    }

    /// Returns up to `nr_points` sizes, evenly spaced by ratio, up to all pages.
    ///
    /// # Errors
    /// Fails with [`SampleTooSmall`] if the sample has too few pages.
    pub fn sizes(&self, nr_points: usize) -> Result<Vec<u32>, SampleTooSmall> {
        let pages = self.trace.nr_pages();
        if self.sampler.is_some() && pages < SAMPLED_PAGES_MIN {
            return Err(SampleTooSmall { pages });
        }
        let frames_max = u32::try_from(self.nr_pages()).unwrap_or(u32::MAX).max(1);
        let scaled_min = match self.sampler {
            Some(sampler) => (SCALED_FRAMES_MIN / sampler.rate()).ceil() as u32,
            None => 1,
        };
        let frames_min = frames_max.div_ceil(RANGE).max(scaled_min).min(frames_max);
        Ok(super::sizes(frames_min, frames_max, nr_points))
    }

    /// Returns the replays to run, policy by policy.
    pub fn cells(&self, contenders: &[Contender], sizes: &[u32]) -> Vec<Cell> {
        let setup =
            |policy, frames: u32| Setup { reader: self.reader, ..Setup::new(policy, frames) };
        pairs(contenders, sizes)
            .filter(|(contender, _)| !self.has_curve(*contender))
            .map(|(contender, size)| Cell::new(contender, self.sampler().scale(size), setup))
            .collect()
    }

    /// Returns the points of the curves, policy by policy. `outcomes` are in the order of the
    /// cells.
    ///
    /// # Cost
    /// A pass over the trace, for LRU's curve and the error.
    pub fn points(
        &self,
        contenders: &[Contender],
        sizes: &[u32],
        outcomes: impl IntoIterator<Item = ReplayOutcome>,
    ) -> Vec<CurvePoint> {
        let (sampler, mut outcomes) = (self.sampler(), outcomes.into_iter());
        let lru = SampledCurve::new(sampler, &self.trace, self.nr_accesses);
        let point = |(contender, frames): (Contender, u32)| {
            let (miss_ratio, pages_ahead) = if self.has_curve(contender) {
                (lru.miss_ratio(frames), 0)
            } else {
                let outcome = outcomes.next().expect("an outcome for each cell");
                (sampler.miss_ratio(outcome.misses, self.nr_accesses), outcome.pages_ahead)
            };
            let nr_misses = miss_ratio * self.nr_accesses as f64;
            let pages_read = (nr_misses + pages_ahead as f64 / sampler.rate()).round() as u64;
            CurvePoint {
                policy: contender.as_str(),
                frames,
                memory_bytes: Bytes::from_pages(frames.into()).0,
                miss_ratio,
                device_read_bytes: Bytes::from_pages(pages_read).0,
                miss_ratio_error: lru.error(frames),
            }
        };
        pairs(contenders, sizes).map(point).collect()
    }

    /// Returns true if stack distances give the curve.
    fn has_curve(&self, contender: Contender) -> bool {
        contender == Contender::Policy(PolicyName::Lru)
            && ReadaheadUse::of(&self.trace) != ReadaheadUse::Recorded
    }

    fn sampler(&self) -> Sampler {
        self.sampler.or(Sampler::new(1.0)).expect("1 is a share")
    }
}

fn pairs<'a>(
    contenders: &'a [Contender],
    sizes: &'a [u32],
) -> impl Iterator<Item = (Contender, u32)> + 'a {
    contenders.iter().flat_map(|&contender| sizes.iter().map(move |&size| (contender, size)))
}

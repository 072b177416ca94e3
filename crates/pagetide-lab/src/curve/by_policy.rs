//! The curves of several policies: which sizes, which replays, which points.
//!
//! Problem: LRU's curve comes from one pass, the others' from replays; in a sample of the pages
//! sizes shrink, and all of it has an error. Idea: the trace as far as it is followed says which
//! sizes make sense and which replays are needed, and makes points of their outcomes; running them
//! is the caller's.
//!
//! ```text
//!   accesses --(sample of the pages?)--> CurveTrace --sizes--> cells --> outcomes --> points
//! ```
//!
//! The error is measured on LRU's curve; the replays of the other policies are of the same sample,
//! and its error stands for theirs. A replay in a memory of very few frames says little about any
//! policy, so a sampled curve starts where the shrunken memory has some tens.
//!
//! Here `lru` is strict: each access is a use. In a replay it is core's, for which a repeated read
//! or a table access is not; for traces of plain reads and writes they are the same. Stack
//! distances know nothing of readahead: where all get what was recorded, `lru` is replayed as
//! the others are,
//! and the error stays that of the curve without.
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

/// The smallest memory of a curve is this part of the pages, or more.
const RANGE: u32 = 1024;
/// The fewest frames a sampled page set is replayed in.
const SCALED_FRAMES_MIN: f64 = 32.0;
/// The fewest sampled pages that say anything.
const SAMPLED_PAGES_MIN: usize = 256;

/// A sample that is too small to say anything.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a sample of {pages} pages says nothing: at least {SAMPLED_PAGES_MIN} are needed")]
pub struct SampleTooSmall {
    /// Distinct pages in it.
    pages: usize,
}

/// A point of a curve. The field names are what `mrc --json` prints, and stay.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct CurvePoint {
    /// The contender's name.
    pub policy: &'static str,
    /// Memory, in frames.
    pub frames: u32,
    /// The same in bytes.
    pub memory_bytes: u64,
    /// Misses per access.
    pub miss_ratio: f64,
    /// Bytes from the store, by misses and by readahead.
    pub device_read_bytes: u64,
    /// One standard error of the miss ratio, from sampling; 0 when every page was followed.
    pub miss_ratio_error: f64,
}

/// The trace, or as much of it as is followed.
#[derive(Clone, Debug)]
pub struct CurveTrace {
    sampler: Option<Sampler>,
    trace: DenseTrace,
    nr_accesses: u64,
    reader: Reader,
}

impl CurveTrace {
    /// A trace without entries; with a sampler, only the pages that it takes are followed.
    pub fn new(sampler: Option<Sampler>) -> CurveTrace {
        let trace = DenseTrace::default();
        CurveTrace { sampler, trace, nr_accesses: 0, reader: Reader::Recorded }
    }

    /// A trace that is in memory, whose reads are these; with a sampler, as much of it as is
    /// followed.
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

    /// Appends the entry that `from` has just given.
    pub fn push_from(&mut self, from: &Trace, access: Access) {
        self.nr_accesses += u64::from(access.kind.is_access());
        if self.sampler.is_none_or(|sampler| sampler.takes(access.page)) {
            self.trace.push_from(from, access);
        }
    }

    /// The whole trace was read, and had this header. In a sample, reads that follow each other did
    /// not in the trace.
    pub fn finish(&mut self, header: Option<&Header>) {
        self.reader = if self.sampler.is_some() { Reader::Recorded } else { Reader::of(header) };
    }

    /// Its entries.
    pub fn trace(&self) -> &DenseTrace {
        &self.trace
    }

    /// The same, to take readahead out.
    pub fn trace_mut(&mut self) -> &mut DenseTrace {
        &mut self.trace
    }

    /// Accesses of the whole trace.
    pub fn nr_accesses(&self) -> u64 {
        self.nr_accesses
    }

    /// Distinct pages of the whole trace; estimated where sampled.
    pub fn nr_pages(&self) -> u64 {
        (opt::count_pages(&self.trace) as f64 / self.sampler().rate()).round() as u64
    }

    /// Up to so many sizes, evenly spaced by ratio up to the size of all pages.
    ///
    /// # Errors
    /// Where the sample is too small.
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

    /// The replays that the curves need, contender by contender.
    pub fn cells(&self, contenders: &[Contender], sizes: &[u32]) -> Vec<Cell> {
        let setup =
            |policy, frames: u32| Setup { reader: self.reader, ..Setup::new(policy, frames) };
        pairs(contenders, sizes)
            .filter(|(contender, _)| !self.has_curve(*contender))
            .map(|(contender, size)| Cell::new(contender, self.sampler().scale(size), setup))
            .collect()
    }

    /// The curves' points, contender by contender, given what the cells came to, in their order.
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

    /// Whether stack distances have the answer.
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

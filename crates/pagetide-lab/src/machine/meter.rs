//! What the machine counts, and the samples it takes.
//!
//! Problem: a table wants a few numbers over a stretch of time, a plot wants a course. Idea:
//! counters and histograms that can be started anew after the warm-up, and a sample at fixed
//! intervals. Ignored: intervals that straddle the start of the measured stretch count where they
//! end.

use super::clock::Nanos;
use hdrhistogram::Histogram;

/// Latencies have two significant digits, and end at 18 minutes.
const DIGITS: u8 = 2;
const LONGEST_NS: u64 = 1 << 40;

/// Counts over the measured stretch.
#[derive(Clone, Debug)]
pub(super) struct Meter {
    pub(super) start: Nanos,
    pub(super) busy: Nanos,
    pub(super) waited: Nanos,
    pub(super) nr_taken: u64,
    pub(super) nr_freed: u64,
    pub(super) nr_failed: u64,
    pub(super) nr_through_zone_at_start: u64,
    pub(super) allocs: Histogram<u64>,
    pub(super) frees: Histogram<u64>,
    /// The sum and number of samples of frames on all lists.
    pub(super) listed: (u64, u64),
}

impl Meter {
    pub(super) fn new(start: Nanos, nr_through_zone: u64) -> Meter {
        let histogram =
            || Histogram::new_with_max(LONGEST_NS, DIGITS).expect("the bounds are in range");
        Meter {
            start,
            busy: Nanos::ZERO,
            waited: Nanos::ZERO,
            nr_taken: 0,
            nr_freed: 0,
            nr_failed: 0,
            nr_through_zone_at_start: nr_through_zone,
            allocs: histogram(),
            frees: histogram(),
            listed: (0, 0),
        }
    }
}

/// What a run measured, from the start of the measured stretch to its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Measured {
    /// How long it was.
    pub elapsed: Nanos,
    /// CPU used by all tasks, waiting for the zone's lock included.
    pub busy: Nanos,
    /// Of that, waiting in the queue of the zone's lock.
    pub waited: Nanos,
    /// Pages taken by tasks.
    pub nr_taken: u64,
    /// Pages given back by tasks.
    pub nr_freed: u64,
    /// Pages asked for and not got.
    pub nr_failed: u64,
    /// The 99th percentile of an allocation, page by page.
    pub alloc_p99: Nanos,
    /// The 99th percentile of a return.
    pub free_p99: Nanos,
    /// Pages that entered or left the zone's lists.
    pub zone_pages: u64,
    /// Pages on per-CPU lists, the mean over the samples.
    pub idle_pages: u64,
}

/// One sample.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sample {
    /// When.
    pub at: Nanos,
    /// The limit of the first CPU's list, frames.
    pub high: u32,
    /// What is on it, frames.
    pub count: u32,
    /// What is on all lists, frames.
    pub listed: u64,
    /// What is free in the zone, frames.
    pub free: u64,
}

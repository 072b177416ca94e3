//! Counters and samples of the machine.
//!
//! Problem: a table needs totals, a plot needs a time series. Idea: counters and histograms that
//! restart after the warm-up, and samples at fixed intervals. Ignored: the measurement counts an
//! operation when it ends, even if begun before the restart.

use super::clock::Nanos;
use hdrhistogram::Histogram;

/// Latencies have two significant digits and end at 18 minutes.
const DIGITS: u8 = 2;
const LONGEST_NS: u64 = 1 << 40;

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
    /// Sum and number of the samples of listed frames.
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

/// Results of a measurement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Measured {
    /// Duration.
    pub elapsed: Nanos,
    /// CPU time of all tasks, including lock waits.
    pub busy: Nanos,
    /// The part of `busy` spent in the queue of the zone's lock.
    pub waited: Nanos,
    /// Pages allocated.
    pub nr_taken: u64,
    /// Pages freed.
    pub nr_freed: u64,
    /// Failed page requests.
    pub nr_failed: u64,
    /// 99th percentile of a page allocation.
    pub alloc_p99: Nanos,
    /// 99th percentile of a page free.
    pub free_p99: Nanos,
    /// Pages that entered or left the zone.
    pub zone_pages: u64,
    /// Mean number of pages on per-CPU lists.
    pub idle_pages: u64,
}

/// One sample.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sample {
    /// Time of the sample.
    pub at: Nanos,
    /// Limit of the first CPU's list, in frames.
    pub high: u32,
    /// Length of the first CPU's list, in frames.
    pub count: u32,
    /// Length of all lists, in frames.
    pub listed: u64,
    /// Free frames in the zone.
    pub free: u64,
}

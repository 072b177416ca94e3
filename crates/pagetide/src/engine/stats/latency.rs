//! Latency of reads from stores. Hits are not timed, as the clock costs more than a hit.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Upper bounds of the buckets, microseconds.
const ENDS_US: [u64; 16] = [
    10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000,
    500_000, 1_000_000,
];
/// The last bucket has no bound.
const NR_BUCKETS: usize = ENDS_US.len() + 1;

#[derive(Default)]
pub(crate) struct LatencyHistogram {
    buckets: [AtomicU64; NR_BUCKETS],
    sum_ns: AtomicU64,
}

impl LatencyHistogram {
    pub(crate) fn count(&self, took: Duration) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let bucket = ENDS_US.partition_point(|end| end * 1_000 < nanos);
        self.buckets[bucket].fetch_add(1, Relaxed);
        self.sum_ns.fetch_add(nanos, Relaxed);
    }

    pub(crate) fn collect(&self) -> LatencyStats {
        LatencyStats {
            counts: self.buckets.each_ref().map(|bucket| bucket.load(Relaxed)),
            sum_ns: self.sum_ns.load(Relaxed),
        }
    }
}

/// A latency distribution in buckets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LatencyStats {
    counts: [u64; NR_BUCKETS],
    sum_ns: u64,
}

impl LatencyStats {
    /// Returns the number of samples.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns the sum of all samples.
    pub fn sum(&self) -> Duration {
        Duration::from_nanos(self.sum_ns)
    }

    /// Returns each bucket's inclusive upper bound, and the number of samples up to there. The last
    /// bucket has no bound.
    pub fn cumulative(&self) -> impl Iterator<Item = (Option<Duration>, u64)> {
        let ends = ENDS_US.iter().map(|end| Some(Duration::from_micros(*end))).chain([None]);
        let mut sum = 0;
        ends.zip(self.counts).map(move |(end, count)| {
            sum += count;
            (end, sum)
        })
    }

    /// Returns the bound of the bucket that contains the quantile `share` (0 to 1). `None` without
    /// samples, and in the last bucket.
    pub fn quantile(&self, share: f64) -> Option<Duration> {
        let wanted = (self.count() as f64 * share).ceil() as u64;
        let reached = self.cumulative().find(|(_, sum)| *sum >= wanted.max(1));
        reached.and_then(|(end, _)| end)
    }

    /// Returns the distribution since `before`.
    pub fn since(&self, before: &LatencyStats) -> LatencyStats {
        let mut since = *self;
        since.sum_ns = self.sum_ns.saturating_sub(before.sum_ns);
        let counts = since.counts.iter_mut().zip(before.counts);
        counts.for_each(|(now, then)| *now = now.saturating_sub(then));
        since
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_in_the_bucket_that_ends_at_it_or_next_above() {
        let histogram = LatencyHistogram::default();
        assert_eq!(histogram.collect().quantile(0.5), None);
        for micros in [0, 10, 11, 999_999, 1_000_001] {
            histogram.count(Duration::from_micros(micros));
        }
        let stats = histogram.collect();
        let sums: Vec<u64> = stats.cumulative().map(|(_, sum)| sum).collect();
        assert_eq!((sums[0], sums[1], sums[14], sums[15], sums[16]), (2, 3, 3, 4, 5));
        assert_eq!(stats.count(), 5);
        assert_eq!(stats.sum(), Duration::from_micros(2_000_021));
        assert_eq!(stats.quantile(0.4), Some(Duration::from_micros(10)));
        assert_eq!(stats.quantile(0.8), Some(Duration::from_secs(1)));
        assert_eq!(stats.quantile(1.0), None);
        assert_eq!(stats.since(&stats), LatencyStats::default());
    }
}

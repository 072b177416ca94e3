//! Miss-ratio curves: misses at every memory size.
//!
//! **Problem.** A replay covers one size. One pass gives LRU's exact curve, a sample costs a
//! hundredth.
//!
//! **Idea.**
//!
//! ```text
//!   accesses --sampled? by page--> ranks --> stack distances --> histogram --> misses at any size
//!              shards.rs                     stack_distance.rs
//! ```
//!
//! LRU keeps the most recently used pages at every size. An access hits in n frames if fewer than n
//! other pages were used since the page's last use. The histogram of this number is the curve.
//! Other policies are replayed size by size.
//!
//! **Data and invariants.** The curve never rises with size. If all pages fit, only first uses
//! miss.
//!
//! **Ignored.** Readahead and fills. Each access is a use, unlike core's `lru` for repeated reads
//! and table accesses.
//!
//! **Sources.** Mattson, Gecsei, Slutz and Traiger, "Evaluation techniques for storage
//! hierarchies", IBM Systems Journal 9(2), 1970. Waldspurger, Park, Garthwaite and Ahmad,
//! "Efficient MRC Construction with SHARDS", FAST 2015.

mod by_policy;
mod census;
mod shards;
mod stack_distance;
#[cfg(test)]
mod tests;

pub use by_policy::{CurvePoint, CurveTrace, SampleTooSmall};
pub use census::{Census, KindCount, Reuse};
pub use shards::{SampledCurve, Sampler};
pub use stack_distance::{Histogram, StackDistances};

use crate::trace::DenseTrace;

/// Returns the exact curve of LRU over a trace.
///
/// # Cost
/// O(log pages) an access, 20 bytes a page.
pub fn lru(trace: &DenseTrace) -> Histogram {
    let mut distances = StackDistances::new();
    for (rank, kind) in trace.entries() {
        distances.apply(rank, kind);
    }
    distances.into_histogram()
}

/// Returns up to `nr_points` ascending distinct sizes from `frames_min` to `frames_max` inclusive,
/// evenly spaced by ratio.
pub fn sizes(frames_min: u32, frames_max: u32, nr_points: usize) -> Vec<u32> {
    assert!(0 < frames_min && frames_min <= frames_max, "a range of sizes starts above 0");
    let (low, high) = (f64::from(frames_min), f64::from(frames_max));
    let last = nr_points.max(2) - 1;
    let size = |point: usize| (low * (high / low).powf(point as f64 / last as f64)).round() as u32;
    let mut sizes: Vec<u32> = (0..=last).map(size).collect();
    if nr_points < 2 {
        sizes.remove(0);
    }
    sizes.dedup();
    sizes
}

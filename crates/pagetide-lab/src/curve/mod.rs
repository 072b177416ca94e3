//! Miss-ratio curves: how many accesses miss, at every size of memory.
//!
//! **Problem.** "How much memory do I need?" asks for all sizes at once. A replay answers for one
//! size; an exact curve of LRU costs one pass, and a sampled one a hundredth of it.
//!
//! **Idea.**
//!
//! ```text
//!   accesses --sampled? by page--> ranks --> stack distances --> histogram --> misses at any size
//!              shards.rs                     stack_distance.rs
//! ```
//!
//! LRU keeps, at every size, the pages used most recently (inclusion): an access hits in a memory
//! of n frames exactly when fewer than n other pages were used since its page was used last. So
//! one histogram of that number holds the whole curve. Other policies have no such property, and
//! are replayed size by size.
//!
//! **Data and invariants.** The curve never rises with the size. At as many frames as there are
//! pages, only first uses miss.
//!
//! **Ignored.** Everything but accesses and discards: readahead and fills are the recorded run's
//! own doing. Each access is a use, be it through a descriptor or a table; the policy `lru` in a
//! replay is the kernel's kind, which counts repeated reads and table accesses differently.
//!
//! **Sources.** Mattson, Gecsei, Slutz and Traiger, "Evaluation techniques for storage
//! hierarchies", IBM Systems Journal 9(2), 1970; Waldspurger, Park, Garthwaite and Ahmad,
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

/// The exact curve of LRU over a trace.
///
/// # Cost
/// O(log pages) an access; 20 bytes a page.
pub fn lru(trace: &DenseTrace) -> Histogram {
    let mut distances = StackDistances::new();
    for (rank, kind) in trace.entries() {
        distances.apply(rank, kind);
    }
    distances.into_histogram()
}

/// Up to `nr_points` sizes from `frames_min` to `frames_max`, evenly spaced by ratio: small
/// memories are where curves bend. Ascending, without repeats, both ends included.
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

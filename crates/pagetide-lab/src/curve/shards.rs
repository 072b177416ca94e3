//! SHARDS: the LRU curve from a sample of the pages, with its error.
//!
//! **Problem.** An exact pass needs too much memory for long traces.
//!
//! **Idea.** Follow only pages with a hash below a threshold. With a share R of the pages,
//! distances shrink by R.
//!
//! ```text
//!   page --hash--> below R * 2^32 ? --> stack of the sample --> distance / R
//! ```
//!
//! Hot pages in or out of the sample shift all ratios. Therefore missing or surplus accesses
//! against R * N count as hits at the smallest size (the paper's "SHARDS adj").
//!
//! The error is measured: the hash splits the sample into eight groups at rate R / 8. The error is
//! the standard deviation of their results / sqrt(8).
//!
//! **Data and invariants.** The hash is fixed, so a trace and a rate give one sample. At rate 1 the
//! curve is exact.
//!
//! **Ignored.** A fixed-size sample with a falling threshold (the paper's s_max). The error below 8
//! / R frames.
//!
//! **Sources.** Waldspurger, Park, Garthwaite and Ahmad, "Efficient MRC Construction with SHARDS",
//! FAST 2015. The error by groups is the textbook method of random groups (Wolter, "Introduction to
//! Variance Estimation", chapter 2).

use super::{Histogram, StackDistances};
use crate::trace::DenseTrace;
use pagetide_core::ids::PageId;

const NR_GROUPS: usize = 8;

/// The choice of sampled pages.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Sampler {
    rate: f64,
    threshold: u64,
}

impl Sampler {
    /// Returns a sampler of the share `rate` of the pages, or `None` unless 0 < rate <= 1.
    pub fn new(rate: f64) -> Option<Sampler> {
        let is_share = 0.0 < rate && rate <= 1.0;
        let threshold = (rate * (1_u64 << 32) as f64).round() as u64;
        (is_share && threshold > 0).then_some(Sampler { rate, threshold })
    }

    /// Returns the share of sampled pages.
    pub fn rate(&self) -> f64 {
        self.rate
    }

    /// Returns true if the page is in the sample.
    pub fn takes(&self, page: PageId) -> bool {
        hash(page) >> 32 < self.threshold
    }

    /// Returns the size among sampled pages that stands for `frames`, at least 1.
    pub fn scale(&self, frames: u32) -> u32 {
        // At most `frames`, so it fits.
        ((f64::from(frames) * self.rate).round() as u32).max(1)
    }

    /// Returns the miss ratio of a trace of `nr_accesses` from the sample's `misses`.
    pub fn miss_ratio(&self, misses: u64, nr_accesses: u64) -> f64 {
        adjusted(misses, nr_accesses, self.rate)
    }
}

/// An LRU curve from a sample, with its error.
#[derive(Clone, Debug)]
pub struct SampledCurve {
    sampler: Sampler,
    nr_accesses: u64,
    whole: Histogram,
    groups: Vec<Histogram>,
}

impl SampledCurve {
    /// Returns the curve of a trace of `nr_accesses`. `sample` has the pages that `sampler` takes.
    ///
    /// # Cost
    /// Two passes over the sample. O(log pages) an access.
    pub fn new(sampler: Sampler, sample: &DenseTrace, nr_accesses: u64) -> SampledCurve {
        let mut groups = vec![StackDistances::new(); NR_GROUPS];
        if sampler.rate < 1.0 {
            let group_of: Vec<u8> =
                (0..sample.nr_pages()).map(|rank| group(sample.page(rank as u32))).collect();
            for (rank, kind) in sample.entries() {
                groups[usize::from(group_of[rank as usize])].apply(rank, kind);
            }
        }
        SampledCurve {
            sampler,
            nr_accesses,
            whole: super::lru(sample),
            groups: groups.into_iter().map(StackDistances::into_histogram).collect(),
        }
    }

    /// Returns the miss ratio at `frames`, 0 for an empty trace.
    pub fn miss_ratio(&self, frames: u32) -> f64 {
        ratio_at(&self.whole, frames, self.nr_accesses, self.sampler.rate)
    }

    /// Returns one standard error of [`SampledCurve::miss_ratio`], 0 without sampling.
    pub fn error(&self, frames: u32) -> f64 {
        if self.sampler.rate >= 1.0 {
            return 0.0;
        }
        let rate = self.sampler.rate / NR_GROUPS as f64;
        let answers: Vec<f64> = self
            .groups
            .iter()
            .map(|group| ratio_at(group, frames, self.nr_accesses, rate))
            .collect();
        let nr_groups = NR_GROUPS as f64;
        let mean = answers.iter().sum::<f64>() / nr_groups;
        let squares: f64 = answers.iter().map(|answer| (answer - mean).powi(2)).sum();
        (squares / (nr_groups - 1.0) / nr_groups).sqrt()
    }
}

fn ratio_at(histogram: &Histogram, frames: u32, nr_accesses: u64, rate: f64) -> f64 {
    let scaled = (f64::from(frames) * rate).round() as u64;
    adjusted(histogram.misses(scaled), nr_accesses, rate)
}

fn adjusted(misses: u64, nr_accesses: u64, rate: f64) -> f64 {
    if nr_accesses == 0 {
        return 0.0;
    }
    (misses as f64 / (nr_accesses as f64 * rate)).min(1.0)
}

/// Returns the page's group, from bits that the threshold ignores.
fn group(page: PageId) -> u8 {
    (hash(page) % NR_GROUPS as u64) as u8
}

/// Mixes mapping and index with the finalizer of MurmurHash3, twice to decorrelate the bits.
fn hash(page: PageId) -> u64 {
    mix(mix(page.index.0.wrapping_add(0x9e37_79b9_7f4a_7c15)) ^ u64::from(page.mapping.0))
}

fn mix(mut word: u64) -> u64 {
    word = (word ^ (word >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    word = (word ^ (word >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    word ^ (word >> 33)
}

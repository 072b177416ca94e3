//! Miss-ratio estimates for other memory sizes, from a sample of the pages (see
//! [`pagetide_core::sizing`]).
//!
//! ```text
//!   fill   --> in the sample? --> flag SAMPLED on the folio, and the use, under the lock
//!   hit    --> flag? -no-> nothing    -yes-> try the lock, core corrects for lost uses
//!   curve      LRU's hits at any size, scaled through the measured ratio at the present size
//! ```
//!
//! A hit tests the flag in a word it reads anyway. The lock is a leaf.

use crate::memory::locks::lock;
use crossbeam_utils::CachePadded;
use pagetide_core::folio::Flags;
use pagetide_core::sizing::{NR_GROUPS, PageKey, ReuseCounts, ReuseSample, SampleRate};
use pagetide_core::units::Bytes;
use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

pub(crate) struct ReuseSampler {
    /// Sample rate, so that pages outside the sample take no lock.
    shift: AtomicU8,
    sample: CachePadded<Mutex<ReuseSample>>,
}

impl ReuseSampler {
    pub(crate) fn new(nr_frames: u32) -> ReuseSampler {
        let sample = ReuseSample::new(nr_frames);
        ReuseSampler {
            shift: AtomicU8::new(sample.rate().shift()),
            sample: CachePadded::new(Mutex::new(sample)),
        }
    }

    fn takes(&self, page: PageKey) -> bool {
        SampleRate::of_shift(self.shift.load(Relaxed)).takes(page)
    }

    pub(crate) fn flag(&self, page: PageKey) -> Flags {
        if self.takes(page) { Flags::SAMPLED } else { Flags::NONE }
    }

    pub(crate) fn access(&self, page: PageKey) {
        if self.takes(page) {
            lock(&self.sample).access(page);
        }
    }

    /// Records a hit. Never blocks.
    #[cold]
    pub(crate) fn hit(&self, page: PageKey) {
        // A use that is lost here counts as one at a short distance.
        if let Ok(mut sample) = self.sample.try_lock() {
            sample.access(page);
        }
    }

    pub(crate) fn discard(&self, page: PageKey) {
        if self.takes(page) {
            lock(&self.sample).discard(page);
        }
    }

    /// Starts a new sample if the present one is too shallow.
    pub(crate) fn resize(&self, nr_frames: u32) {
        let rate = SampleRate::for_frames(nr_frames);
        let mut sample = lock(&self.sample);
        if rate.shift() > sample.rate().shift() {
            *sample = ReuseSample::new(nr_frames);
            self.shift.store(rate.shift(), Relaxed);
        }
    }

    pub(crate) fn counts(&self) -> ReuseCounts {
        lock(&self.sample).counts().clone()
    }

    pub(crate) fn validate(&self) {
        lock(&self.sample).validate();
    }
}

/// A number estimated from a sample, with its error.
///
/// The text has no digit finer than the error, nor than the requested precision (default three):
/// `0.71 +- 0.03`. An error of 0 (nothing was sampled) is left out.
///
/// ```
/// # use pagetide::Estimate;
/// assert_eq!(Estimate { value: 0.7134, error: 0.028 }.to_string(), "0.71 +- 0.03");
/// assert_eq!(Estimate { value: 0.7134, error: 0.0 }.to_string(), "0.713");
/// assert_eq!(format!("{:.1}", Estimate { value: 513.2, error: 37.0 }), "510 +- 40");
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Estimate {
    /// The estimated number.
    pub value: f64,
    /// One standard error: the true value is closer two times in three.
    pub error: f64,
}

impl fmt::Display for Estimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Estimate { value, error } = *self;
        let digits_max = i32::try_from(f.precision().unwrap_or(3)).unwrap_or(i32::MAX);
        if error == 0.0 {
            return write!(f, "{value:.*}", digits_max as usize);
        }
        // Digits after the point, or before the point if negative.
        let digits = digits_max.min(-error.log10().floor() as i32);
        let step = 10_f64.powi(-digits);
        let rounded = |number: f64| (number / step).round() * step;
        let shown = digits.max(0) as usize;
        write!(f, "{:.shown$} +- {:.shown$}", rounded(value), rounded(error).max(step))
    }
}

/// Denominator of the shares given to core.
const WHOLE: u64 = 1 << 32;

fn part_of(share: f64) -> u64 {
    (share.clamp(0.0, 1.0) * WHOLE as f64) as u64
}

/// Returns the jackknife standard error, from the estimates without each group.
fn jackknife(without: impl FnMut(usize) -> f64) -> f64 {
    let estimates: Vec<f64> = (0..NR_GROUPS).map(without).collect();
    let nr = NR_GROUPS as f64;
    let mean = estimates.iter().sum::<f64>() / nr;
    let squares: f64 = estimates.iter().map(|one| (one - mean).powi(2)).sum();
    (squares * (nr - 1.0) / nr).sqrt()
}

/// The hit ratio at other memory sizes, from [`CacheStats::sizing`].
///
/// The curve is LRU's over the cache's life. A page used once is a miss at every size. The curve is
/// scaled to pass through the measured ratio at the present size: hits below this size, misses
/// above it. So the effect of the policy and of readahead is taken to be the same at all sizes.
/// Sizes beyond [`Sizing::memory_known`] get the estimate for that size.
///
/// [`Sizing::estimate`] gives the sampling error, which combines
///
/// - the choice of pages: a jackknife over eight groups of pages,
/// - the depth: the number of sampled pages above a page is uncertain by its square root, and so is
///   the memory size that belongs to a ratio.
///
/// The error does not cover the policy's difference from LRU.
///
/// ```
/// # use pagetide::{Bytes, OpenOptions, PageCache};
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("data");
/// # std::fs::write(&path, vec![1; 2 << 20])?;
/// let cache = PageCache::builder().memory(Bytes(1 << 20)).readahead_max(Bytes(0)).build()?;
/// let file = cache.open(&path, OpenOptions::new().read(true))?;
/// for offset in (0..10 * (2 << 20)).step_by(4096) {
///     file.read_at(&mut [0; 64], offset % (2 << 20))?; // ten times over 2 MiB
/// }
/// let sizing = cache.stats().sizing();
/// assert!(sizing.hit_ratio(Bytes(4 << 20)) > 0.85);
/// println!("with twice as much: {}", sizing.estimate(Bytes(2 << 20)));
/// assert!(sizing.working_set(0.99) <= Bytes(5 << 19));
/// # Ok(())
/// # }
/// ```
///
/// [`CacheStats::sizing`]: crate::CacheStats::sizing
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sizing {
    pub(crate) counts: ReuseCounts,
    pub(crate) memory: Bytes,
    pub(crate) nr_hits: u64,
    pub(crate) nr_accesses: u64,
}

impl Sizing {
    /// Returns the estimated hit ratio with `memory`, the measured ratio at the present size, or 0
    /// before the first access. Never falls as `memory` grows.
    pub fn hit_ratio(&self, memory: Bytes) -> f64 {
        if self.nr_accesses == 0 {
            return 0.0;
        }
        let [there, here] = [memory, self.memory].map(|memory| self.lru_hit_ratio(memory));
        self.draw(memory, there, here)
    }

    /// Returns [`Sizing::hit_ratio`] with its sampling error. The error is 0 if every page is
    /// followed, and at the present size, where the ratio is measured.
    pub fn estimate(&self, memory: Bytes) -> Estimate {
        let value = self.hit_ratio(memory);
        if self.nr_accesses == 0 || memory == self.memory {
            return Estimate { value, error: 0.0 };
        }
        let frames = [memory, self.memory].map(Bytes::whole_pages);
        let by_group = jackknife(|group| {
            let [there, here] = frames.map(|frames| {
                self.ratio(self.counts.hits_without(group, frames, self.nr_accesses))
            });
            self.draw(memory, there, here)
        });
        // The smaller depth is part of the larger one, so their errors are correlated.
        let small = frames[0].min(frames[1]);
        let (both, alone) =
            (self.depth_error(small), self.depth_error(frames[0].abs_diff(frames[1])));
        let shifted = |frames: u64, shift: f64| {
            let frames = (frames as f64 + shift).max(0.0).round() as u64;
            self.ratio(self.counts.hits(frames, self.nr_accesses))
        };
        let half_between = |shift: &dyn Fn(f64) -> [f64; 2]| {
            let [up, down] = [1.0, -1.0].map(|side| {
                let [there, here] = shift(side);
                self.draw(memory, there, here)
            });
            (up - down).abs() / 2.0
        };
        let together = half_between(&|side| frames.map(|frames| shifted(frames, side * both)));
        let apart = half_between(&|side| {
            frames.map(|frames| shifted(frames, if frames > small { side * alone } else { 0.0 }))
        });
        Estimate { value, error: self.combine(by_group, together.hypot(apart)) }
    }

    /// Returns LRU's hit ratio with `memory`, without readahead. Not comparable to
    /// [`Sizing::hit_ratio`] of a cache that reads ahead.
    pub fn lru_hit_ratio(&self, memory: Bytes) -> f64 {
        self.ratio(self.counts.hits(memory.whole_pages(), self.nr_accesses))
    }

    /// Returns [`Sizing::lru_hit_ratio`] with its sampling error.
    pub fn lru_estimate(&self, memory: Bytes) -> Estimate {
        let frames = memory.whole_pages();
        let hits = |frames| self.ratio(self.counts.hits(frames, self.nr_accesses));
        let by_group = jackknife(|group| {
            self.ratio(self.counts.hits_without(group, frames, self.nr_accesses))
        });
        let shift = self.depth_error(frames).round() as u64;
        let by_depth = (hits(frames + shift) - hits(frames.saturating_sub(shift))) / 2.0;
        Estimate { value: hits(frames), error: self.combine(by_group, by_depth) }
    }

    fn ratio(&self, hits: u64) -> f64 {
        if self.nr_accesses == 0 { 0.0 } else { hits as f64 / self.nr_accesses as f64 }
    }

    fn draw(&self, memory: Bytes, there: f64, here: f64) -> f64 {
        let measured = self.ratio(self.nr_hits);
        if memory <= self.memory {
            return if here > 0.0 { measured * (there / here) } else { measured };
        }
        let missed = 1.0 - measured;
        1.0 - if here < 1.0 { missed * ((1.0 - there) / (1.0 - here)) } else { missed }
    }

    /// Returns the standard error of a depth of `frames`: with one page in s followed, the number
    /// of n pages is off by the square root of n (1 - 1/s) / s.
    fn depth_error(&self, frames: u64) -> f64 {
        (frames as f64 * (self.pages_to_one() - 1.0)).sqrt()
    }

    fn pages_to_one(&self) -> f64 {
        2_f64.powi(self.counts.rate().shift().into())
    }

    /// The group error is 0 if all pages are followed.
    fn combine(&self, by_group: f64, by_depth: f64) -> f64 {
        (by_group * (1.0 - self.pages_to_one().recip()).sqrt()).hypot(by_depth)
    }

    /// Returns the smallest memory with which LRU gets `share` (0 to 1) of its hits at
    /// [`Sizing::memory_known`]. Returns 0 if LRU has no hits.
    pub fn working_set(&self, share: f64) -> Bytes {
        Bytes::from_pages(self.counts.frames_for(part_of(share), WHOLE, self.nr_accesses))
    }

    /// Returns one standard error of [`Sizing::working_set`].
    pub fn working_set_error(&self, share: f64) -> Bytes {
        let part = part_of(share);
        let by_group = jackknife(|group| {
            self.counts.frames_for_without(group, part, WHOLE, self.nr_accesses) as f64
        });
        let by_depth = self.depth_error(self.working_set(share).whole_pages());
        Bytes::from_pages(self.combine(by_group, by_depth).round() as u64)
    }

    /// Returns the largest memory with an estimate of its own, at least four times the present
    /// size.
    pub fn memory_known(&self) -> Bytes {
        Bytes::from_pages(self.counts.frames_known())
    }

    /// Returns the present memory size.
    pub fn memory(&self) -> Bytes {
        self.memory
    }

    /// Returns the number of sampled accesses.
    pub fn sampled_accesses(&self) -> u64 {
        self.counts.nr_sampled()
    }

    /// Returns the sizing of the time since `before`, an earlier result of the same cache.
    pub fn since(&self, before: &Sizing) -> Sizing {
        Sizing {
            counts: self.counts.since(&before.counts),
            memory: self.memory,
            nr_hits: self.nr_hits.saturating_sub(before.nr_hits),
            nr_accesses: self.nr_accesses.saturating_sub(before.nr_accesses),
        }
    }
}

#[cfg(test)]
mod tests;

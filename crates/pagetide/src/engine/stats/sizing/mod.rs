//! What other sizes of memory would do, estimated from the running cache.
//!
//! Core follows a sample of the pages (see [`pagetide_core::sizing`]); here it is told of
//! their uses, and here is what people read.
//!
//! ```text
//!   fill   --> in the sample? --> the folio's flag SAMPLED, and the use, under the lock
//!   hit    --> flag? -no-> nothing    -yes-> the lock is tried; a use that is lost is made good
//!   curve      LRU's hits at any size, drawn through the measured ratio at the size there is
//! ```
//!
//! A hit tests the flag together with those of readahead, in a word it has read anyway: pages that
//! are not followed pay nothing. The lock is a leaf, held for one look-up.

use crate::memory::locks::lock;
use crossbeam_utils::CachePadded;
use pagetide_core::folio::Flags;
use pagetide_core::sizing::{NR_GROUPS, PageKey, ReuseCounts, ReuseSample, SampleRate};
use pagetide_core::units::Bytes;
use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// The sample of one cache.
pub(crate) struct ReuseSampler {
    /// As the sample's; so that pages outside it take no lock.
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

    /// The flag of a page that is followed, to be set when it gets a frame.
    pub(crate) fn flag(&self, page: PageKey) -> Flags {
        if self.takes(page) { Flags::SAMPLED } else { Flags::NONE }
    }

    /// A page was used, resident or not.
    pub(crate) fn access(&self, page: PageKey) {
        if self.takes(page) {
            lock(&self.sample).access(page);
        }
    }

    /// A resident page was used that carries the flag. Waits for no lock.
    #[cold]
    pub(crate) fn hit(&self, page: PageKey) {
        // A use that is lost here is counted as one at a short distance.
        if let Ok(mut sample) = self.sample.try_lock() {
            sample.access(page);
        }
    }

    /// A page's contents were thrown away.
    pub(crate) fn discard(&self, page: PageKey) {
        if self.takes(page) {
            lock(&self.sample).discard(page);
        }
    }

    /// Memory has another size. Where the sample would be too shallow for it, it begins anew.
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

/// A number estimated from a sample, and what it may be off by.
///
/// Its text has no digit finer than the error, nor than the precision that is asked for (three
/// without): `0.71 +- 0.03`. An error of 0 is left out: then nothing was sampled.
///
/// ```
/// # use pagetide::Estimate;
/// assert_eq!(Estimate { value: 0.7134, error: 0.028 }.to_string(), "0.71 +- 0.03");
/// assert_eq!(Estimate { value: 0.7134, error: 0.0 }.to_string(), "0.713");
/// assert_eq!(format!("{:.1}", Estimate { value: 513.2, error: 37.0 }), "510 +- 40");
/// ```
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Estimate {
    /// The number.
    pub value: f64,
    /// One standard error: two times in three, the number is off by less.
    pub error: f64,
}

impl fmt::Display for Estimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Estimate { value, error } = *self;
        let digits_max = i32::try_from(f.precision().unwrap_or(3)).unwrap_or(i32::MAX);
        if error == 0.0 {
            return write!(f, "{value:.*}", digits_max as usize);
        }
        // So many digits after the point, or before it where there are fewer than none.
        let digits = digits_max.min(-error.log10().floor() as i32);
        let step = 10_f64.powi(-digits);
        let rounded = |number: f64| (number / step).round() * step;
        let shown = digits.max(0) as usize;
        write!(f, "{:.shown$} +- {:.shown$}", rounded(value), rounded(error).max(step))
    }
}

/// Shares are given to core as parts of this.
const WHOLE: u64 = 1 << 32;

fn part_of(share: f64) -> u64 {
    (share.clamp(0.0, 1.0) * WHOLE as f64) as u64
}

/// The standard error of the estimate of all groups together, from the estimates without each of
/// them.
fn jackknife(without: impl FnMut(usize) -> f64) -> f64 {
    let estimates: Vec<f64> = (0..NR_GROUPS).map(without).collect();
    let nr = NR_GROUPS as f64;
    let mean = estimates.iter().sum::<f64>() / nr;
    let squares: f64 = estimates.iter().map(|one| (one - mean).powi(2)).sum();
    (squares * (nr - 1.0) / nr).sqrt()
}

/// What the hit ratio would have been with other sizes of memory, by [`CacheStats::sizing`].
///
/// The curve is that of LRU, from a sample of the pages, over the cache's life so far; pages used
/// once are misses at every size. It is then drawn through what was measured: at sizes below the
/// present one, hits are scaled so that there they are what they were; above it, misses are. So it
/// knows of the policy and of readahead what they did at one size, and takes that to hold for
/// others.
///
/// How far it may be off is said with it ([`Sizing::estimate`]), from the sample itself:
///
/// - which pages are followed: the pages are dealt into eight groups, and what each seven of them
///   say is compared (a jackknife);
/// - how deep they were found: of n sampled pages above one another, so many pages stand between
///   that n is uncertain by its square root, and with it the size that a ratio belongs to.
///
/// It says nothing of how unlike LRU the policy is, of which the curve knows one point. Sizes
/// beyond [`Sizing::memory_known`] are estimated as that one.
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
    /// The hit ratio there would have been with `memory`; the measured one at the present size, 0
    /// before the first access. Never falls with `memory`.
    pub fn hit_ratio(&self, memory: Bytes) -> f64 {
        if self.nr_accesses == 0 {
            return 0.0;
        }
        let [there, here] = [memory, self.memory].map(|memory| self.lru_hit_ratio(memory));
        self.draw(memory, there, here)
    }

    /// As [`Sizing::hit_ratio`], with what it may be off by because of the sample; 0 where every
    /// page is followed, and at the present size, which was measured.
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
        // The depth of the smaller size is a part of the larger one's, and off with it.
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

    /// The hit ratio LRU would have had with `memory`, without readahead: not to be compared with
    /// [`Sizing::hit_ratio`] of a cache that reads ahead.
    pub fn lru_hit_ratio(&self, memory: Bytes) -> f64 {
        self.ratio(self.counts.hits(memory.whole_pages(), self.nr_accesses))
    }

    /// As [`Sizing::lru_hit_ratio`], with what it may be off by because of the sample.
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

    /// The curve's ratios at `memory` and at the present size, drawn through what was measured.
    fn draw(&self, memory: Bytes, there: f64, here: f64) -> f64 {
        let measured = self.ratio(self.nr_hits);
        if memory <= self.memory {
            return if here > 0.0 { measured * (there / here) } else { measured };
        }
        let missed = 1.0 - measured;
        1.0 - if here < 1.0 { missed * ((1.0 - there) / (1.0 - here)) } else { missed }
    }

    /// What a depth of `frames` may be off by: of n pages one in s is followed, and their number is
    /// off by the square root of n (1 - 1/s) / s.
    fn depth_error(&self, frames: u64) -> f64 {
        (frames as f64 * (self.pages_to_one() - 1.0)).sqrt()
    }

    fn pages_to_one(&self) -> f64 {
        2_f64.powi(self.counts.rate().shift().into())
    }

    /// Where all pages are followed there is no chance in which.
    fn combine(&self, by_group: f64, by_depth: f64) -> f64 {
        (by_group * (1.0 - self.pages_to_one().recip()).sqrt()).hypot(by_depth)
    }

    /// The smallest memory with which LRU would have had `share` (0 to 1) of the hits that it would
    /// have had with all the memory that is known of. Nothing, where there would have been none.
    pub fn working_set(&self, share: f64) -> Bytes {
        Bytes::from_pages(self.counts.frames_for(part_of(share), WHOLE, self.nr_accesses))
    }

    /// What [`Sizing::working_set`] may be off by: one standard error.
    pub fn working_set_error(&self, share: f64) -> Bytes {
        let part = part_of(share);
        let by_group = jackknife(|group| {
            self.counts.frames_for_without(group, part, WHOLE, self.nr_accesses) as f64
        });
        let by_depth = self.depth_error(self.working_set(share).whole_pages());
        Bytes::from_pages(self.combine(by_group, by_depth).round() as u64)
    }

    /// The largest memory of which anything is known, at least four times the present.
    pub fn memory_known(&self) -> Bytes {
        Bytes::from_pages(self.counts.frames_known())
    }

    /// The present size of memory.
    pub fn memory(&self) -> Bytes {
        self.memory
    }

    /// Accesses of pages that were followed: what the curve is drawn from.
    pub fn sampled_accesses(&self) -> u64 {
        self.counts.nr_sampled()
    }

    /// The same of the time since `before`, which is of the same cache: for one that runs for days.
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

//! What other sizes of memory would do, told from the running cache.
//!
//! Core follows a sample of the pages (see [`pagetide_core::sizing`]); here is who tells it of
//! their uses, and what people read.
//!
//! ```text
//!   fill   --> in the sample? --> the folio's flag SAMPLED, and the use, under the lock
//!   hit    --> flag? -no-> nothing    -yes-> the lock is tried; a use that is lost is made good
//!   curve      LRU's hits at any size, drawn through the measured ratio at the size there is
//! ```
//!
//! A hit tests the flag together with those of readahead, in a word it has read anyway: pages that
//! are not followed pay nothing. The lock is a leaf, held for one look-up.

use crate::locks::lock;
use crate::mapping::Mapping;
use crossbeam_utils::CachePadded;
use pagetide_core::folio::Flags;
use pagetide_core::ids::PageIndex;
use pagetide_core::sizing::{PageKey, ReuseCounts, ReuseSample, SampleRate};
use pagetide_core::units::Bytes;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// The sample of one cache.
pub(crate) struct ReuseSampler {
    /// As the sample's; so that who is not in it takes no lock.
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
    pub(crate) fn flag(&self, mapping: &Mapping, index: PageIndex) -> Flags {
        if self.takes(key(mapping, index)) { Flags::SAMPLED } else { Flags::NONE }
    }

    /// A page was used, resident or not.
    pub(crate) fn access(&self, mapping: &Mapping, index: PageIndex) {
        let page = key(mapping, index);
        if self.takes(page) {
            lock(&self.sample).access(page);
        }
    }

    /// A resident page was used that carries the flag. Waits for nobody.
    #[cold]
    pub(crate) fn hit(&self, mapping: &Mapping, index: PageIndex) {
        // A use that is lost here is counted as one at a short distance.
        if let Ok(mut sample) = self.sample.try_lock() {
            sample.access(key(mapping, index));
        }
    }

    /// A page's contents were thrown away.
    pub(crate) fn discard(&self, mapping: &Mapping, index: PageIndex) {
        let page = key(mapping, index);
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

#[inline]
fn key(mapping: &Mapping, index: PageIndex) -> PageKey {
    PageKey::of(mapping.name_hash, index)
}

/// What the hit ratio would have been with other sizes of memory, by [`CacheStats::sizing`].
///
/// The curve is that of LRU, from a sample of the pages, over the cache's life so far; pages used
/// once are misses at every size. It is then drawn through what was measured: at sizes below the
/// present one, hits are scaled so that there they are what they were; above it, misses are. So it
/// knows of the policy and of readahead what they did at one size, and takes that to hold for
/// others.
///
/// How far it may be off: with 256 to 1024 sampled pages in memory, a few points for most programs;
/// the design decisions have measurements. Sizes beyond [`Sizing::memory_known`] are told as that
/// one.
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
        let measured = self.nr_hits as f64 / self.nr_accesses as f64;
        let (there, here) = (self.lru_hit_ratio(memory), self.lru_hit_ratio(self.memory));
        if memory <= self.memory {
            return if here > 0.0 { measured * (there / here) } else { measured };
        }
        let missed = 1.0 - measured;
        1.0 - if here < 1.0 { missed * ((1.0 - there) / (1.0 - here)) } else { missed }
    }

    /// The hit ratio LRU would have had with `memory`, without readahead.
    pub fn lru_hit_ratio(&self, memory: Bytes) -> f64 {
        if self.nr_accesses == 0 {
            return 0.0;
        }
        self.counts.hits(memory.whole_pages(), self.nr_accesses) as f64 / self.nr_accesses as f64
    }

    /// The smallest memory with which LRU would have had `share` (0 to 1) of the hits that it would
    /// have had with all the memory that is known of. Nothing, where there would have been none.
    pub fn working_set(&self, share: f64) -> Bytes {
        const WHOLE: u64 = 1 << 32;
        let part = (share.clamp(0.0, 1.0) * WHOLE as f64) as u64;
        Bytes::from_pages(self.counts.frames_for(part, WHOLE, self.nr_accesses))
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

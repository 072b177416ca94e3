//! How often each reuse distance was seen among the sampled pages, and what that says of sizes.
//!
//! ```text
//!   distance  1 2 3 ... 16 | 17 18 .. 32 | 34 36 .. 64 | 68 72 .. 128 | ...    bucket's last
//!   width     1            | 1           | 2           | 4            |
//! ```
//!
//! Within a bucket, distances are taken to be spread evenly. All is whole numbers: the caller
//! divides.

use super::SampleRate;
use alloc::vec;
use alloc::vec::Vec;

/// Buckets to a doubling, as a power of two.
const SUB_SHIFT: u32 = 4;

/// Reuse distances of sampled pages, counted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReuseCounts {
    rate: SampleRate,
    capacity: u32,
    /// Uses of pages that were on the stack, by bucket of how deep.
    by_bucket: Vec<u64>,
    /// Uses of pages that were not.
    nr_new: u64,
}

/// The bucket of a distance of at least 1.
const fn bucket_of(distance: u32) -> usize {
    let before = distance - 1;
    if before < 1 << SUB_SHIFT {
        return before as usize;
    }
    let doubling = before.ilog2() - SUB_SHIFT;
    (((doubling + 1) << SUB_SHIFT) + (before >> doubling) - (1 << SUB_SHIFT)) as usize
}

/// The distances of a bucket are above the first number, and at most the second.
const fn bounds_of(bucket: usize) -> (u64, u64) {
    let (bucket, subs) = (bucket as u64, 1 << SUB_SHIFT);
    if bucket < subs {
        return (bucket, bucket + 1);
    }
    let doubling = (bucket >> SUB_SHIFT) - 1;
    let start = (subs + (bucket & (subs - 1))) << doubling;
    (start, start + (1 << doubling))
}

impl ReuseCounts {
    pub(super) fn new(rate: SampleRate, capacity: u32) -> ReuseCounts {
        let by_bucket = vec![0; bucket_of(capacity) + 1];
        ReuseCounts { rate, capacity, by_bucket, nr_new: 0 }
    }

    pub(super) fn count(&mut self, distance: Option<u32>) {
        match distance {
            Some(distance) => self.by_bucket[bucket_of(distance)] += 1,
            None => self.nr_new += 1,
        }
    }

    /// Uses of sampled pages.
    pub fn nr_sampled(&self) -> u64 {
        self.nr_new + self.by_bucket.iter().sum::<u64>()
    }

    /// Which pages were sampled.
    pub fn rate(&self) -> SampleRate {
        self.rate
    }

    /// The largest memory, in frames, of which anything is known: reuse from farther away counts as
    /// a first use.
    pub fn frames_known(&self) -> u64 {
        u64::from(self.capacity) << self.rate.shift()
    }

    /// How many of `nr_accesses` would have hit with LRU in a memory of `frames`; `nr_accesses` is
    /// of all pages, sampled or not, over the same time.
    ///
    /// Never falls with `frames`. Beyond [`ReuseCounts::frames_known`] it stays what it is there.
    pub fn hits(&self, frames: u64, nr_accesses: u64) -> u64 {
        if frames == 0 || self.nr_sampled() == 0 {
            return 0;
        }
        // In 1/2^shift uses, as frames are 1/2^shift sampled pages.
        let unit = 1_u128 << self.rate.shift();
        let mut hits = 0_u128;
        for (bucket, count) in self.by_bucket.iter().enumerate() {
            let (low, high) = bounds_of(bucket);
            let (low, high) = (u128::from(low) * unit, u128::from(high) * unit);
            let frames = u128::from(frames);
            if frames <= low {
                break;
            }
            hits += u128::from(*count) * unit * (frames.min(high) - low) / (high - low);
        }
        let expected = u128::from(nr_accesses);
        let sampled = u128::from(self.nr_sampled()) * unit;
        let hits = (hits + expected).saturating_sub(sampled);
        hits.min(expected) as u64
    }

    /// The smallest memory, in frames, in which at least `part` of `whole` of the accesses that
    /// would have hit in any known memory would have hit; 0 where none would.
    ///
    /// # Panics
    /// When `whole` is 0, or `part` more than that.
    pub fn frames_for(&self, part: u64, whole: u64, nr_accesses: u64) -> u64 {
        assert!(0 < whole && part <= whole, "a share is at most the whole");
        let most = self.hits(self.frames_known(), nr_accesses);
        let wanted = (u128::from(most) * u128::from(part)).div_ceil(u128::from(whole)) as u64;
        if wanted == 0 {
            return 0;
        }
        let (mut low, mut high) = (0, self.frames_known());
        while low + 1 < high {
            let middle = low + (high - low) / 2;
            if self.hits(middle, nr_accesses) >= wanted { high = middle } else { low = middle }
        }
        high
    }

    /// What was counted since `before` was read from the same sample; all of it, where that is of
    /// another one.
    pub fn since(&self, before: &ReuseCounts) -> ReuseCounts {
        let mut since = self.clone();
        let is_same = self.rate == before.rate && self.capacity == before.capacity;
        if is_same && self.nr_sampled() >= before.nr_sampled() {
            since.nr_new = since.nr_new.saturating_sub(before.nr_new);
            for (count, was) in since.by_bucket.iter_mut().zip(&before.by_bucket) {
                *count = count.saturating_sub(*was);
            }
        }
        since
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_follow_each_other_without_a_gap() {
        let mut end = 0;
        for bucket in 0..200 {
            let (low, high) = bounds_of(bucket);
            assert_eq!(low, end, "bucket {bucket}");
            assert_eq!(bucket_of(low as u32 + 1), bucket);
            assert_eq!(bucket_of(high as u32), bucket);
            assert!(high - low <= 1.max(low >> SUB_SHIFT), "bucket {bucket} is too wide");
            end = high;
        }
    }
}

//! Counts of reuse distances, and hits of other memory sizes.
//!
//! ```text
//!   distance  1 2 3 ... 16 | 17 18 .. 32 | 34 36 .. 64 | 68 72 .. 128 | ...    upper bounds
//!   width     1            | 1           | 2           | 4            |
//! ```
//!
//! Distances are assumed uniform within a bucket.
//!
//! Pages are divided into [`NR_GROUPS`] groups by hash. Leaving out one group at a time estimates
//! the sampling error.

use super::SampleRate;
use alloc::vec;
use alloc::vec::Vec;

/// Buckets per doubling, as a power of two.
const SUB_SHIFT: u32 = 4;

/// Groups of sampled pages.
pub const NR_GROUPS: usize = 8;

type Uses = [u64; NR_GROUPS];

/// Counts of reuse distances of sampled pages.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReuseCounts {
    rate: SampleRate,
    capacity: u32,
    by_bucket: Vec<Uses>,
    /// Uses of pages not on the stack.
    new: Uses,
}

const fn bucket_of(distance: u32) -> usize {
    let before = distance - 1;
    if before < 1 << SUB_SHIFT {
        return before as usize;
    }
    let doubling = before.ilog2() - SUB_SHIFT;
    (((doubling + 1) << SUB_SHIFT) + (before >> doubling) - (1 << SUB_SHIFT)) as usize
}

/// Returns the exclusive lower and inclusive upper bound of a bucket.
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
        let by_bucket = vec![[0; NR_GROUPS]; bucket_of(capacity) + 1];
        ReuseCounts { rate, capacity, by_bucket, new: [0; NR_GROUPS] }
    }

    pub(super) fn count(&mut self, group: usize, distance: Option<u32>) {
        match distance {
            Some(distance) => self.by_bucket[bucket_of(distance)][group] += 1,
            None => self.new[group] += 1,
        }
    }

    /// Returns the uses of sampled pages.
    pub fn nr_sampled(&self) -> u64 {
        self.nr_sampled_in(Groups::All)
    }

    fn nr_sampled_in(&self, groups: Groups) -> u64 {
        groups.sum(&self.new) + self.by_bucket.iter().map(|uses| groups.sum(uses)).sum::<u64>()
    }

    /// Returns the sampling rate.
    pub fn rate(&self) -> SampleRate {
        self.rate
    }

    /// Returns the largest known memory size, in frames.
    pub fn frames_known(&self) -> u64 {
        u64::from(self.capacity) << self.rate.shift()
    }

    /// Returns the LRU hits among `nr_accesses` (of all pages) in a memory of `frames`.
    ///
    /// Monotonic in `frames`. Constant beyond [`ReuseCounts::frames_known`].
    pub fn hits(&self, frames: u64, nr_accesses: u64) -> u64 {
        self.hits_in(Groups::All, frames, nr_accesses)
    }

    /// Same as [`ReuseCounts::hits`], without the pages of `group`.
    pub fn hits_without(&self, group: usize, frames: u64, nr_accesses: u64) -> u64 {
        assert!(group < NR_GROUPS, "there are {NR_GROUPS} groups");
        self.hits_in(Groups::AllBut(group), frames, nr_accesses)
    }

    fn hits_in(&self, groups: Groups, frames: u64, nr_accesses: u64) -> u64 {
        let nr_sampled = self.nr_sampled_in(groups);
        if frames == 0 || nr_sampled == 0 {
            return 0;
        }
        // In units of 1/2^shift uses.
        let unit = 1_u128 << self.rate.shift();
        let (whole, part) = (NR_GROUPS as u128, groups.nr());
        let mut hits = 0_u128;
        for (bucket, uses) in self.by_bucket.iter().enumerate() {
            let (low, high) = bounds_of(bucket);
            let (low, high) = (u128::from(low) * unit, u128::from(high) * unit);
            let frames = u128::from(frames);
            if frames <= low {
                break;
            }
            let uses = u128::from(groups.sum(uses)) * unit * whole;
            hits += uses * (frames.min(high) - low) / ((high - low) * part);
        }
        let expected = u128::from(nr_accesses);
        let sampled = u128::from(nr_sampled) * unit * whole / part;
        let hits = (hits + expected).saturating_sub(sampled);
        hits.min(expected) as u64
    }

    /// Returns the smallest memory, in frames, with `part` of `whole` of the hits of the largest
    /// known memory. 0 if there are none.
    pub fn frames_for(&self, part: u64, whole: u64, nr_accesses: u64) -> u64 {
        self.frames_for_in(Groups::All, (part, whole), nr_accesses)
    }

    /// Same as [`ReuseCounts::frames_for`], without the pages of `group`.
    pub fn frames_for_without(&self, group: usize, part: u64, whole: u64, nr_accesses: u64) -> u64 {
        assert!(group < NR_GROUPS, "there are {NR_GROUPS} groups");
        self.frames_for_in(Groups::AllBut(group), (part, whole), nr_accesses)
    }

    fn frames_for_in(&self, groups: Groups, (part, whole): (u64, u64), nr_accesses: u64) -> u64 {
        assert!(0 < whole && part <= whole, "a share is at most the whole");
        let most = self.hits_in(groups, self.frames_known(), nr_accesses);
        let wanted = (u128::from(most) * u128::from(part)).div_ceil(u128::from(whole)) as u64;
        if wanted == 0 {
            return 0;
        }
        let (mut low, mut high) = (0, self.frames_known());
        while low + 1 < high {
            let middle = low + (high - low) / 2;
            let is_enough = self.hits_in(groups, middle, nr_accesses) >= wanted;
            if is_enough { high = middle } else { low = middle }
        }
        high
    }

    /// Returns the counts since `before`, or all counts if it is of another sample.
    pub fn since(&self, before: &ReuseCounts) -> ReuseCounts {
        let mut since = self.clone();
        let is_same = self.rate == before.rate && self.capacity == before.capacity;
        if is_same && self.nr_sampled() >= before.nr_sampled() {
            subtract(&mut since.new, &before.new);
            for (uses, were) in since.by_bucket.iter_mut().zip(&before.by_bucket) {
                subtract(uses, were);
            }
        }
        since
    }
}

#[derive(Clone, Copy)]
enum Groups {
    All,
    AllBut(usize),
}

impl Groups {
    fn sum(self, uses: &Uses) -> u64 {
        let all = uses.iter().sum::<u64>();
        match self {
            Groups::All => all,
            Groups::AllBut(group) => all - uses[group],
        }
    }

    fn nr(self) -> u128 {
        match self {
            Groups::All => NR_GROUPS as u128,
            Groups::AllBut(_) => NR_GROUPS as u128 - 1,
        }
    }
}

fn subtract(uses: &mut Uses, were: &Uses) {
    for (count, was) in uses.iter_mut().zip(were) {
        *count = count.saturating_sub(*was);
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

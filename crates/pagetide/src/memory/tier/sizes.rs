//! How large each tier is to be, when the whole cache is resized.
//!
//! Problem: a cache of 2G of fast memory over 8G of slow is to be 5G large. Idea: every tier keeps
//! its share of the whole, as it was last set by itself: by the builder, or by its own resize.
//!
//! ```text
//!   shares      fast 2G   slow 8G
//!   resize 5G        1G        4G
//!   resize 10G       2G        8G         what was rounded on the way is not lost
//!   slow can grow to 9G: of a cache of 12G, fast has 3G
//! ```
//!
//! Data and invariants: numbers are frames. No tier has less than the least or more than was
//! reserved for it, and the fast one never more than all others: they must hold what leaves it.

use super::plan::TierPlan;
use pagetide_core::knobs::MEMORY_MIN;
use pagetide_core::units::Bytes;
use std::ops::RangeInclusive;

/// The least a tier has, frames.
const LEAST: u32 = Bytes(MEMORY_MIN).whole_pages() as u32;
/// A share's multiple is a number of 2^-32ths.
const ONE_SHIFT: u32 = 32;

/// What is known of the sizes of tiers, the fastest first; of two at least.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct TierSizes {
    /// As they were set, each by itself.
    shares: Vec<u32>,
    /// What was reserved.
    most: Vec<u32>,
}

impl TierSizes {
    /// As planned.
    pub(crate) fn new(plan: &TierPlan) -> TierSizes {
        TierSizes {
            shares: plan.nodes.iter().map(|node| node.nr_frames).collect(),
            most: plan.nodes.iter().map(|node| node.nr_frames_max).collect(),
        }
    }

    /// Takes these sizes for what was asked for, each by itself.
    pub(crate) fn set_shares(&mut self, sizes: Vec<u32>) {
        self.shares = sizes;
    }

    /// The frames that the `nth` tier may have while the others have those of `sizes`.
    pub(crate) fn range_of(&self, nth: usize, sizes: &[u32]) -> RangeInclusive<u32> {
        let (fast, slow) = (sizes[0], sizes[1..].iter().sum::<u32>());
        match nth {
            0 => LEAST..=self.most[0].min(slow),
            _ => LEAST.max(fast.saturating_sub(slow - sizes[nth]))..=self.most[nth],
        }
    }

    /// The frames that all of them together may have.
    pub(crate) fn range_of_all(&self) -> RangeInclusive<u32> {
        let slow: u32 = self.most[1..].iter().sum();
        LEAST * self.most.len() as u32..=slow + self.most[0].min(slow)
    }

    /// Shares out so many frames, which must be in [`TierSizes::range_of_all`].
    pub(crate) fn share(&self, nr_frames: u32) -> Vec<u32> {
        let most = |nth: usize| match nth {
            0 => self.most[0].min(nr_frames / 2),
            _ => self.most[nth],
        };
        let sizes_at = |multiple: u128| -> Vec<u32> {
            let size = |(nth, share): (usize, &u32)| {
                let wanted = (u128::from(*share) * multiple) >> ONE_SHIFT;
                u32::try_from(wanted).unwrap_or(u32::MAX).clamp(LEAST, most(nth))
            };
            self.shares.iter().enumerate().map(size).collect()
        };
        // The largest multiple at which they fit.
        let (mut fits, mut exceeds) = (0, 1_u128 << 63);
        while exceeds - fits > 1 {
            let middle = fits.midpoint(exceeds);
            let is_too_much = sizes_at(middle).iter().sum::<u32>() > nr_frames;
            *(if is_too_much { &mut exceeds } else { &mut fits }) = middle;
        }
        let mut sizes = sizes_at(fits);
        let mut left = nr_frames - sizes.iter().sum::<u32>();
        for (nth, size) in sizes.iter_mut().enumerate().rev() {
            let more = left.min(most(nth) - *size);
            *size += more;
            left -= more;
        }
        sizes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sizes(shares: &[u32], most: &[u32]) -> TierSizes {
        TierSizes { shares: shares.to_vec(), most: most.to_vec() }
    }

    #[test]
    fn tiers_keep_their_shares_and_get_them_back() {
        let all = sizes(&[200, 800], &[400, 900]);
        assert_eq!(all.share(500), [100, 400]);
        assert_eq!(all.share(1000), [200, 800]);
        assert_eq!(all.share(501), [100, 401]);
        assert_eq!(all.share(1200), [300, 900], "the slow tier is as large as it gets");
        assert_eq!(all.share(40), [16, 24], "no tier is smaller than the least");
        assert_eq!(all.range_of_all(), 32..=1300);
    }

    #[test]
    fn the_fast_tier_is_never_larger_than_the_rest() {
        let all = sizes(&[100, 100], &[1000, 300]);
        assert_eq!(all.range_of_all(), 32..=600);
        assert_eq!(all.share(600), [300, 300]);
        assert_eq!(all.range_of(0, &[100, 250]), 16..=250);
        assert_eq!(all.range_of(1, &[100, 250]), 100..=300);
        let three = sizes(&[100, 80, 90], &[200, 200, 200]);
        assert_eq!(three.range_of(2, &[100, 80, 90]), 20..=200);
        assert_eq!(three.range_of(1, &[100, 80, 190]), 16..=200);
    }

    proptest! {
        #[test]
        fn whatever_is_asked_for_is_shared_out_whole(
            tiers in prop::collection::vec((16..5000_u32, 0..3000_u32), 2..8),
            at in 0..=1000_u64,
        ) {
            let most: Vec<u32> = tiers.iter().map(|(share, more)| share + more).collect();
            let shares: Vec<u32> = tiers.iter().map(|(share, _)| *share).collect();
            let all = sizes(&shares, &most);
            let range = all.range_of_all();
            let span = u64::from(range.end() - range.start());
            let wanted = range.start() + (span * at / 1000) as u32;
            let shared = all.share(wanted);
            prop_assert_eq!(shared.iter().sum::<u32>(), wanted);
            prop_assert!(shared[0] <= shared[1..].iter().sum());
            let mut fits = shared.iter().zip(&most);
            prop_assert!(fits.all(|(size, most)| (LEAST..=*most).contains(size)));
        }
    }
}

//! The size of each tier when the whole cache is resized.
//!
//! Problem: one size for several tiers. Idea: every tier keeps its share, as last set by the
//! builder or by a resize of the tier.
//!
//! ```text
//!   shares      fast 2G   slow 8G
//!   resize 5G        1G        4G
//!   resize 10G       2G        8G         rounding errors do not accumulate
//!   slow can grow to 9G: in a cache of 12G, fast has 3G
//! ```
//!
//! Data and invariants: numbers are frames. Each tier stays between the minimum and its reserve.
//! The fast tier is never larger than the sum of the slower tiers, which must hold its demoted
//! pages.

use super::plan::TierPlan;
use pagetide_core::knobs::MEMORY_MIN;
use pagetide_core::units::Bytes;
use std::ops::RangeInclusive;

const LEAST: u32 = Bytes(MEMORY_MIN).whole_pages() as u32;
/// The multiple of a share is in units of 2^-32.
const ONE_SHIFT: u32 = 32;

/// Sizes of at least two tiers, fastest first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct TierSizes {
    /// Sizes as last set individually.
    shares: Vec<u32>,
    most: Vec<u32>,
}

impl TierSizes {
    pub(crate) fn new(plan: &TierPlan) -> TierSizes {
        TierSizes {
            shares: plan.nodes.iter().map(|node| node.nr_frames).collect(),
            most: plan.nodes.iter().map(|node| node.nr_frames_max).collect(),
        }
    }

    pub(crate) fn set_shares(&mut self, sizes: Vec<u32>) {
        self.shares = sizes;
    }

    /// Returns the valid sizes of the `nth` tier, given the sizes of the rest.
    pub(crate) fn range_of(&self, nth: usize, sizes: &[u32]) -> RangeInclusive<u32> {
        let (fast, slow) = (sizes[0], sizes[1..].iter().sum::<u32>());
        match nth {
            0 => LEAST..=self.most[0].min(slow),
            _ => LEAST.max(fast.saturating_sub(slow - sizes[nth]))..=self.most[nth],
        }
    }

    pub(crate) fn range_of_all(&self) -> RangeInclusive<u32> {
        let slow: u32 = self.most[1..].iter().sum();
        LEAST * self.most.len() as u32..=slow + self.most[0].min(slow)
    }

    /// Distributes `nr_frames`, which must be in [`TierSizes::range_of_all`].
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
        // Finds the largest multiple that fits.
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

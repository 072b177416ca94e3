//! The feedback controller: who deserves protection is learnt from refaults.
//!
//! Problem: is a page that was read twice worth more than one read once, and a file page more than
//! an anonymous one? No fixed answer is right for all workloads.
//!
//! Idea: evict, and count who comes back. For each type and tier there is a refault ratio, the
//! refaulted over those evicted or protected. A tier is evicted as long as its ratio is not clearly
//! above that of tier 0, which nothing protects; from the first tier that is, all are moved on.
//!
//! ```text
//!            tier 0      tier 1      tier 2      tier 3
//!   ratio    4 %   x1.5  5 %         9 %  <- above 6 %
//!            evicted     evicted     protected   protected        limit = 1
//! ```
//!
//! The two types are weighed the same way, by swappiness. Ratios are compared as products, in
//! integers; fewer than 64 refaults say nothing and protect nobody. When a generation is used up,
//! its counts are folded into a moving average and forgotten.
//!
//! Ignored: sizes and costs of I/O. Source: the multi-gen LRU specification, section 7, profile B.

use super::swappiness::Swappiness;
use super::tiers::{NR_TIERS, RefTier};
use crate::ids::PageType;

/// Refaults below which a ratio is noise.
const NOISE: u64 = 64;
/// Weights of tier 0 and of the tier compared with it: 1.5 times the ratio is still evicted.
const TIER_GAINS: (u64, u64) = (2, 3);

/// What is known of one type and tier. Units: pages.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct TierCounts {
    /// Moving average over past generations: pages that came back.
    pub avg_refaulted: u64,
    /// Moving average over past generations: pages evicted or protected.
    pub avg_total: u64,
    /// Came back since the oldest generation became the oldest.
    pub refaulted: u64,
    /// Evicted since then.
    pub evicted: u64,
    /// Moved to the next generation instead of evicted, since then.
    pub protected: u64,
}

/// One side of a comparison: a refault ratio and its weight.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Position {
    refaulted: u64,
    total: u64,
    gain: u64,
}

impl Position {
    fn of(counts: &[TierCounts], gain: u64) -> Position {
        let sum = |part: fn(&TierCounts) -> u64| counts.iter().map(part).sum();
        Position {
            refaulted: sum(|tier| tier.avg_refaulted + tier.refaulted),
            total: sum(|tier| tier.avg_total + tier.evicted + tier.protected),
            gain,
        }
    }

    /// Whether this side may be evicted, measured against `setpoint`: its weighed refault ratio is
    /// not above the setpoint's.
    fn is_within(self, setpoint: Position) -> bool {
        let product = |a: u64, b: u64, c: u64| u128::from(a) * u128::from(b) * u128::from(c);
        self.refaulted < NOISE
            || product(self.refaulted, setpoint.total + NOISE, setpoint.gain)
                <= product(setpoint.refaulted + 1, self.total, self.gain)
    }
}

/// Counts of both types and all tiers.
#[derive(Default, Debug)]
pub(super) struct Controller {
    counts: [[TierCounts; NR_TIERS]; 2],
}

impl Controller {
    /// Which type to evict from first.
    pub(super) fn type_to_evict(&self, swappiness: Swappiness) -> PageType {
        if let Some(page_type) = swappiness.forced_type() {
            return page_type;
        }
        let [anon, file] = PageType::ALL
            .map(|page_type| Position::of(self.tiers(page_type), swappiness.gain(page_type)));
        if file.is_within(anon) { PageType::File } else { PageType::Anon }
    }

    /// The last tier of a type that is not protected now.
    pub(super) fn tier_limit(&self, page_type: PageType) -> RefTier {
        let (base_gain, gain) = TIER_GAINS;
        let [base, others @ ..] = self.tiers(page_type);
        let base = Position::of(&[*base], base_gain);
        let evicted =
            others.iter().take_while(|tier| Position::of(&[**tier], gain).is_within(base));
        RefTier(evicted.count() as u8)
    }

    /// The counts of a type, by tier.
    pub(super) fn tiers(&self, page_type: PageType) -> &[TierCounts; NR_TIERS] {
        &self.counts[page_type.index()]
    }

    /// The counts of one type and tier, to add to.
    pub(super) fn tier_mut(&mut self, page_type: PageType, tier: RefTier) -> &mut TierCounts {
        &mut self.counts[page_type.index()][tier.index()]
    }

    /// The type's oldest generation is used up: its counts join the average.
    pub(super) fn fold(&mut self, page_type: PageType) {
        for tier in &mut self.counts[page_type.index()] {
            *tier = TierCounts {
                avg_refaulted: (tier.avg_refaulted + tier.refaulted) / 2,
                avg_total: (tier.avg_total + tier.evicted + tier.protected) / 2,
                ..TierCounts::default()
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(refaulted: u64, evicted: u64) -> TierCounts {
        TierCounts { refaulted, evicted, ..TierCounts::default() }
    }

    fn with(tiers: &[(PageType, u8, TierCounts)]) -> Controller {
        let mut controller = Controller::default();
        for (page_type, tier, counts) in tiers {
            *controller.tier_mut(*page_type, RefTier(*tier)) = *counts;
        }
        controller
    }

    fn chosen(anon: TierCounts, file: TierCounts) -> PageType {
        with(&[(PageType::Anon, 0, anon), (PageType::File, 0, file)]).type_to_evict(60.into())
    }

    /// Specification, section 7, first line of vectors.
    #[test]
    fn the_type_that_refaults_less_is_evicted() {
        assert_eq!(chosen(counts(100, 1000), counts(200, 4000)), PageType::File);
        assert_eq!(chosen(counts(10, 1000), counts(2000, 4000)), PageType::Anon);
        assert_eq!(chosen(counts(0, 1_000_000), counts(63, 64)), PageType::File, "noise");
    }

    #[test]
    fn type_choice_sums_all_tiers() {
        let anon = (PageType::Anon, 0, counts(10, 1000));
        let refaults = [0, 1, 2, 3].map(|tier| (PageType::File, tier, counts(500, 1000)));
        let mut rows = refaults.to_vec();
        rows.push(anon);
        assert_eq!(with(&rows).type_to_evict(60.into()), PageType::Anon);
    }

    #[test]
    fn the_ends_of_swappiness_ignore_refaults() {
        let busy_files = with(&[(PageType::File, 0, counts(4000, 4000))]);
        assert_eq!(busy_files.type_to_evict(1.into()), PageType::File);
        let busy_anon = with(&[(PageType::Anon, 0, counts(4000, 4000))]);
        assert_eq!(busy_anon.type_to_evict(200.into()), PageType::Anon);
    }

    /// Specification, section 7: own-tier 2:3 against tier 0 at 100/2000.
    #[test]
    fn a_tier_is_protected_from_one_and_a_half_times_the_base_ratio() {
        let limit = |refaulted| {
            with(&[
                (PageType::File, 0, counts(100, 2000)),
                (PageType::File, 1, counts(refaulted, 1000)),
            ])
            .tier_limit(PageType::File)
        };
        assert_eq!(limit(73), RefTier(3));
        assert_eq!(limit(74), RefTier(0));
    }

    #[test]
    fn tiers_above_the_first_protected_one_are_protected_too() {
        let controller =
            with(&[(PageType::File, 0, counts(100, 2000)), (PageType::File, 2, counts(900, 1000))]);
        assert_eq!(controller.tier_limit(PageType::File), RefTier(1));
        assert_eq!(controller.tier_limit(PageType::Anon), RefTier(3), "types are apart");
    }

    #[test]
    fn a_cold_start_evicts_files_and_protects_nothing() {
        let controller = Controller::default();
        assert_eq!(controller.type_to_evict(60.into()), PageType::File);
        assert_eq!(PageType::ALL.map(|t| controller.tier_limit(t)), [RefTier(3); 2]);
    }

    /// Specification, section 7, the last vector.
    #[test]
    fn folding_halves_and_starts_over() {
        let before = TierCounts {
            avg_refaulted: 100,
            refaulted: 301,
            avg_total: 1000,
            evicted: 500,
            protected: 201,
        };
        let mut controller = with(&[(PageType::File, 2, before), (PageType::Anon, 2, before)]);
        controller.fold(PageType::File);
        let after = TierCounts { avg_refaulted: 200, avg_total: 850, ..TierCounts::default() };
        assert_eq!(controller.tiers(PageType::File)[2], after);
        assert_eq!(controller.tiers(PageType::Anon)[2], before, "the other type waits");
    }

    #[test]
    fn products_of_large_counts_do_not_overflow() {
        let huge = counts(1 << 50, 1 << 50);
        assert_eq!(chosen(huge, huge), PageType::File);
    }
}

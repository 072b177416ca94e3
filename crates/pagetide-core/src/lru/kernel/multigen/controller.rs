//! The feedback controller: learns from refaults which tiers to protect.
//!
//! Problem: the value of a second read, or of a file page, depends on the workload. Idea: each type
//! and tier has a refault ratio: refaulted pages over evicted and protected pages. Tier 0 is never
//! protected. Eviction protects the first tier with a ratio clearly above tier 0, and all higher
//! tiers.
//!
//! ```text
//!            tier 0      tier 1      tier 2      tier 3
//!   ratio    4 %   x1.5  5 %         9 %  <- above 6 %      (Linux 6.18; 6.1 has x2)
//!            evicted     evicted     protected   protected        limit = 1
//! ```
//!
//! Swappiness weighs the two types in the same comparison. Ratios are compared as integer products,
//! with operands and weights chosen by the profile. Fewer than 64 refaults are noise. When a
//! generation is retired, its counts are folded into a moving average.
//!
//! Ignored: sizes and costs of I/O. Source: `Documentation/mm/multigen_lru.rst`, "PID
//! controller".

use super::swappiness::Swappiness;
use super::tiers::{NR_TIERS, RefTier};
use crate::ids::PageType;

const NOISE: u64 = 64;

/// Weights of tier 0 and of the compared tier. A tier is evicted up to `compared / base` times the
/// ratio of tier 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Gains {
    pub(super) base: u64,
    pub(super) compared: u64,
}

impl Gains {
    pub(super) const EVEN: Gains = Gains { base: 1, compared: 1 };
}

/// Counts of one type and tier, in pages.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct RefTierCounts {
    /// Moving average of refaulted pages over past generations.
    pub avg_refaulted: u64,
    /// Moving average of evicted and protected pages over past generations.
    pub avg_total: u64,
    /// Pages refaulted since the oldest generation became the oldest.
    pub refaulted: u64,
    /// Pages evicted since then.
    pub evicted: u64,
    /// Pages moved to the next generation since then, instead of evicted.
    pub protected: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Position {
    refaulted: u64,
    total: u64,
    gain: u64,
}

impl Position {
    fn of(counts: &[RefTierCounts], gain: u64) -> Position {
        let sum = |part: fn(&RefTierCounts) -> u64| counts.iter().map(part).sum();
        Position {
            refaulted: sum(|tier| tier.avg_refaulted + tier.refaulted),
            total: sum(|tier| tier.avg_total + tier.evicted + tier.protected),
            gain,
        }
    }

    /// Returns true if the weighed refault ratio is at most the ratio of `setpoint`.
    fn is_within(self, setpoint: Position) -> bool {
        let product = |a: u64, b: u64, c: u64| u128::from(a) * u128::from(b) * u128::from(c);
        self.refaulted < NOISE
            || product(self.refaulted, setpoint.total + NOISE, setpoint.gain)
                <= product(setpoint.refaulted + 1, self.total, self.gain)
    }
}

#[derive(Default, Debug)]
pub(crate) struct Controller {
    counts: [[RefTierCounts; NR_TIERS]; 2],
}

impl Controller {
    /// Compares the weighed refault ratios of the first `nr_tiers` tiers.
    pub(super) fn type_to_evict(&self, swappiness: Swappiness, nr_tiers: usize) -> PageType {
        let [anon, file] = PageType::ALL.map(|page_type| {
            Position::of(&self.tiers(page_type)[..nr_tiers], swappiness.gain(page_type))
        });
        if file.is_within(anon) { PageType::File } else { PageType::Anon }
    }

    /// Compares with tier 0 of `base_type`.
    pub(super) fn tier_limit(
        &self,
        base_type: PageType,
        page_type: PageType,
        gains: Gains,
    ) -> RefTier {
        let base = Position::of(&self.tiers(base_type)[..1], gains.base);
        let [_, others @ ..] = self.tiers(page_type);
        let evicted = others
            .iter()
            .take_while(|tier| Position::of(&[**tier], gains.compared).is_within(base));
        RefTier(evicted.count() as u8)
    }

    pub(super) fn tiers(&self, page_type: PageType) -> &[RefTierCounts; NR_TIERS] {
        &self.counts[page_type.index()]
    }

    pub(super) fn tier_mut(&mut self, page_type: PageType, tier: RefTier) -> &mut RefTierCounts {
        &mut self.counts[page_type.index()][tier.index()]
    }

    /// Folds the counts of a retired generation into the averages.
    pub(super) fn fold(&mut self, page_type: PageType) {
        for tier in &mut self.counts[page_type.index()] {
            *tier = RefTierCounts {
                avg_refaulted: (tier.avg_refaulted + tier.refaulted) / 2,
                avg_total: (tier.avg_total + tier.evicted + tier.protected) / 2,
                ..RefTierCounts::default()
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(refaulted: u64, evicted: u64) -> RefTierCounts {
        RefTierCounts { refaulted, evicted, ..RefTierCounts::default() }
    }

    #[test]
    fn folding_halves_and_starts_over() {
        let before = RefTierCounts {
            avg_refaulted: 100,
            refaulted: 301,
            avg_total: 1000,
            evicted: 500,
            protected: 201,
        };
        let mut controller = Controller::default();
        for page_type in PageType::ALL {
            *controller.tier_mut(page_type, RefTier(2)) = before;
        }
        controller.fold(PageType::File);
        let after =
            RefTierCounts { avg_refaulted: 200, avg_total: 850, ..RefTierCounts::default() };
        assert_eq!(controller.tiers(PageType::File)[2], after);
        assert_eq!(controller.tiers(PageType::Anon)[2], before, "the other type waits");
    }

    #[test]
    fn products_of_large_counts_do_not_overflow() {
        let mut controller = Controller::default();
        for page_type in PageType::ALL {
            *controller.tier_mut(page_type, RefTier(0)) = counts(1 << 50, 1 << 50);
        }
        assert_eq!(controller.type_to_evict(60.into(), NR_TIERS), PageType::File);
    }
}

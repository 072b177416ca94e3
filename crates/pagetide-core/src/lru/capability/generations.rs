//! Generations: how old folios are, which protects the young ones and can be looked at.

use crate::lru::Lruvec;
use crate::lru::multigen::MultigenSummary;
use crate::units::Millis;

/// A policy that sorts folios into generations.
pub trait KeepsGenerations {
    /// Whether a pass at `priority` would find enough folios, old enough to be evicted.
    fn is_reclaimable(&self, now: Millis, priority: u8) -> bool;

    /// Generations, tiers and refaults. O(1).
    fn summary(&self) -> MultigenSummary;
}

impl Lruvec {
    /// Whether a pass at `priority` would find folios here, and none that `min_ttl` protects. Where
    /// no lruvec of a node is reclaimable, it is out of memory.
    pub fn is_reclaimable(&self, priority: u8) -> bool {
        match self.policy.generations() {
            Some(generations) => generations.is_reclaimable(self.now(), priority),
            None => self.nr_folios() >> priority > 0,
        }
    }

    /// Generations, tiers and refaults, if the policy has them. O(1).
    pub fn multigen_summary(&self) -> Option<MultigenSummary> {
        Some(self.policy.generations()?.summary())
    }
}

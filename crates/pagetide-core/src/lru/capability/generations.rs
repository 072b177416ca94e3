//! Generations: how old folios are, which protects the young ones.

use crate::units::Millis;

/// A policy that sorts folios into generations.
pub trait KeepsGenerations {
    /// Whether a pass at `priority` would find enough folios, old enough to be evicted.
    fn is_reclaimable(&self, now: Millis, priority: u8) -> bool;
}

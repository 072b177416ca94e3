//! What users read of a cache and its tiers.

pub(crate) mod cache;
pub(crate) mod tiers;

//! Statistics of a cache and its tiers.

pub(crate) mod cache;
pub(crate) mod tiers;

use std::fmt;

pub(crate) fn hit_ratio(hits: u64, accesses: u64) -> f64 {
    if accesses == 0 { 0.0 } else { hits as f64 / accesses as f64 }
}

/// Writes two lines: hits and misses, and transfers past the cache.
pub(crate) fn write_accesses(
    f: &mut fmt::Formatter<'_>,
    (hits, misses): (u64, u64),
    (bypass_reads, writes_through): (u64, u64),
) -> fmt::Result {
    let accesses = hits + misses;
    let percent = 100.0 * hit_ratio(hits, accesses);
    writeln!(f, "accesses    {accesses}: {hits} hits ({percent:.1} %), {misses} misses")?;
    writeln!(f, "past it     {bypass_reads} reads, {writes_through} writes: no frame was to be had")
}

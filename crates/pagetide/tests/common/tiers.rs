//! Tiers small enough to move pages within milliseconds.

use pagetide::{Bytes, Millis, PageCache, Stage, Tier, TieringKnobs, TieringOptions, TieringStats};
use std::time::Duration;

pub(crate) fn pages(nr: u64) -> Bytes {
    Bytes::from_pages(nr)
}

pub(crate) fn slow(nr: u64) -> Tier {
    Tier::emulated(pages(nr), Duration::from_nanos(50))
}

/// Fast knobs: a scan about every 20 ms, hot within 100 ms.
pub(crate) fn options(stage: Stage) -> TieringOptions {
    let knobs = TieringKnobs {
        scan_period_min: Millis(10),
        scan_period_max: Millis(40),
        scan_delay: Millis(0),
        hot_threshold: Millis(104),
        ..TieringKnobs::default()
    };
    TieringOptions { knobs, ..TieringOptions::from(stage) }
}

pub(crate) fn tiering(cache: &PageCache) -> TieringStats {
    cache.stats().tiering.expect("a cache with tiers")
}

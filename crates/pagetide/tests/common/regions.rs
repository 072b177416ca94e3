//! Regions, if userfaultfd is allowed, and their pages by first words.

use super::skip;
use pagetide::{CreateRegionError, PageCache, Region, RegionOptions};
use std::sync::atomic::Ordering::Relaxed;

pub(crate) const WORDS: usize = super::PAGE / 8;

/// Creates a region, or skips loudly if userfaultfd is refused.
pub(crate) fn region(test: &str, cache: &PageCache, options: RegionOptions) -> Option<Region> {
    match cache.region(options) {
        Ok(region) => Some(region),
        Err(CreateRegionError::Memory(error)) => {
            skip(test, &error.to_string());
            None
        }
        Err(error) => panic!("{error}"),
    }
}

pub(crate) fn load(region: &Region, page: usize) -> u64 {
    region.words()[page * WORDS].load(Relaxed)
}

pub(crate) fn store(region: &Region, page: usize, value: u64) {
    region.words()[page * WORDS].store(value, Relaxed);
}

//! Counters, samples and records of a cache.

pub(crate) mod counters;
pub(crate) mod latency;
pub(crate) mod recorder;
pub(crate) mod sizing;

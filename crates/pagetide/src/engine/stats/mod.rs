//! What a cache counts, samples and records of itself.

pub(crate) mod counters;
pub(crate) mod latency;
pub(crate) mod recorder;
pub(crate) mod sizing;

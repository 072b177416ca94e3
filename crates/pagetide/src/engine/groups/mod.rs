//! Groups in the engine: names, counters and options.

pub(crate) mod directory;
pub(crate) mod options;

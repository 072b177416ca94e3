//! Groups in the engine: their names and counts, and what each is given.

pub(crate) mod directory;
pub(crate) mod options;

//! Groups in the engine: their names and counts, what each is given, and which pays for a page.

mod charge;
pub(crate) mod directory;
pub(crate) mod options;

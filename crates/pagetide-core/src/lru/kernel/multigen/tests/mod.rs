//! Tests of the whole policy, driven through the lruvec.

// Too many reads for an interpreter, and no unsafe code.
#[cfg(not(miri))]
mod group;
mod linux61;
mod steps;
mod switches;
mod twin;
mod world;

//! Tests of the whole policy, driven through the lruvec.

// Hundreds of thousands of reads are too many for an interpreter, and no unsafe code is involved.
#[cfg(not(miri))]
mod group;
mod linux61;
mod steps;
mod switches;
mod twin;
mod world;

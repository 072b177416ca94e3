//! Behaviour of the whole policy, driven through the lruvec as the worlds do.

// Hundreds of thousands of reads, too many for an interpreter; no unsafe code is reached either.
#[cfg(not(miri))]
mod group;
mod linux61;
mod steps;
mod switches;
mod twin;
mod world;

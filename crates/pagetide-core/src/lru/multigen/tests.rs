//! Behaviour of the whole policy, driven through the lruvec as the worlds do.

mod group;
mod steps;

//! Several memory groups in one memory, in virtual time, for the snapshot. Core's tests check the
//! promises of groups.
//!
//! ```text
//!   access(group, page) --charge, refault, log--> core's Groups
//!       |            <---- victims, shadows -----
//!       +-- page words, frames: plain maps             counts by group
//! ```
//!
//! The same calls give the same counts.

mod plays;
mod world;

pub(crate) use plays::{play_fairness, play_out_of_memory, play_sibling_protection};

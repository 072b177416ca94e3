//! Several memory groups in one memory, in virtual time: which loses pages to which, for the
//! snapshot alone. What groups promise is asserted by core's own tests.
//!
//! ```text
//!   access(group, page) --charge, refault, log--> core's Groups
//!       |            <---- victims, shadows -----
//!       +-- page words, frames: plain maps             counts by group
//! ```
//!
//! The same calls give the same counts, always.

mod plays;
mod world;

pub(crate) use plays::{play_fairness, play_out_of_memory, play_sibling_protection};

//! Page reclaim: which folios stay.
//!
//! A [`Lruvec`] holds the folios of one memory group and node in the order its policy keeps them.
//! Every policy has the same face, [`LruPolicy`]; the worlds see only [`Lruvec`], and
//! [`crate::reclaim`] drives a pass over it.
//!
//! ```text
//!   hit plane (no lock)            decide plane (the lruvec's lock)
//!   AccessRule::mark(folio) ---+
//!   a miss, a touch, ... ----> AccessLog --drain--> LruPolicy::{add, touch, rotate}
//!   a shadow was found ----------------------------> LruPolicy::refault
//!   out of frames ---> ReclaimPass ----------------> LruPolicy::{isolate, evicted, put_back}
//! ```
//!
//! What some policies offer besides is in [`capability`], a trait a file.
//!
//! Adding a policy: its file, a row in `registry.rs`, a paragraph in `docs/policies.md`. The tests
//! of `conformance.rs`, which every policy must pass, follow from the row; the paragraph is asked
//! for by a test.

mod access;
pub mod active_inactive;
pub mod baseline;
pub mod capability;
#[cfg(test)]
pub(crate) mod conformance;
mod context;
mod log;
pub mod lru_gen;
mod lruvec;
mod mechanism;
pub mod multigen;
pub mod page_table;
pub mod pagetide;
mod policy;
mod registry;
mod shadow;
mod shadow_budget;
pub mod workingset;

pub use access::{AccessPath, AccessRule, Marked};
pub use context::Context;
pub use log::{AccessLog, LOG_LEN, Logged, Room};
pub use lruvec::{Discarded, Lruvec};
pub use mechanism::{Mechanism, Switches, UnknownMechanism};
pub use page_table::TableWalk;
pub use policy::{
    LruConfig, LruPolicy, PassPlan, PolicyConfig, Progress, PutBack, Refusal, Statistics,
};
pub use registry::{PolicyName, UnknownPolicy};
pub use shadow::{LruvecId, SHADOW_BITS, ShadowEntry, TOKEN_BITS, TOKEN_MASK};
pub use shadow_budget::ShadowBudget;

pub(crate) use registry::{Cursor, Policy};

//! Page reclaim: the choice of folios to evict.
//!
//! A [`Lruvec`] holds the folios of one memory group and node in the order of its policy. Every
//! policy implements [`LruPolicy`]. The worlds see only [`Lruvec`], and [`crate::reclaim`] drives a
//! pass over it.
//!
//! ```text
//!   hit plane (no lock)            decide plane (the lruvec's lock)
//!   AccessRule::mark(folio) ---+
//!   a miss, a touch, ... ----> AccessLog --drain--> LruPolicy::{add, touch, rotate}
//!   a shadow was found ----------------------------> LruPolicy::refault
//!   out of frames ---> ReclaimPass ----------------> LruPolicy::{isolate, evicted, put_back}
//! ```
//!
//! Optional methods of policies are in [`capability`].
//!
//! Dependencies between files point down:
//!
//! ```text
//!   lru_gen/                                     generations and commands as text
//!   lruvec/                                      one policy at work, and its folios
//!   registry                                     the types behind the names
//!   drain, settle, step, visit                   applying a log, a batch, a step, many events
//!   kernel/, own/, baseline/                     the policies
//!   policy/, capability                          their interfaces
//!   policy_name, mechanism, scan, batch, context, log, shadow, refault_distance, ...
//! ```
//!
//! To add a policy: its file, a row in `policy_name.rs`, its type in `registry.rs`, a paragraph in
//! `docs/policies.md` (checked by a test). The tests of `conformance.rs` run for every registered
//! policy.

mod access;
pub mod baseline;
mod batch;
pub mod capability;
#[cfg(test)]
pub(crate) mod conformance;
mod context;
mod drain;
mod gen_command;
pub mod kernel;
mod log;
pub mod lru_gen;
mod lruvec;
mod mechanism;
pub mod own;
pub mod page_table;
mod policy;
mod policy_name;
pub mod refault_distance;
mod registry;
mod scan;
mod settle;
mod shadow;
mod shadow_budget;
mod step;
mod visit;

pub use access::{AccessPath, AccessRule, Marked};
pub use batch::{ReclaimBatch, Refusal, Settled, Verdict, Victim, Victims};
pub use context::Context;
pub use gen_command::{GenCommand, GenCommandError, GenRequest, parse_commands};
pub use log::{AccessLog, LOG_LEN, Logged, Room};
pub use lruvec::Lruvec;
pub use mechanism::{Mechanism, Switches, UnknownMechanism};
pub use page_table::TableWalk;
pub use policy::{LruConfig, LruPolicy, PassPlan, Progress, PutBack, Statistics};
pub use policy_name::{PolicyName, UnknownPolicy};
pub use registry::{PolicyChoice, PolicyConfig};
pub use scan::{DEF_PRIORITY, GroupScan, RECLAIM_BATCH, ReclaimKind, Scan, Share, VICTIMS_MAX};
pub use shadow::{LruvecId, SHADOW_BITS, ShadowEntry, TOKEN_BITS, TOKEN_MASK};
pub use shadow_budget::ShadowBudget;
pub use step::Step;
pub use visit::{PolicyLists, PolicyVisitor};

pub(crate) use registry::{Cursor, Policy};
pub(crate) use step::Stage;

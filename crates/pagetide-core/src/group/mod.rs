//! Memory groups: several tenants of one memory, each with a limit and protection.
//!
//! # Problem
//!
//! One reader's scan evicts all other pages. Fixed limits waste unused memory.
//!
//! # Idea
//!
//! Groups form a tree, as the kernel's control groups, each with its own lruvec. A page is charged
//! to one group and its ancestors. Reclaim works below the full group:
//!
//! ```text
//!                    root                       out of frames: the group LRU, over all groups
//!                   /    \
//!          limit 100      low 50                a full group: its subtree, in turn
//!           /     \         |
//!      min 20      -      limit 30              protection: handed down, shared by usage
//! ```
//!
//! | file | decides |
//! |---|---|
//! | `tree` | groups to charge, and the limit that blocks a charge |
//! | `protection` | share of a group that reclaim spares |
//! | `rotation` | order of groups in global reclaim |
//! | `pass` | lruvecs to scan, amounts, and rounds |
//! | `charge` | number of passes for one page |
//! | `groups` | nothing: combines tree, lruvecs and clocks |
//! | `lists` | nothing: one type for a node with groups or without |
//!
//! # Data and invariants
//!
//! All groups share one policy. Usage adds up along ancestors. No charge exceeds a limit. A removed
//! group keeps its lruvec until its last page is reclaimed. Ids are reused late. Policies with
//! refault distances judge a return by the clock of the evicting group, the multi-gen LRU by its
//! own.
//!
//! # Ignored
//!
//! Several nodes, swap accounting, soft limits, the throttle `memory.high`, moving pages between
//! groups, batched charges, locks per group.
//!
//! # Sources
//!
//! `Documentation/admin-guide/cgroup-v2.rst`, "Memory". Linux 6.18's multi-gen LRU, two lists and
//! refault distance.

mod charge;
mod groups;
mod lists;
mod pass;
mod protection;
mod rotation;
#[cfg(test)]
mod tests;
mod tree;

pub use charge::{ChargePath, ChargeStep};
pub use groups::{GlobalOrder, Groups, GroupsConfig};
pub use lists::{Grouping, NodeLists, NodePass};
pub use pass::GroupPass;
pub use protection::Protection;
pub use rotation::{GroupLru, NR_BINS, RotationOp, Visit};
pub use tree::{
    CreateGroupError, GROUPS_MAX, GroupConfig, GroupTree, OverLimit, Released, RemoveGroupError,
    UNLIMITED,
};

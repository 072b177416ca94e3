//! Memory groups: several tenants of one memory, each with a limit and protection.
//!
//! # Problem
//!
//! One reader's scan evicts all other pages. Fixed limits separate tenants but waste unused
//! memory. Tenants need limits, protection for small users, and fairness otherwise.
//!
//! # Idea
//!
//! Groups form a tree, as the kernel's control groups, each with its own lruvec. A page is charged
//! to one group and its ancestors. The full group determines where reclaim works:
//!
//! ```text
//!                    root                       out of frames: the group LRU, over all of them
//!                   /    \
//!          limit 100      low 50                a full group: itself and those below, in turn
//!           /     \         |
//!      min 20      -      limit 30              protection: handed down, shared by usage
//! ```
//!
//! | file | decides | |---|---| | `tree` | groups to charge for a page, and the limit that blocks a
//! charge | | `protection` | share of a group that reclaim spares | | `rotation` | order of groups
//! in global reclaim | | `pass` | lruvecs to scan, amounts, and rounds | | `charge` | number of
//! passes for one page of a full group | | `groups` | nothing: combines tree, lruvecs and clocks |
//! | `lists` | nothing: one type for a node with groups or without |
//!
//! # Data and invariants
//!
//! All groups share one policy, chosen once. [`GlobalOrder`] is a setting of the tree, because it
//! orders lruvecs, not folios. Usage adds up along ancestors. No charge exceeds a limit. A removed
//! group keeps its lruvec until its last page is reclaimed, and ids are reused late. Shadow entries
//! contain the group. Policies with refault distances judge a return by the clock of the evicting
//! group. The multi-gen LRU uses its own.
//!
//! # Ignored
//!
//! Several nodes, swap accounting, soft limits, the throttle `memory.high`, moving pages between
//! groups, batched charges. A removed group's pages are reclaimed, not moved to the parent. One
//! lock of the world protects everything, including the lruvecs.
//!
//! # Sources
//!
//! The kernel's documented control group v2 memory controller. The multi-gen LRU specification,
//! sections 6 and 10. The classic LRU specification, sections 5 to 7.

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

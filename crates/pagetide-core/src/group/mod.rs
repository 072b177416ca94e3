//! Memory groups: several tenants of one memory, each with what it may use and what it may keep.
//!
//! # Problem
//!
//! One reader's scan costs all others their pages, and the reader that allocates most gets most. A
//! limit for each keeps them apart, but wastes what one does not use; what is wanted is limits,
//! protection for those that need little, and a fair hand where none has a claim.
//!
//! # Idea
//!
//! Groups form a tree, as the kernel's control groups do; each has a lruvec of its own. A page is
//! charged to one group and its ancestors. What is full says where reclaim looks:
//!
//! ```text
//!                    root                       out of frames: the group LRU, over all of them
//!                   /    \
//!          limit 100      low 50                a full group: itself and those below, in turn
//!           /     \         |
//!      min 20      -      limit 30              protection: handed down, shared by usage
//! ```
//!
//! | file | decides |
//! |---|---|
//! | `tree` | which groups a page is charged to, and which limit stands in the way |
//! | `protection` | how much of a group reclaim for a cause leaves alone |
//! | `rotation` | in which order global reclaim visits groups |
//! | `pass` | which lruvecs a pass scans, how much each, and what it tries next |
//! | `charge` | how often a full group is reclaimed for one page |
//! | `groups` | nothing: ties trees, lruvecs and clocks together for the world |
//! | `lists` | nothing: a node with groups and one without, as one type |
//!
//! # Data and invariants
//!
//! One policy for all groups, chosen once; [`GlobalOrder`] is a setting of the tree and no
//! mechanism of a policy, because it orders lruvecs and not folios. Usage adds up along ancestors;
//! no charge ends above a limit; a removed group keeps its lruvec until its last page was
//! reclaimed, and its id is given again as late as possible. Shadow entries carry the group;
//! policies that count refault distances judge a return by the clock it left by, the multi-gen LRU
//! knows only its own.
//!
//! # What it deliberately ignores
//!
//! Nodes, swap accounting, soft limits, the throttling mark `memory.high`, moving pages between
//! groups, and charging in batches. A removed group's pages are reclaimed, not moved to its parent.
//! Everything is behind one lock of the world's; the lruvecs have none of their own.
//!
//! # Sources
//!
//! The kernel's documented control group v2 memory controller; the multi-gen LRU specification,
//! sections 6 and 10; the classic LRU specification, sections 5 to 7.

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

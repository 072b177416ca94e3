//! Optional interfaces of a policy, one trait per file.
//!
//! Problem: these interfaces concern few policies. Idea: [`Capabilities`] returns each or `None`,
//! and the lruvec implements the fallback. None is on the path of a hit or a victim, so dynamic
//! dispatch is cheap enough.
//!
//! ```text
//!   tables       AgesByTables        page-table walks find young folios
//!   group_clock  GroupClock          another group's clock judges refaults
//!   moves        MovesBetweenNodes   pages move from and to other nodes
//!   explains     Explains            texts about a folio's state
//!   types        WeighsTypes         adjustable weights of anonymous and file pages
//! ```

mod explain;
mod group_clock;
mod moves;
mod tables;
mod types;

pub use explain::Explains;
pub use group_clock::GroupClock;
pub use moves::MovesBetweenNodes;
pub use tables::AgesByTables;
pub use types::WeighsTypes;

/// Optional interfaces beyond [`LruPolicy`](super::LruPolicy). Default: none.
pub trait Capabilities {
    /// Returns the interface for aging by page tables.
    fn tables(&mut self) -> Option<&mut dyn AgesByTables> {
        None
    }

    /// Returns the refault clock of groups, to read.
    fn group_clock(&self) -> Option<&dyn GroupClock> {
        None
    }

    /// Returns the refault clock of groups, to advance.
    fn group_clock_mut(&mut self) -> Option<&mut dyn GroupClock> {
        None
    }

    /// Returns the interface for moves between nodes.
    fn moves(&mut self) -> Option<&mut dyn MovesBetweenNodes> {
        None
    }

    /// Returns the interface for texts.
    fn explains(&self) -> Option<&dyn Explains> {
        None
    }

    /// Returns the interface for type weights.
    fn types(&mut self) -> Option<&mut dyn WeighsTypes> {
        None
    }
}

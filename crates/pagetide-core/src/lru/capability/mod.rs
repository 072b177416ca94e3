//! What a policy may offer beyond the base, a trait in a file for each.
//!
//! Problem: clocks of nested groups, moves between nodes and explanations concern two or three
//! policies of sixteen; in the base, each of the others would have to be read past them.
//!
//! Idea: [`Capabilities`] asks a policy for each of them, and gets it or `None`; what happens
//! without it, the lruvec says. All of this is off the path of a hit or a victim, so a call through
//! a table of functions is cheap enough.
//!
//! ```text
//!   tables       AgesByTables        page-table walks tell which folios are young
//!   group_clock  GroupClock          refaults are judged by the clock of another group
//!   moves        MovesBetweenNodes   pages come from, and go to, other nodes
//!   explains     Explains            says in words where a folio is, and why
//!   types        WeighsTypes         anonymous against file pages, by changing numbers
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

/// What a policy offers beyond [`LruPolicy`](super::LruPolicy): nothing, but for what it answers.
pub trait Capabilities {
    /// It ages folios by what page tables say.
    fn tables(&mut self) -> Option<&mut dyn AgesByTables> {
        None
    }

    /// It keeps a clock by which groups judge refaults, to read.
    fn group_clock(&self) -> Option<&dyn GroupClock> {
        None
    }

    /// The same clock, to move.
    fn group_clock_mut(&mut self) -> Option<&mut dyn GroupClock> {
        None
    }

    /// It tells pages that move between nodes from those that are evicted and filled.
    fn moves(&mut self) -> Option<&mut dyn MovesBetweenNodes> {
        None
    }

    /// It explains more than flags do.
    fn explains(&self) -> Option<&dyn Explains> {
        None
    }

    /// It weighs anonymous against file pages.
    fn types(&mut self) -> Option<&mut dyn WeighsTypes> {
        None
    }
}

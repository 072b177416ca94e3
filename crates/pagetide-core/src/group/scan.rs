//! What a policy has to know of its group while it is scanned.

use super::protection::Share;
use crate::lru::workingset::CauseClock;
use crate::reclaim::Scan;

/// A lruvec's place among others, during a visit. The default is that of a lruvec alone, whose own
/// limit is the cause.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct GroupScan {
    /// Memory as a whole is short, not a group's.
    pub is_global: bool,
    /// The part of the group's memory that the scan leaves alone.
    pub share: Share,
    /// By whose clock pages are evicted, where the cause is another group's limit.
    pub clock: Option<CauseClock>,
    /// The visit ends once the pass has reclaimed this much: the group is at its protection then.
    pub end: Option<u64>,
}

impl GroupScan {
    /// Whether taking more would reach into what is protected.
    pub fn has_given_enough(&self, scan: &Scan) -> bool {
        self.end.is_some_and(|end| scan.reclaimed >= end)
    }
}

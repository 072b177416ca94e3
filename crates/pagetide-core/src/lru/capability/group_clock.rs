//! The clock of one lruvec among those of nested groups.
//!
//! A page that returns is judged by the clock it was evicted by, which is the clock of the group
//! that was reclaimed and not always of the group that owns the page; and what happens in a group
//! happens in those above it, too. Without such a clock a policy judges returns by itself.

use crate::ids::{FrameId, PageType};
use crate::lru::refault_distance::{HierarchyCounts, ListPages};
use crate::lru::{AccessPath, Context, ShadowEntry};

/// A policy whose clock other lruvecs read and move.
pub trait GroupClock {
    /// As [`LruPolicy::refault`](crate::lru::LruPolicy::refault), where it is known already whether
    /// the page is recent.
    fn refault_judged(
        &mut self,
        cx: &mut Context<'_>,
        frame: FrameId,
        shadow: ShadowEntry,
        kind: AccessPath,
        is_recent: bool,
    );

    /// Whether a page that left `shadow` by this clock is recent among lists of `sizes`, those of
    /// its group and of groups below it. `None`: returns are not judged by distance.
    fn is_recent(
        &self,
        shadow: ShadowEntry,
        page_type: PageType,
        sizes: &ListPages,
    ) -> Option<bool>;

    /// The lengths of its lists, as [`GroupClock::is_recent`] wants them.
    fn list_pages(&self, cx: &Context<'_>) -> ListPages;

    /// What its ancestors count, too, so far.
    fn hierarchy_counts(&self) -> HierarchyCounts;

    /// Counts what was counted in a lruvec below this one. `nr_listed` are the folios on this one's
    /// lists and below.
    fn count_below(&mut self, new: &HierarchyCounts, nr_listed: u64);
}

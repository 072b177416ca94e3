//! The refault clock of one lruvec in nested groups.
//!
//! The group under reclaim evicts a page by its clock, which also judges the refault. It need not
//! own the page. Events in a group also count in its ancestors. A policy without this clock judges
//! refaults by itself.

use crate::ids::{FrameId, PageType};
use crate::lru::refault_distance::{HierarchyCounts, ListPages};
use crate::lru::{AccessPath, Context, ShadowEntry};

/// A policy with a clock that other lruvecs read and advance.
pub trait GroupClock {
    /// Refaults a page as [`LruPolicy::refault`](crate::lru::LruPolicy::refault), with `is_recent`
    /// already known.
    fn refault_judged(
        &mut self,
        cx: &mut Context<'_>,
        frame: FrameId,
        shadow: ShadowEntry,
        kind: AccessPath,
        is_recent: bool,
    );

    /// Returns true if a page evicted by this clock is recent. `sizes` are the lists of the clock's
    /// group and its descendants. `None`: refaults are not judged by distance.
    fn is_recent(
        &self,
        shadow: ShadowEntry,
        page_type: PageType,
        sizes: &ListPages,
    ) -> Option<bool>;

    /// Returns the list lengths for [`GroupClock::is_recent`].
    fn list_pages(&self, cx: &Context<'_>) -> ListPages;

    /// Returns the counts to add to the ancestors.
    fn hierarchy_counts(&self) -> HierarchyCounts;

    /// Adds the counts of a descendant. `nr_listed` is the number of folios on the lists of this
    /// lruvec and its descendants.
    fn count_below(&mut self, new: &HierarchyCounts, nr_listed: u64);
}

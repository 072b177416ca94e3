//! The clock of one lruvec among those of nested groups.
//!
//! A page that returns is judged by the clock it was evicted by, which is the clock of the group
//! that was reclaimed and not always of the group that owns the page; and what happens in a group
//! happens in those above it, too. Without such a clock a policy judges returns by itself.

use crate::ids::{FrameId, PageType};
use crate::lru::workingset::{ListPages, Passed};
use crate::lru::{AccessPath, Context, Lruvec, ShadowEntry};

/// A policy whose clock other lruvecs read and move.
pub trait GroupClock {
    /// As [`LruPolicy::refault`](crate::lru::LruPolicy::refault), where it is known already whether the page is recent.
    fn refault_judged(
        &mut self,
        cx: &mut Context<'_>,
        frame: FrameId,
        shadow: ShadowEntry,
        kind: AccessPath,
        is_recent: bool,
    );

    /// Whether a page that left `shadow` by this clock is recent among lists of `sizes`, its group's
    /// and those below it. `None`: returns are not judged by distance.
    fn is_recent(
        &self,
        shadow: ShadowEntry,
        page_type: PageType,
        sizes: &ListPages,
    ) -> Option<bool>;

    /// The lengths of its lists, as [`GroupClock::is_recent`] wants them.
    fn list_pages(&self, cx: &Context<'_>) -> ListPages;

    /// What its ancestors count, too, so far.
    fn passed(&self) -> Passed;

    /// Counts what passed in a lruvec below this one. `nr_listed` are the folios on this one's
    /// lists and below.
    fn count_below(&mut self, passed: &Passed, nr_listed: u64);
}

impl Lruvec {
    /// Judges a return by what the clock it was evicted by said, if any.
    pub(crate) fn refault_judged(
        &mut self,
        frame: FrameId,
        shadow: ShadowEntry,
        kind: AccessPath,
        is_recent: Option<bool>,
    ) {
        let (policy, mut cx) = self.parts();
        match (is_recent, policy.group_clock_mut()) {
            (Some(is_recent), Some(clock)) => {
                clock.refault_judged(&mut cx, frame, shadow, kind, is_recent);
            }
            _ => policy.refault(&mut cx, frame, shadow, kind),
        }
    }

    /// Whether a page is recent by this lruvec's clock; `None` without one.
    pub(crate) fn is_recent(
        &self,
        shadow: ShadowEntry,
        page_type: PageType,
        sizes: &ListPages,
    ) -> Option<bool> {
        self.policy.group_clock()?.is_recent(shadow, page_type, sizes)
    }

    /// The lengths of its lists; zeros without a clock that needs them.
    pub(crate) fn list_pages(&mut self) -> ListPages {
        let (policy, cx) = self.parts();
        policy.group_clock().map_or_else(ListPages::default, |clock| clock.list_pages(&cx))
    }

    /// What its ancestors count, too, so far.
    pub(crate) fn passed(&self) -> Passed {
        self.policy.group_clock().map_or_else(Passed::default, GroupClock::passed)
    }

    /// Counts what passed in a lruvec below this one.
    pub(crate) fn count_below(&mut self, passed: &Passed, nr_listed: u64) {
        if let Some(clock) = self.policy.group_clock_mut() {
            clock.count_below(passed, nr_listed);
        }
    }
}

//! Optional methods of a policy.
//!
//! Problem: these methods concern few policies. Idea: each has a default. None is on the path of a
//! hit or a victim, so dynamic dispatch is cheap enough.
//!
//! A group under reclaim evicts a page by its own clock, which also judges the refault. The group
//! need not own the page. Events in a group also count in its ancestors. A policy without such a
//! clock judges refaults by itself.

use super::page_table::{TableWalk, YoungPages};
use super::refault_distance::{HierarchyCounts, ListPages};
use super::{Context, ShadowEntry};
use crate::folio::{Flags, Folios};
use crate::ids::{FrameId, PageType};
use core::fmt;

/// The optional methods beyond [`LruPolicy`](super::LruPolicy). By default they do nothing.
pub trait Capabilities {
    /// Handles a listed folio found young by a table walk or a look-around.
    fn young(&mut self, cx: &mut Context<'_>, frame: FrameId) {
        let _ = (cx, frame);
    }

    /// Begins a table walk.
    fn start_walk(&mut self) -> TableWalk {
        TableWalk::of_all()
    }

    /// Records the counts and dense leaves of a walk begun at generation `walk_seq`, or of
    /// look-arounds if `None`.
    fn record_walk(&mut self, found: &YoungPages, walk_seq: Option<u64>) {
        let _ = (found, walk_seq);
    }

    /// Refaults a page as [`LruPolicy::refault`](super::LruPolicy::refault), if another group's
    /// clock has found that the page `is_recent`.
    fn refault_judged(
        &mut self,
        cx: &mut Context<'_>,
        frame: FrameId,
        shadow: ShadowEntry,
        is_recent: bool,
    ) {
        let _ = (cx, frame, shadow, is_recent);
    }

    /// Returns true if a page evicted by this clock is recent. `sizes` are the lists of the clock's
    /// group and its descendants. `None`: refaults are not judged by distance.
    fn is_recent(
        &self,
        shadow: ShadowEntry,
        page_type: PageType,
        sizes: &ListPages,
    ) -> Option<bool> {
        let _ = (shadow, page_type, sizes);
        None
    }

    /// Returns the list lengths for [`Capabilities::is_recent`].
    fn list_pages(&self, cx: &Context<'_>) -> ListPages {
        let _ = cx;
        ListPages::default()
    }

    /// Returns the counts to add to the ancestors.
    fn hierarchy_counts(&self) -> HierarchyCounts {
        HierarchyCounts::default()
    }

    /// Adds the counts of a descendant. `nr_listed` is the number of folios on the lists of this
    /// lruvec and its descendants.
    fn count_below(&mut self, new: &HierarchyCounts, nr_listed: u64) {
        let _ = (new, nr_listed);
    }

    /// Handles a victim moved to a slower node. No shadow is left, no eviction clock advances, and
    /// the page's history is dropped.
    fn demoted(&mut self, cx: &mut Context<'_>, frame: FrameId) {
        let _ = (cx, frame);
    }

    /// Handles a page moved here, in an unlisted frame.
    /// [`LruPolicy::add`](super::LruPolicy::add) follows. Policy state in the descriptor, except
    /// flags, is stale.
    fn moved_in(&mut self, cx: &mut Context<'_>, frame: FrameId) {
        let _ = (cx, frame);
    }

    /// Writes the position of a listed folio, by default its flags.
    ///
    /// # Errors
    /// Fails if `out` fails.
    fn write_state(
        &self,
        folios: &Folios,
        frame: FrameId,
        out: &mut dyn fmt::Write,
    ) -> fmt::Result {
        write!(out, "{:?}", folios[frame].flags())
    }

    /// Returns the heat of a listed folio: a hotter one is evicted later. By default, active folios
    /// rank above inactive ones, then references and hits count.
    fn heat(&self, folios: &Folios, frame: FrameId) -> u8 {
        let (flags, nr_hits) = (folios[frame].flags(), folios[frame].hits().count());
        let weighed = [(Flags::ACTIVE, 8), (Flags::WORKINGSET, 4), (Flags::REFERENCED, 1)];
        let by_flags = weighed.into_iter().filter(|(flag, _)| flags.any(*flag));
        by_flags.map(|(_, weight)| weight).sum::<u8>() + flags.refs() as u8 + nr_hits as u8
    }

    /// Writes the content of a shadow entry.
    ///
    /// # Errors
    /// Fails if `out` fails.
    fn write_shadow(&self, shadow: ShadowEntry, out: &mut dyn fmt::Write) -> fmt::Result {
        let _ = (shadow, out);
        Ok(())
    }

    /// Sets the swappiness: 0 to 200, or 201 for anonymous pages only.
    fn set_swappiness(&mut self, swappiness: u8) {
        let _ = swappiness;
    }

    /// Folds the statistics of a policy built with
    /// [`Statistics::Folded`](super::Statistics::Folded).
    fn fold_statistics(&mut self, cx: &mut Context<'_>) {
        let _ = cx;
    }
}

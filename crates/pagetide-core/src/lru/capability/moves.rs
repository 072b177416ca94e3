//! Pages that move between nodes without eviction.

use crate::ids::FrameId;
use crate::lru::Context;

/// A policy that distinguishes moves from evictions and fills.
pub trait MovesBetweenNodes {
    /// Handles a victim moved to a slower node. No shadow is left, no eviction clock advances, and
    /// the page's history is dropped.
    fn demoted(&mut self, cx: &mut Context<'_>, frame: FrameId);

    /// Handles a page moved here, in an unlisted frame.
    /// [`LruPolicy::add`](crate::lru::LruPolicy::add) follows. Policy state in the descriptor,
    /// except flags, is stale.
    fn moved_in(&mut self, cx: &mut Context<'_>, frame: FrameId) {
        let _ = (cx, frame);
    }
}

//! Pages that move between nodes: gone from one lruvec and new to the other, yet never evicted.

use crate::ids::FrameId;
use crate::lru::Context;

/// A policy that treats moved pages otherwise than evicted and filled ones.
pub trait MovesBetweenNodes {
    /// A victim's page was moved to a slower node. To these lists it is gone, but nothing was
    /// evicted: no shadow is left, no clock of evictions moves, and what would have been remembered
    /// of it is forgotten.
    fn demoted(&mut self, cx: &mut Context<'_>, frame: FrameId);

    /// A page was moved here from another node, into a frame that is on no list yet;
    /// [`LruPolicy::add`](crate::lru::LruPolicy::add) follows. What the policy keeps in the
    /// descriptor beside flags is left over from another page.
    fn moved_in(&mut self, cx: &mut Context<'_>, frame: FrameId) {
        let _ = (cx, frame);
    }
}

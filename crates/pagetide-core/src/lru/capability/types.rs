//! Anonymous pages against file pages: numbers that change while a policy is at work.

use crate::lru::Context;

/// A policy that weighs the types.
pub trait WeighsTypes {
    /// Weighs the types by this from now on: 0 to 200, and 201 for anonymous pages only.
    fn set_swappiness(&mut self, swappiness: u8);

    /// Sums up the statistics that it decides on where they are
    /// [`Statistics::Folded`](crate::lru::Statistics::Folded).
    fn fold_statistics(&mut self, cx: &mut Context<'_>) {
        let _ = cx;
    }
}

//! Adjustable weights of anonymous and file pages.

use crate::lru::Context;

/// A policy with type weights.
pub trait WeighsTypes {
    /// Sets the swappiness: 0 to 200, or 201 for anonymous pages only.
    fn set_swappiness(&mut self, swappiness: u8);

    /// Folds the statistics of a policy built with
    /// [`Statistics::Folded`](crate::lru::Statistics::Folded).
    fn fold_statistics(&mut self, cx: &mut Context<'_>) {
        let _ = cx;
    }
}

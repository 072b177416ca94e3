//! Anonymous pages against file pages: numbers that change while a policy is at work.

use crate::lru::{Context, LruConfig, Lruvec};

/// A policy that weighs the types.
pub trait WeighsTypes {
    /// Weighs the types as `config` says from now on.
    fn set_swappiness(&mut self, config: &LruConfig);

    /// Sums up the statistics that it decides on where they are
    /// [`Statistics::Folded`](crate::lru::Statistics::Folded).
    fn fold_statistics(&mut self, cx: &mut Context<'_>) {
        let _ = cx;
    }
}

impl Lruvec {
    /// Weighs the types as `config` says from now on.
    pub(crate) fn set_swappiness(&mut self, config: &LruConfig) {
        if let Some(types) = self.policy.types() {
            types.set_swappiness(config);
        }
    }

    /// Sums up the statistics of the policy.
    pub(in crate::lru) fn fold_policy_statistics(&mut self) {
        let (policy, mut cx) = self.parts();
        if let Some(types) = policy.types() {
            types.fold_statistics(&mut cx);
        }
    }
}

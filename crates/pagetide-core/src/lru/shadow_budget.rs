//! The limit on leaf tables with shadows only.
//!
//! Problem: a scan of a huge file leaves leaf tables with shadows and no resident page, which are
//! never freed otherwise. Idea: the world keeps all-shadow leaves in the order they became empty,
//! and asks after each reclaim pass how many of the oldest to drop.
//!
//! ```text
//!   leaf gains a page    --> unlinked                  nr_shadow_leaves - max = excess
//!   leaf loses its last  --> youngest of the all-shadow leaves
//!   after a pass         --> drop the oldest nr_leaves_to_free(..), forgetting their shadows
//! ```
//!
//! The limit is the kernel's in history, eight shadows per page of memory at full density. The
//! kernel's `pages / 8` nodes of 64 slots and batches of 128 nodes become `pages / 64` leaves of
//! 512 slots (1.6 % of memory) and batches of 16 leaves. A budget with leaves of 64 slots gives the
//! kernel's numbers.
//!
//! As in the kernel's shrinker, each call aims at half the excess plus a part of the deferred work,
//! in whole batches.
//!
//! Ignored: the leaf of a shadow, and slab caches, which the kernel counts among a group's pages.
//! Source: Linux 6.18, `mm/workingset.c`.

/// Slots of a kernel tree node.
const NODE_SLOTS: u64 = 64;
/// Pages of memory per node, as a power of two.
const PAGES_PER_NODE_SHIFT: u32 = 3;
/// Nodes freed together.
const NODE_BATCH: u64 = 128;

/// The limit on all-shadow leaves of one lruvec, and its deferred work.
#[derive(Clone, Debug)]
pub struct ShadowBudget {
    leaf_slots: u64,
    deferred: u64,
}

impl ShadowBudget {
    /// Creates a budget for leaves of `leaf_slots` page words.
    ///
    /// # Panics
    /// Panics unless `leaf_slots` is a power of two from 64 to 8192.
    pub const fn new(leaf_slots: u32) -> ShadowBudget {
        assert!(
            leaf_slots.is_power_of_two() && leaf_slots >= 64 && leaf_slots <= 8192,
            "leaves have 64 to 8192 slots, a power of two"
        );
        ShadowBudget { leaf_slots: leaf_slots as u64, deferred: 0 }
    }

    /// Returns the maximum number of all-shadow leaves for `pages` pages of memory.
    pub const fn nr_leaves_max(&self, pages: u64) -> u64 {
        (pages >> PAGES_PER_NODE_SHIFT) / (self.leaf_slots / NODE_SLOTS)
    }

    /// Returns the number of oldest all-shadow leaves to free, out of `nr_shadow_leaves`.
    ///
    /// Call at every reclaim pass with its final priority. A lower priority adds more of the
    /// deferred work. The returned number counts as freed.
    pub fn nr_leaves_to_free(&mut self, nr_shadow_leaves: u64, pages: u64, priority: u8) -> u64 {
        let excess = nr_shadow_leaves.saturating_sub(self.nr_leaves_max(pages));
        if excess == 0 {
            return 0;
        }
        let batch = NODE_BATCH * NODE_SLOTS / self.leaf_slots;
        let half = excess / 2;
        let wanted = ((self.deferred >> priority) + half).min(2 * excess);
        let freed = in_batches(wanted, batch, excess);
        self.deferred = (self.deferred + half).saturating_sub(freed).min(2 * excess);
        freed.min(nr_shadow_leaves)
    }
}

/// Rounds `wanted` down to whole batches, or keeps all of it while at least `excess` is left.
fn in_batches(wanted: u64, batch: u64, excess: u64) -> u64 {
    let mut left = wanted;
    while left > 0 && (left >= batch || left >= excess) {
        left -= left.min(batch);
    }
    wanted - left
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limit_is_the_kernels_scaled_to_the_leaf() {
        assert_eq!(ShadowBudget::new(64).nr_leaves_max(1_048_576), 131_072);
        assert_eq!(ShadowBudget::new(512).nr_leaves_max(1_048_576), 16_384);
    }

    #[test]
    fn nothing_is_freed_up_to_the_limit() {
        let mut budget = ShadowBudget::new(64);
        assert_eq!(budget.nr_leaves_to_free(512, 4096, 0), 0);
        assert_eq!(budget.deferred, 0);
    }

    #[test]
    fn half_the_excess_goes_in_whole_batches() {
        let mut budget = ShadowBudget::new(64);
        assert_eq!(budget.nr_leaves_to_free(512 + 600, 4096, 12), 256, "of 300 wanted");
        assert_eq!(budget.deferred, 44);
    }

    /// Aims at 50 per call.
    #[test]
    fn small_excesses_are_carried_over_until_they_add_up() {
        let mut budget = ShadowBudget::new(64);
        assert_eq!(budget.nr_leaves_to_free(612, 4096, 0), 0);
        assert_eq!(budget.deferred, 50);
        assert_eq!(budget.nr_leaves_to_free(612, 4096, 0), 100);
        assert_eq!(budget.deferred, 0);
    }

    /// Two calls of 100 make one batch, and 72 stay deferred.
    #[test]
    fn a_batch_is_freed_once_the_carried_part_reaches_it() {
        let mut budget = ShadowBudget::new(64);
        assert_eq!(budget.nr_leaves_to_free(512 + 200, 4096, 0), 0);
        assert_eq!(budget.nr_leaves_to_free(512 + 200, 4096, 0), 128);
        assert_eq!(budget.deferred, 72);
    }

    #[test]
    fn carried_part_is_shifted_by_priority() {
        let mut budget = ShadowBudget::new(64);
        assert_eq!(budget.nr_leaves_to_free(512 + 240, 4096, 0), 0);
        assert_eq!(budget.deferred, 120);
        assert_eq!(budget.nr_leaves_to_free(512 + 250, 4096, 1), 128, "of 60 + 125 wanted");
        assert_eq!(budget.deferred, 120 + 125 - 128);
    }

    /// Ten calls defer 500. The excess of 100 bounds that to 200.
    #[test]
    fn carried_part_is_at_most_twice_the_excess() {
        let mut budget = ShadowBudget::new(64);
        for _ in 0..10 {
            assert_eq!(budget.nr_leaves_to_free(612, 4096, 12), 0);
        }
        assert_eq!(budget.deferred, 200);
        assert_eq!(budget.nr_leaves_to_free(612, 4096, 0), 128, "of 200 wanted");
        assert_eq!(budget.deferred, 200 + 50 - 128);
    }

    /// The same history in leaves of 512 slots: an eighth.
    #[test]
    fn large_leaves_free_an_eighth() {
        let mut budget = ShadowBudget::new(512);
        assert_eq!(budget.nr_leaves_to_free(64 + 75, 4096, 12), 32, "of 37 wanted");
        assert_eq!(budget.deferred, 5);
    }

    #[test]
    fn never_more_than_there_are() {
        let mut budget = ShadowBudget::new(512);
        for _ in 0..8 {
            let _ = budget.nr_leaves_to_free(15, 0, 12);
        }
        assert_eq!(budget.deferred, 30);
        assert_eq!(budget.nr_leaves_to_free(15, 0, 0), 15);
    }
}

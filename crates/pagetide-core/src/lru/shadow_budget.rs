//! How many leaves may hold nothing but shadows.
//!
//! Problem: shadow entries live in the page words of absent pages, so a scan over a huge file
//! leaves page tables behind that describe no memory at all, and nothing else would ever free them.
//!
//! Idea: a leaf without a resident page is worth keeping while there are few such leaves. The world
//! keeps them in the order they became empty, and asks after each reclaim pass how many of the
//! oldest to drop.
//!
//! ```text
//!   leaf gains a page    --> unlinked                  nr_shadow_leaves - max = excess
//!   leaf loses its last  --> youngest of the all-shadow leaves
//!   after a pass         --> drop the oldest nr_leaves_to_free(..), forgetting their shadows
//! ```
//!
//! The kernel's tree nodes have 64 slots, ours (the leaves of page words) 512. Kept the same is how
//! much history there is room for, eight shadows a page of memory if every slot is used, and how
//! lazily it is trimmed: the kernel's `pages / 8` nodes and batches of 128 nodes become `pages /
//! 64` leaves (1.6 % of memory) and batches of 16 leaves. Not the same: a sparse file fills its
//! leaves less, and one drop forgets up to 512 pages instead of 64. A lab that wants the kernel's
//! numbers builds the budget with leaves of 64 slots.
//!
//! The trimming is the kernel's shrinker for objects that cost nothing to recreate: each call aims
//! at half the excess plus a part of what earlier calls left undone, in whole batches only, so
//! small excesses wait until they add up.
//!
//! Ignored: which leaf a shadow is in, and the size of slab caches, which the kernel counts among a
//! group's pages. Source: the classic LRU specification, section 8.

/// Slots of the kernel's tree nodes, which the limits are stated for.
const NODE_SLOTS: u64 = 64;
/// Pages of memory per tree node at the limit: eight slots a page, at full density.
const PAGES_PER_NODE_SHIFT: u32 = 3;
/// Nodes freed together.
const NODE_BATCH: u64 = 128;

/// The limit on leaves of shadows, and the trimming that is still due. One per lruvec.
#[derive(Clone, Debug)]
pub struct ShadowBudget {
    leaf_slots: u64,
    /// Leaves that earlier calls meant to free and did not.
    deferred: u64,
}

impl ShadowBudget {
    /// A budget for leaves of `leaf_slots` page words.
    ///
    /// # Panics
    /// Unless `leaf_slots` is a power of two from 64 to 8192.
    pub const fn new(leaf_slots: u32) -> ShadowBudget {
        assert!(
            leaf_slots.is_power_of_two() && leaf_slots >= 64 && leaf_slots <= 8192,
            "leaves have 64 to 8192 slots, a power of two"
        );
        ShadowBudget { leaf_slots: leaf_slots as u64, deferred: 0 }
    }

    /// The most all-shadow leaves to keep for `pages` pages of memory (the lruvec's folios).
    pub const fn nr_leaves_max(&self, pages: u64) -> u64 {
        (pages >> PAGES_PER_NODE_SHIFT) / (self.leaf_slots / NODE_SLOTS)
    }

    /// How many of the oldest all-shadow leaves to free now, of the `nr_shadow_leaves` there are.
    ///
    /// To be asked at every reclaim pass, with the priority the pass ended at: the lower, the more
    /// of the trimming left undone by earlier calls is added. What is answered is taken as done.
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

/// As much of `wanted` as whole batches make, or all of it in batches while no less than `excess`.
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

    /// An excess of 100 aims at 50 a call: 50, then 100, which is all of the excess.
    #[test]
    fn small_excesses_are_carried_over_until_they_add_up() {
        let mut budget = ShadowBudget::new(64);
        assert_eq!(budget.nr_leaves_to_free(612, 4096, 0), 0);
        assert_eq!(budget.deferred, 50);
        assert_eq!(budget.nr_leaves_to_free(612, 4096, 0), 100);
        assert_eq!(budget.deferred, 0);
    }

    /// An excess of 200 aims at 100 a call; 100 + 100 makes one batch, and 72 stay to be done.
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

    /// Ten calls leave 500 undone; the excess of 100 bounds that to 200, and what is wanted too.
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

    /// The same history in leaves of 512: an eighth of everything.
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

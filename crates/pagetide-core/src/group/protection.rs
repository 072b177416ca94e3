//! The share of a group's memory that reclaim spares.
//!
//! # Problem
//!
//! Children may ask for more protection than their parent has, and should not take unused
//! protection.
//!
//! # Idea
//!
//! The cause of the reclaim, the group at its limit, hands protection down. Only usage claims it:
//!
//! ```text
//!   claim(g)     = min(usage(g), asked(g))
//!   effective(g) = asked(g)                                       directly below the cause
//!                = claim(g)                                       if the parent has enough
//!                = claim(g) * effective(parent) / sum of claims   if the children claim more
//! ```
//!
//! Directly below the cause, requests are granted in full: overcommitment ends in out-of-memory.
//! The cause itself is unprotected. `min` and `low` are independent.
//!
//! ```text
//!   usage   0 ......... min ............... low .................. usage
//!           never taken  taken if nothing    taken in proportion
//!                        else is left        to the excess
//! ```
//!
//! Above its protection, a group is scanned in proportion to the excess: [`Share::unprotected`].
//! Divisions round down, so siblings never exceed their parent's protection, below the first level.
//!
//! Ignored: giving unclaimed protection to children (the kernel's mount option
//! `memory_recursiveprot`).
//!
//! Sources: `Documentation/admin-guide/cgroup-v2.rst` (`memory.min`, `memory.low`). The share is
//! from Linux 6.18's reclaim.

use super::tree::{GroupTree, Guard};
use crate::ids::GroupId;
use crate::lru::Share;

/// Protection of one group against one cause, in pages.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Protection {
    /// Never taken.
    pub min: u64,
    /// Taken only if nothing else is left.
    pub low: u64,
    /// The group's usage.
    pub usage: u64,
}

impl GroupTree {
    /// Returns a group's protection from reclaim for `cause`, itself or an ancestor.
    ///
    /// # Cost
    /// O(depth).
    pub fn protection(&self, group: GroupId, cause: GroupId) -> Protection {
        let [min, low] = Guard::ALL.map(|guard| effective(self, group, cause, guard));
        Protection { min, low, usage: self.usage(group) }
    }
}

impl Protection {
    /// Returns true if nothing may be taken.
    pub const fn is_below_min(&self) -> bool {
        self.min > 0 && self.usage <= self.min
    }

    /// Returns true if spared until nothing else is left.
    pub const fn is_below_low(&self) -> bool {
        self.low > 0 && self.usage <= self.low
    }

    /// Returns the spared share: the larger of both, or `min` if low is overridden.
    pub const fn share(&self, overrides_low: bool) -> Share {
        let is_low_higher = self.low > self.min && !overrides_low;
        Share { protected: if is_low_higher { self.low } else { self.min }, usage: self.usage }
    }
}

fn effective(tree: &GroupTree, group: GroupId, cause: GroupId, guard: Guard) -> u64 {
    if group == cause {
        return 0;
    }
    let asked = guard.asked_of(&tree.group(group).config);
    let Some(parent) = tree.parent(group) else { return 0 };
    if parent == cause || asked == 0 {
        return asked;
    }
    let given = effective(tree, parent, cause, guard);
    let claim = tree.group(group).claim(guard);
    part(claim, given, tree.group(parent).children_claims[guard as usize])
}

fn part(claim: u64, given: u64, claims: u64) -> u64 {
    if claims <= given {
        return claim;
    }
    (u128::from(claim) * u128::from(given) / u128::from(claims)) as u64
}

#[cfg(test)]
mod tests {
    use super::super::tree::GroupConfig;
    use super::*;

    /// Claims 60, 60 and 0 of 100: 60 * 100 / 120 = 50 each. The unused request costs nothing.
    #[test]
    fn overcommitted_protection_is_shared_by_usage() {
        let mut tree = GroupTree::default();
        let given = GroupConfig { min: 100, low: 300, ..GroupConfig::NONE };
        let parent = tree.create(GroupId::ROOT, given).unwrap();
        let asks = |min, low| GroupConfig { min, low, ..GroupConfig::NONE };
        let busy = tree.create(parent, asks(60, 60)).unwrap();
        let large = tree.create(parent, asks(80, 80)).unwrap();
        let idle = tree.create(parent, asks(500, 500)).unwrap();
        tree.charge(busy, 90).unwrap();
        tree.charge(large, 60).unwrap();
        let of = |group| {
            let Protection { min, low, .. } = tree.protection(group, GroupId::ROOT);
            (min, low)
        };
        assert_eq!(of(parent), (100, 300), "directly below the cause: as asked");
        assert_eq!(of(busy), (50, 60), "of min the parent has too little, of low enough");
        assert_eq!(of(large), (50, 60));
        assert_eq!(of(idle), (0, 0));
        let against = |cause| tree.protection(busy, cause).min;
        assert_eq!(against(parent), 60, "the parent's own limit: its children get what they ask");
        assert_eq!(against(busy), 0, "and none against oneself");
    }

    /// 7, 7 and 7 claimed of 10: 70 / 21 = 3 each.
    #[test]
    fn shares_round_down() {
        assert_eq!(part(7, 10, 21), 3);
        assert_eq!(part(7, 21, 21), 7);
        assert_eq!(part(u64::MAX / 2, u64::MAX - 1, u64::MAX), u64::MAX / 2 - 1);
    }

    #[test]
    fn a_group_is_below_its_protection_up_to_and_with_equality() {
        let protection = |usage| Protection { min: 10, low: 20, usage };
        assert!(protection(10).is_below_min() && !protection(11).is_below_min());
        assert!(protection(20).is_below_low() && !protection(21).is_below_low());
        let none = Protection::default();
        assert!(!none.is_below_min() && !none.is_below_low(), "no protection, no usage");
    }

    #[test]
    fn low_is_spared_until_it_is_overridden() {
        let both = Protection { min: 100, low: 400, usage: 500 };
        assert_eq!(both.share(false).protected, 400);
        assert_eq!(both.share(true).protected, 100);
    }
}

//! Refault distance: decides if a refaulted page was worth keeping.
//!
//! Problem: a page used again just after its eviction looks like a new page, so an unused active
//! list stays protected.
//!
//! Idea: every eviction and every activation moves the inactive list one place on. The nonresident
//! age counts both. Its advance between a page's eviction and return is the number of places by
//! which the list was too short.
//!
//! ```text
//!   time -------------------------------------------------------------->
//!   page in      page evicted: E = age, then age += 1      page back: D = age - E
//!     |---- inactive list ----|-------- D more places needed --------|
//!
//!   it had fitted if     inactive + D <= inactive + what it may displace
//!   that is, if                     D <= W
//! ```
//!
//! `W` is the size of the competing lists: the active list of the page's type, and both lists of
//! the second type if that type can leave memory.
//!
//! Data: one age counter per lruvec. The page's [`ShadowEntry`] holds `E`, cut to [`TOKEN_BITS`]. A
//! page away for more than 2^37 events (512 TiB of evictions) may be misjudged once.
//!
//! In nested memory groups the age of all ancestors advances too ([`HierarchyCounts`]). The clock
//! of the group that caused the reclaim evicts a page ([`CauseClock`]), and judges its refault
//! among the lists of that group and its descendants. [`Groups`](crate::group::Groups) carries
//! these counts. A lruvec without groups treats foreign shadows as shadows of a deleted group.
//!
//! Source: Linux 6.18's workingset detection, described at the head of `mm/workingset.c`.

use super::{LruvecId, ShadowEntry, TOKEN_BITS, TOKEN_MASK};
use crate::ids::PageType;

/// The token is wider than any arena's frame count (2^28), so ages need no rounding.
const _: () = assert!(TOKEN_BITS >= 28);

/// A number of base pages for each of the four lists, such as sizes or quotas.
///
/// Shape: both arrays are indexed by [`PageType::index`].
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ListPages {
    /// The inactive lists.
    pub inactive: [u64; 2],
    /// The active lists.
    pub active: [u64; 2],
}

impl ListPages {
    /// Applies `change` to all four.
    pub fn map(&self, change: impl Fn(u64) -> u64) -> ListPages {
        ListPages { inactive: self.inactive.map(&change), active: self.active.map(&change) }
    }

    /// Adds `other`.
    pub const fn plus(&self, other: &ListPages) -> ListPages {
        ListPages {
            inactive: [self.inactive[0] + other.inactive[0], self.inactive[1] + other.inactive[1]],
            active: [self.active[0] + other.active[0], self.active[1] + other.active[1]],
        }
    }

    /// Returns the sum of one type.
    pub const fn of_type(&self, page_type: PageType) -> u64 {
        self.inactive[page_type.index()] + self.active[page_type.index()]
    }

    /// Returns the sum of all four.
    pub const fn total(&self) -> u64 {
        self.of_type(PageType::Anon) + self.of_type(PageType::File)
    }
}

/// The nonresident age of one lruvec: moves of its inactive lists.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct NonresidentAge {
    age: u64,
}

impl NonresidentAge {
    /// Creates a clock at `age`.
    pub const fn new(age: u64) -> NonresidentAge {
        NonresidentAge { age }
    }

    /// Returns the age.
    pub const fn read(self) -> u64 {
        self.age
    }

    /// Advances the clock by `nr_pages` activated or put back active.
    pub fn advance(&mut self, nr_pages: u64) {
        self.age = self.age.wrapping_add(nr_pages);
    }

    /// Returns the shadow of an evicted one-page folio, then advances the clock.
    pub fn evict(&mut self, id: LruvecId, workingset: bool) -> ShadowEntry {
        let shadow = self.shadow(id, workingset);
        self.advance(1);
        shadow
    }

    /// Returns a shadow with the current age.
    pub fn shadow(self, id: LruvecId, workingset: bool) -> ShadowEntry {
        ShadowEntry::new(self.age, id, workingset)
    }

    /// Returns the age difference since `shadow`, modulo `2^TOKEN_BITS`.
    pub const fn distance(self, shadow: ShadowEntry) -> u64 {
        self.age.wrapping_sub(shadow.token()) & TOKEN_MASK
    }

    /// Returns true if the distance is at most `threshold` pages.
    pub const fn is_recent(self, shadow: ShadowEntry, threshold: u64) -> bool {
        self.distance(shadow) <= threshold
    }
}

/// Totals of a lruvec that its ancestors count too. They only grow.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct HierarchyCounts {
    /// Advance of the nonresident age, modulo 2^64.
    pub age: u64,
    /// Reclaim cost of each type, in rotated folios.
    pub cost: [u64; 2],
}

impl HierarchyCounts {
    /// Returns the counts since `then`.
    pub const fn since(&self, then: &HierarchyCounts) -> HierarchyCounts {
        HierarchyCounts {
            age: self.age.wrapping_sub(then.age),
            cost: [
                self.cost[0].wrapping_sub(then.cost[0]),
                self.cost[1].wrapping_sub(then.cost[1]),
            ],
        }
    }
}

/// The eviction clock if another group's limit is the cause.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CauseClock {
    /// The lruvec of the group with the limit.
    pub id: LruvecId,
    /// The age of that lruvec.
    pub age: NonresidentAge,
}

impl CauseClock {
    /// Evicts as [`NonresidentAge::evict`], by this clock.
    pub fn evict(&mut self, workingset: bool) -> ShadowEntry {
        self.age.evict(self.id, workingset)
    }
}

/// Returns `W` of the module's diagram for a page of `page_type`.
///
/// `sizes` excludes isolated and logged folios.
pub const fn refault_threshold(sizes: &ListPages, page_type: PageType, can_swap: bool) -> u64 {
    const ANON: usize = PageType::Anon.index();
    const FILE: usize = PageType::File.index();
    let of_anon = match (page_type, can_swap) {
        (_, false) => 0,
        (PageType::File, true) => sizes.active[ANON] + sizes.inactive[ANON],
        (PageType::Anon, true) => sizes.active[ANON],
    };
    let of_file = match page_type {
        PageType::File => sizes.active[FILE],
        PageType::Anon => sizes.active[FILE] + sizes.inactive[FILE],
    };
    of_file + of_anon
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: LruvecId = LruvecId { group: 3, node: 1 };

    #[test]
    fn immediate_refault_is_one_place_away() {
        let mut age = NonresidentAge::default();
        let shadow = age.evict(ID, false);
        assert_eq!(age.distance(shadow), 1);
    }

    #[test]
    fn evictions_and_activations_add_up_to_the_distance() {
        let mut age = NonresidentAge::new(1000);
        let shadow = age.evict(ID, true);
        assert_eq!((shadow.token(), shadow.workingset()), (1000, true));
        for _ in 0..40 {
            let _ = age.evict(ID, false);
        }
        age.advance(10);
        assert_eq!(age.distance(shadow), 51);
        assert!(!age.is_recent(shadow, 50));
        assert!(age.is_recent(shadow, 51), "the comparison includes equality");
    }

    #[test]
    fn distance_survives_the_wrap_of_the_token() {
        let mut age = NonresidentAge::new(TOKEN_MASK - 2);
        let shadow = age.evict(ID, false);
        age.advance(9);
        assert_eq!(shadow.token(), TOKEN_MASK - 2);
        assert!(age.read() > TOKEN_MASK);
        assert_eq!(age.distance(shadow), 10);
        let mut age = NonresidentAge::new(u64::MAX);
        let shadow = age.evict(ID, false);
        age.advance(4);
        assert_eq!(age.distance(shadow), 5);
    }

    #[test]
    fn file_pages_displace_anonymous_ones_only_with_swap() {
        let sizes = ListPages { inactive: [1500, 700], active: [2500, 3000] };
        assert_eq!(refault_threshold(&sizes, PageType::File, true), 7000);
        assert_eq!(refault_threshold(&sizes, PageType::File, false), 3000);
        let shadow = NonresidentAge::new(77).evict(ID, false);
        let later = NonresidentAge::new(77 + 5000);
        assert!(later.is_recent(shadow, 7000));
        assert!(!later.is_recent(shadow, 3000));
    }

    #[test]
    fn anonymous_pages_displace_all_file_pages_and_active_anonymous_ones() {
        let sizes = ListPages { inactive: [1500, 700], active: [2500, 3000] };
        assert_eq!(refault_threshold(&sizes, PageType::Anon, true), 3000 + 700 + 2500);
        assert_eq!(refault_threshold(&sizes, PageType::Anon, false), 3000 + 700);
    }
}

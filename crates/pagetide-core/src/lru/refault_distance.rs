//! Refault distance: was the page that returns worth keeping?
//!
//! Problem: a page that is used again just after it was evicted looks exactly like a page seen for
//! the first time. A policy that cannot tell them apart protects an active list that is not used
//! any more while the real working set streams through the inactive list and never gets its second
//! access there.
//!
//! Idea: count what moves a page towards the old end. Every eviction, and every activation, moves
//! all folios of the inactive list one place on; so a counter of both, the nonresident age, read at
//! a page's eviction and again at its return, says how many more places it would have needed.
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
//! What a page may displace, `W`, are the lists it competes with: the active list of its own type,
//! and everything of the other type if the other type can leave memory at all.
//!
//! Data: the age, one counter a lruvec; `E` travels in the page's [`ShadowEntry`], cut to
//! [`TOKEN_BITS`]. Distances are taken modulo `2^37`: a page that stays away for
//! more than 2^37 events (512 TiB of evictions) may be misjudged once.
//!
//! Where memory groups nest, ages move on in a lruvec and in those of all its ancestors
//! ([`HierarchyCounts`]); a page is evicted by the clock of the group whose limit was the cause
//! ([`CauseClock`]), and its return is judged on that clock, among the lists of that group and
//! those below it. [`Groups`](crate::group::Groups) carries all this from lruvec to lruvec. A
//! lruvec that stands alone treats a shadow of another as one of a group that is gone.
//!
//! Sources: the kernel's documented workingset design, "double CLOCK lists" and "refault distance";
//! the classic LRU specification, section 7.

use super::{LruvecId, ShadowEntry, TOKEN_BITS, TOKEN_MASK};
use crate::ids::PageType;

/// Ages need no rounding before they are packed: the token is wider than any arena's frame count
/// (2^28), so the kernel's bucket order would be zero.
const _: () = assert!(TOKEN_BITS >= 28);

/// Base pages for each of the four lists; which pages, the user says (sizes, quotas).
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
    /// Each of the four, changed.
    pub fn map(&self, change: impl Fn(u64) -> u64) -> ListPages {
        ListPages { inactive: self.inactive.map(&change), active: self.active.map(&change) }
    }

    /// These and `other` together.
    pub const fn plus(&self, other: &ListPages) -> ListPages {
        ListPages {
            inactive: [self.inactive[0] + other.inactive[0], self.inactive[1] + other.inactive[1]],
            active: [self.active[0] + other.active[0], self.active[1] + other.active[1]],
        }
    }

    /// Both lists of one type.
    pub const fn of_type(&self, page_type: PageType) -> u64 {
        self.inactive[page_type.index()] + self.active[page_type.index()]
    }

    /// All four lists.
    pub const fn total(&self) -> u64 {
        self.of_type(PageType::Anon) + self.of_type(PageType::File)
    }
}

/// The nonresident age of one lruvec: how often its inactive lists moved on.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct NonresidentAge {
    age: u64,
}

impl NonresidentAge {
    /// A clock that starts at `age`.
    pub const fn new(age: u64) -> NonresidentAge {
        NonresidentAge { age }
    }

    /// The clock now.
    pub const fn read(self) -> u64 {
        self.age
    }

    /// Moves the clock on by `nr_pages`: activated, or put back active after isolation.
    pub fn advance(&mut self, nr_pages: u64) {
        self.age = self.age.wrapping_add(nr_pages);
    }

    /// A folio of one page is evicted from lruvec `id`: packs the age as it is, then moves it on.
    pub fn evict(&mut self, id: LruvecId, workingset: bool) -> ShadowEntry {
        let shadow = self.shadow(id, workingset);
        self.advance(1);
        shadow
    }

    /// The clock packed as it is.
    pub fn shadow(self, id: LruvecId, workingset: bool) -> ShadowEntry {
        ShadowEntry::new(self.age, id, workingset)
    }

    /// How far the clock has moved since `shadow` was left, modulo `2^TOKEN_BITS`.
    pub const fn distance(self, shadow: ShadowEntry) -> u64 {
        self.age.wrapping_sub(shadow.token()) & TOKEN_MASK
    }

    /// Whether the page that left `shadow` would have stayed had it been allowed to displace
    /// `threshold` pages. The comparison includes equality.
    pub const fn is_recent(self, shadow: ShadowEntry, threshold: u64) -> bool {
        self.distance(shadow) <= threshold
    }
}

/// What a lruvec counted that its ancestors count, too: totals that only grow.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct HierarchyCounts {
    /// By how much the nonresident age has moved on, modulo 2^64.
    pub age: u64,
    /// What reclaim of each type has cost, in rotated folios.
    pub cost: [u64; 2],
}

impl HierarchyCounts {
    /// What was counted since `then`.
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

/// The clock by which pages are evicted when the limit of another group is the cause.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CauseClock {
    /// The lruvec of the group with the limit.
    pub id: LruvecId,
    /// Its age.
    pub age: NonresidentAge,
}

impl CauseClock {
    /// As [`NonresidentAge::evict`], by this clock.
    pub fn evict(&mut self, workingset: bool) -> ShadowEntry {
        self.age.evict(self.id, workingset)
    }
}

/// The pages a returning page of `page_type` may displace: the `W` of the module's picture.
///
/// `sizes` are those of the lists, without folios that are isolated or still in a log.
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

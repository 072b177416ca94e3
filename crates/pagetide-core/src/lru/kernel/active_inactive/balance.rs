//! Balance between a type's two lists, and between the types.
//!
//! Problem: how much of memory may be active, and how much of each type is scanned? Idea: four pure
//! functions of small numbers.
//!
//! ```text
//!   is the inactive list too short?       inactive_is_low    inactive * ratio(total) < active
//!                                         active_is_longer   the rule before v4.7
//!   which types are scanned, and how?     ScanMode::choose   first matching rule
//!   how much of each list?                scan_targets       (size >> priority) * share
//! ```
//!
//! The ratio grows with the square root of the size: a 1 TiB lruvec keeps 1 % inactive, enough to
//! see a new page twice. A small one keeps half.
//!
//! The caller subtracts a group's protected memory from the sizes. Ignored: requests to reclaim
//! anonymous memory only. Source: Linux 6.18's reclaim.

use super::cost::ReclaimCost;
use crate::ids::PageType;
use crate::lru::refault_distance::ListPages;
use crate::units::PAGE_SHIFT;

/// Returns the maximum ratio of active to inactive pages of a type.
pub const fn inactive_ratio(total: u64) -> u64 {
    let gib = total >> (30 - PAGE_SHIFT);
    if gib == 0 { 1 } else { (10 * gib).isqrt() }
}

/// Returns true if a type's inactive list is too short.
pub const fn inactive_is_low(inactive: u64, active: u64) -> bool {
    inactive * inactive_ratio(inactive + active) < active
}

/// Returns true if more than half of a type's pages are active: the rule before the ratio.
pub const fn active_is_longer(inactive: u64, active: u64) -> bool {
    inactive < active
}

/// The division of a scan between the types.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ScanMode {
    /// File lists only.
    FileOnly,
    /// Anonymous lists only.
    AnonOnly,
    /// Every list in full.
    Equal,
    /// Shares by cost and swappiness.
    Fractions,
}

/// The input of [`ScanMode::choose`].
#[derive(Clone, Copy, Debug)]
pub struct ModeInputs {
    /// List sizes from the statistics.
    pub sizes: ListPages,
    /// True if anonymous folios can be swapped out.
    pub can_swap: bool,
    /// Swappiness, 0 to 200.
    pub swappiness: u8,
    /// Priority, 12 down to 0.
    pub priority: u8,
    /// True if a memory group's limit is the cause, false if the whole machine.
    pub is_group: bool,
    /// True if file and free pages together are at most the zones' high watermarks.
    pub is_file_tiny: bool,
    /// True if active folios may be deactivated, by type.
    pub may_deactivate: [bool; 2],
}

impl ScanMode {
    /// Returns the mode of the first rule that matches.
    pub fn choose(inputs: &ModeInputs) -> ScanMode {
        const ANON: usize = PageType::Anon.index();
        const FILE: usize = PageType::File.index();
        let has_inactive = |lists: u64| lists >> inputs.priority > 0;
        if !inputs.can_swap || (inputs.is_group && inputs.swappiness == 0) {
            ScanMode::FileOnly
        } else if inputs.priority == 0 && inputs.swappiness > 0 {
            ScanMode::Equal
        } else if !inputs.is_group
            && inputs.is_file_tiny
            && !inputs.may_deactivate[ANON]
            && has_inactive(inputs.sizes.inactive[ANON])
        {
            ScanMode::AnonOnly
        } else if !inputs.may_deactivate[FILE] && has_inactive(inputs.sizes.inactive[FILE]) {
            // Trims the cache: inactive file memory did not refault.
            ScanMode::FileOnly
        } else {
            ScanMode::Fractions
        }
    }
}

/// Returns the shares of anonymous and file lists. Before swappiness, each type keeps at least
/// about a third.
pub const fn fractions(swappiness: u8, cost: &ReclaimCost) -> [u64; 2] {
    let sum = cost.of(PageType::Anon) + cost.of(PageType::File);
    let anon = sum + cost.of(PageType::Anon);
    let file = sum + cost.of(PageType::File);
    let total = anon + file;
    let weight = swappiness as u64;
    [weight * (total + 1) / (anon + 1), (200 - weight) * (total + 1) / (file + 1)]
}

/// Returns the number of folios to scan per list at one priority.
pub fn scan_targets(
    sizes: &ListPages,
    priority: u8,
    mode: ScanMode,
    [anon, file]: [u64; 2],
) -> ListPages {
    let share = |page_type: PageType, size: u64| {
        let base = size >> priority;
        match (mode, page_type) {
            (ScanMode::Equal, _)
            | (ScanMode::FileOnly, PageType::File)
            | (ScanMode::AnonOnly, PageType::Anon) => base,
            (ScanMode::FileOnly | ScanMode::AnonOnly, _) => 0,
            (ScanMode::Fractions, PageType::Anon) => base * anon / (anon + file),
            (ScanMode::Fractions, PageType::File) => base * file / (anon + file),
        }
    };
    let both = |sizes: [u64; 2]| PageType::ALL.map(|each| share(each, sizes[each.index()]));
    ListPages { inactive: both(sizes.inactive), active: both(sizes.active) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 18;

    #[test]
    fn ratio_is_the_root_of_ten_times_the_gibibytes() {
        assert_eq!(inactive_ratio(GIB - 1), 1);
        let table = [(1, 3), (4, 6), (10, 10), (100, 31), (1024, 101), (10_000, 316)];
        for (gib, ratio) in table {
            assert_eq!(inactive_ratio(gib * GIB), ratio, "{gib} GiB");
        }
    }

    #[test]
    fn inactive_list_is_low_by_the_ratio() {
        assert!(!inactive_is_low(100, 100));
        assert!(inactive_is_low(100, 101));
        assert!(inactive_is_low(131_072, 917_504));
        assert!(!inactive_is_low(262_144, 786_432));
    }

    #[test]
    fn half_may_be_active() {
        assert!(!active_is_longer(100, 100));
        assert!(active_is_longer(100, 101));
        assert!(active_is_longer(262_144, 786_432), "however large memory is");
    }

    #[test]
    fn shares_follow_cost_and_swappiness() {
        let table = [
            (60, [0, 0], [60, 140]),
            (60, [300, 100], [102, 335]),
            (60, [0, 1000], [179, 209]),
            (200, [0, 1000], [599, 0]),
            (0, [5, 5], [0, 387]),
        ];
        for (swappiness, cost, shares) in table {
            assert_eq!(fractions(swappiness, &ReclaimCost::new(cost)), shares, "{cost:?}");
        }
    }

    fn inputs() -> ModeInputs {
        ModeInputs {
            sizes: ListPages { inactive: [4096, 4096], active: [4096, 4096] },
            can_swap: true,
            swappiness: 60,
            priority: 12,
            is_group: true,
            is_file_tiny: false,
            may_deactivate: [true, true],
        }
    }

    #[test]
    fn first_matching_rule_decides_the_mode() {
        let choose = |change: fn(&mut ModeInputs)| {
            let mut inputs = inputs();
            change(&mut inputs);
            ScanMode::choose(&inputs)
        };
        assert_eq!(choose(|_| ()), ScanMode::Fractions);
        assert_eq!(choose(|i| i.can_swap = false), ScanMode::FileOnly);
        assert_eq!(choose(|i| i.swappiness = 0), ScanMode::FileOnly);
        assert_eq!(choose(|i| (i.swappiness, i.is_group) = (0, false)), ScanMode::Fractions);
        assert_eq!(choose(|i| i.priority = 0), ScanMode::Equal);
        assert_eq!(choose(|i| (i.priority, i.can_swap) = (0, false)), ScanMode::FileOnly);
        let tiny = |i: &mut ModeInputs| {
            (i.is_group, i.is_file_tiny, i.may_deactivate) = (false, true, [false, false]);
        };
        assert_eq!(choose(tiny), ScanMode::AnonOnly, "before cache trimming");
        assert_eq!(choose(|i| i.may_deactivate[1] = false), ScanMode::FileOnly, "trims the cache");
    }

    #[test]
    fn no_trimming_where_the_inactive_list_is_empty_at_this_priority() {
        let mut inputs = inputs();
        inputs.may_deactivate[1] = false;
        inputs.sizes.inactive[1] = 4095;
        assert_eq!(ScanMode::choose(&inputs), ScanMode::Fractions);
        inputs.priority = 11;
        assert_eq!(ScanMode::choose(&inputs), ScanMode::FileOnly);
    }

    #[test]
    fn targets_are_the_sizes_by_priority_and_share() {
        let sizes = ListPages { inactive: [4096, 8192], active: [12_288, 1000] };
        let at = |mode| scan_targets(&sizes, 2, mode, [60, 140]);
        assert_eq!(at(ScanMode::Equal), ListPages { inactive: [1024, 2048], active: [3072, 250] });
        assert_eq!(at(ScanMode::FileOnly), ListPages { inactive: [0, 2048], active: [0, 250] });
        assert_eq!(at(ScanMode::AnonOnly), ListPages { inactive: [1024, 0], active: [3072, 0] });
        let shared = ListPages { inactive: [307, 1433], active: [921, 175] };
        assert_eq!(at(ScanMode::Fractions), shared);
    }
}

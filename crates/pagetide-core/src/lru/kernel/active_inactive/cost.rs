//! What reclaiming each type has cost lately.
//!
//! Problem: evicting the wrong type shows only later, as pages that come back. Idea: charge each
//! type for its refaults of working-set pages and for folios scanned in vain; the dearer type is
//! scanned less. The sums decay by halves, so that only the recent past counts.
//!
//! ```text
//!   +32 * nr_io + nr_rotated --> cost[type];   cost[anon] + cost[file] > lists / 4 : halve both
//! ```
//!
//! A group's ancestors are charged, too ([`ReclaimCost::note_below`]), in sums of what was counted
//! below them meanwhile: they halve once a sum where the kernel's halve once an event. Source: the
//! classic LRU specification, section 6, cost accounting since v6.2.

use crate::ids::PageType;

/// What one page of I/O costs, in rotated folios.
const IO_COST: u64 = 32;

/// Recent costs of both types, in rotated folios.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ReclaimCost {
    by_type: [u64; 2],
    /// All that was noted here, without decay: what ancestors count, too.
    noted: [u64; 2],
}

impl ReclaimCost {
    /// Costs to start from; index by [`PageType::index`].
    pub const fn new(by_type: [u64; 2]) -> ReclaimCost {
        ReclaimCost { by_type, noted: [0; 2] }
    }

    /// The cost of one type.
    pub const fn of(&self, page_type: PageType) -> u64 {
        self.by_type[page_type.index()]
    }

    /// Charges `page_type` for `nr_io` pages of I/O and `nr_rotated` folios scanned in vain;
    /// `nr_listed` are the folios on all lists. An event of no cost changes nothing.
    pub fn note(&mut self, page_type: PageType, nr_io: u64, nr_rotated: u64, nr_listed: u64) {
        let cost = nr_io * IO_COST + nr_rotated;
        self.noted[page_type.index()] = self.noted[page_type.index()].wrapping_add(cost);
        self.add(page_type, cost, nr_listed);
    }

    /// All that was ever noted, by type; it only grows, modulo 2^64.
    pub const fn noted(&self) -> [u64; 2] {
        self.noted
    }

    /// Adds what was noted below, for a group's ancestor; `nr_listed` as for
    /// [`ReclaimCost::note`].
    pub fn note_below(&mut self, cost: [u64; 2], nr_listed: u64) {
        for page_type in PageType::ALL {
            self.add(page_type, cost[page_type.index()], nr_listed);
        }
    }

    fn add(&mut self, page_type: PageType, cost: u64, nr_listed: u64) {
        if cost == 0 {
            return;
        }
        self.by_type[page_type.index()] += cost;
        if self.by_type.iter().sum::<u64>() > nr_listed / 4 {
            self.by_type = self.by_type.map(|cost| cost / 2);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_halves_both_types_once() {
        let mut cost = ReclaimCost::new([200, 40]);
        cost.note(PageType::Anon, 1, 3, 1000);
        assert_eq!(cost.by_type, [117, 20]);
        assert_eq!(cost.noted(), [35, 0]);
        let mut far_over = ReclaimCost::new([2000, 400]);
        far_over.note(PageType::File, 0, 1, 1000);
        assert_eq!(far_over.by_type, [1000, 200], "once, though still over a quarter");
    }

    #[test]
    fn a_quarter_of_the_lists_is_not_over_it() {
        let mut cost = ReclaimCost::new([200, 40]);
        cost.note(PageType::File, 0, 10, 1000);
        assert_eq!(cost.by_type, [200, 50]);
    }

    #[test]
    fn free_events_do_not_decay() {
        let mut cost = ReclaimCost::new([900, 900]);
        cost.note(PageType::Anon, 0, 0, 4);
        assert_eq!(cost, ReclaimCost::new([900, 900]));
    }
}

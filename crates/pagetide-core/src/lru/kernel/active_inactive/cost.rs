//! Recent reclaim cost of each type.
//!
//! Problem: an eviction of the wrong type shows only later. Idea: charge each type for working-set
//! refaults and for folios scanned in vain, and scan the cheaper type more.
//!
//! ```text
//!   +32 * nr_io + nr_rotated --> cost[type];   cost[anon] + cost[file] > lists / 4 : halve both
//! ```
//!
//! A group's ancestors are charged with sums ([`ReclaimCost::note_below`]) and halve once per sum,
//! the kernel once per event.
//!
//! In 7.3 events are only counted ([`ReclaimCost::counted`]), and charged when a pass starts:
//!
//! ```text
//!   event --> counted --fold--> folded --take_counted--> cost[type]; while over lists / 4: halve
//! ```
//!
//! Ignored: write-back by reclaim, which does not happen here. Source: the costs of Linux 6.2 to
//! 6.18, and of 7.3.

use crate::ids::PageType;
use crate::lru::Statistics;

/// Cost of one page of I/O, in rotated folios.
const IO_COST: u64 = 32;

/// Recent costs of both types, in rotated folios.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ReclaimCost {
    by_type: [u64; 2],
    /// Total without decay, for the ancestors.
    noted: [u64; 2],
    /// Counters of 7.3. `None` charges each event at once.
    counters: Option<CostCounters>,
}

#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct CostCounters {
    statistics: Statistics,
    /// Events in a group's descendants.
    below: [u64; 2],
    folded: [u64; 2],
    charged: [u64; 2],
}

impl ReclaimCost {
    /// Creates initial costs, indexed by [`PageType::index`].
    pub const fn new(by_type: [u64; 2]) -> ReclaimCost {
        ReclaimCost { by_type, noted: [0; 2], counters: None }
    }

    /// Creates zero costs, charged only by [`ReclaimCost::take_counted`].
    pub fn counted(statistics: Statistics) -> ReclaimCost {
        let counters = CostCounters { statistics, ..CostCounters::default() };
        ReclaimCost { counters: Some(counters), ..ReclaimCost::default() }
    }

    /// Returns the cost of one type.
    pub const fn of(&self, page_type: PageType) -> u64 {
        self.by_type[page_type.index()]
    }

    /// Charges `page_type` for `nr_io` pages of I/O and `nr_rotated` folios scanned in vain.
    /// `nr_listed` is the number of folios on all lists. Events without cost cause no decay.
    pub fn note(&mut self, page_type: PageType, nr_io: u64, nr_rotated: u64, nr_listed: u64) {
        let cost = nr_io * IO_COST + nr_rotated;
        self.noted[page_type.index()] = self.noted[page_type.index()].wrapping_add(cost);
        if self.counters.is_none() {
            self.add(page_type, cost, nr_listed);
        }
    }

    /// Returns the totals by type, modulo 2^64.
    pub const fn noted(&self) -> [u64; 2] {
        self.noted
    }

    /// Charges the costs of descendants. `nr_listed` as for [`ReclaimCost::note`].
    pub fn note_below(&mut self, cost: [u64; 2], nr_listed: u64) {
        if let Some(counters) = &mut self.counters {
            counters.below = sum(counters.below, cost);
            return;
        }
        for page_type in PageType::ALL {
            self.add(page_type, cost[page_type.index()], nr_listed);
        }
    }

    /// Folds the counters, for [`Statistics::Folded`].
    pub fn fold(&mut self) {
        if let Some(counters) = &mut self.counters {
            counters.folded = sum(self.noted, counters.below);
        }
    }

    /// Charges the counts since the last pass at the start of a pass. `nr_listed` is the number of
    /// folios on all lists in the statistics.
    pub fn take_counted(&mut self, nr_listed: u64) {
        let Some(counters) = &mut self.counters else { return };
        let now = match counters.statistics {
            Statistics::Live => sum(self.noted, counters.below),
            Statistics::Folded => counters.folded,
        };
        for (cost, (now, then)) in self.by_type.iter_mut().zip(now.iter().zip(counters.charged)) {
            *cost += now.wrapping_sub(then);
        }
        counters.charged = now;
        while self.by_type.iter().sum::<u64>() > nr_listed / 4 {
            self.by_type = self.by_type.map(|cost| cost / 2);
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

fn sum(one: [u64; 2], other: [u64; 2]) -> [u64; 2] {
    [one[0].wrapping_add(other[0]), one[1].wrapping_add(other[1])]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Starts from 200 and 40.
    fn taken(nr_io: u64, nr_rotated: u64) -> [u64; 2] {
        let mut cost = ReclaimCost::counted(Statistics::Live);
        cost.by_type = [200, 40];
        for _ in 0..nr_io {
            cost.note(PageType::Anon, 1, 0, 1000);
        }
        cost.note(PageType::Anon, 0, nr_rotated, 1000);
        assert_eq!(cost.by_type, [200, 40], "only counted");
        cost.take_counted(1000);
        let once = cost.by_type;
        cost.take_counted(1000);
        assert_eq!(cost.by_type, once, "charged once");
        once
    }

    #[test]
    fn counted_costs_are_charged_in_one_step_and_halved_until_they_fit() {
        assert_eq!(taken(1, 3), [117, 20], "as at once");
        assert_eq!(taken(20, 0), [210, 10], "at once they would be halved at each event");
    }

    #[test]
    fn folded_counters_move_at_folds() {
        let mut cost = ReclaimCost::counted(Statistics::Folded);
        cost.note(PageType::File, 0, 5, 1000);
        cost.note_below([2, 0], 1000);
        cost.take_counted(1000);
        assert_eq!((cost.by_type, cost.noted()), ([0, 0], [0, 5]));
        cost.fold();
        cost.note(PageType::File, 0, 9, 1000);
        cost.take_counted(1000);
        assert_eq!(cost.by_type, [2, 5]);
    }

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

//! One priority of a pass: quotas, used up in rounds over the lists.
//!
//! ```text
//!   round:  inactive anon -> active anon -> inactive file -> active file     32 folios each
//!     ^                                                            |
//!     +--- enough reclaimed? a type is done: stop; else drop the type with less left -+
//! ```
//!
//! If an active list may not be deactivated, its quota is skipped piece by piece. A pass that
//! skipped and freed nothing is repeated with force.
//!
//! [`Round`] is arithmetic only. Source: Linux 6.18's reclaim.

use super::lists::{Activity, ListId};
use crate::ids::PageType;
use crate::lru::refault_distance::ListPages;
use crate::lru::{RECLAIM_BATCH, Scan};

/// The next piece of work at one priority.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Work {
    /// Scan this number of folios of a list.
    Scan(ListId, u64),
    /// The quotas are used up. If anonymous folios can be aged, scan one more piece of their active
    /// list.
    AgeAnon,
    /// Nothing.
    Nothing,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    At(usize),
    AgeAnon,
    Over,
}

/// Quotas and their remainders.
#[derive(Debug)]
pub struct Round {
    targets: ListPages,
    left: ListPages,
    may_deactivate: [bool; 2],
    stage: Stage,
    /// Folios reclaimed at this priority, for the stop test.
    reclaimed: u64,
}

impl Round {
    /// Starts on `targets`, with the permission to deactivate by type.
    pub fn new(targets: ListPages, may_deactivate: [bool; 2]) -> Round {
        let stage = Stage::At(0);
        Round { targets, left: targets, may_deactivate, stage, reclaimed: 0 }
    }

    /// Changes the permission from the next piece on.
    pub fn permit(&mut self, may_deactivate: [bool; 2]) {
        self.may_deactivate = may_deactivate;
    }

    /// Counts folios reclaimed by the last piece.
    pub fn count_reclaimed(&mut self, nr: u64) {
        self.reclaimed += nr;
    }

    /// Returns the next piece. Sets `scan.skipped` if an active list is skipped.
    pub fn next_work(&mut self, scan: &mut Scan) -> Work {
        while let Stage::At(at) = self.stage {
            if at == 0 && self.is_over(scan.target) {
                self.stage = Stage::AgeAnon;
                break;
            }
            self.stage = Stage::At((at + 1) % ListId::ROUND.len());
            let list = ListId::ROUND[at];
            let nr = self.take_piece(list, scan);
            if nr == 0 {
                continue;
            }
            if list.activity == Activity::Active && !self.may_deactivate[list.page_type.index()] {
                scan.skipped = true;
                continue;
            }
            return Work::Scan(list, nr);
        }
        if self.stage == Stage::AgeAnon {
            self.stage = Stage::Over;
            return Work::AgeAnon;
        }
        Work::Nothing
    }

    fn take_piece(&mut self, list: ListId, scan: &Scan) -> u64 {
        let left = self.left.of_list_mut(list);
        let most = match list.activity {
            Activity::Inactive => RECLAIM_BATCH.min(scan.victims_max as u64),
            // Folios to look at.
            Activity::Active => RECLAIM_BATCH,
        };
        let nr = (*left).min(most);
        *left -= nr;
        nr
    }

    /// Returns true if the priority is over. Remaining quota of the active anonymous list alone
    /// does not count.
    fn is_over(&mut self, target: u64) -> bool {
        let has_work =
            self.left.inactive.iter().sum::<u64>() + self.left.active[PageType::File.index()] > 0;
        !has_work || (self.reclaimed >= target && self.drop_smaller_type())
    }

    /// Returns true if no type or only one has work left. Otherwise drops the type with less work,
    /// and cuts the other to the same fraction of its quota.
    fn drop_smaller_type(&mut self) -> bool {
        let [anon, file] = PageType::ALL.map(|page_type| self.left.of_type(page_type));
        if anon == 0 || file == 0 {
            return true;
        }
        let dropped = if file > anon { PageType::Anon } else { PageType::File };
        let percent_left = self.left.of_type(dropped) * 100 / (self.targets.of_type(dropped) + 1);
        for list in ListId::ROUND {
            let left = self.left.of_list(list);
            let target = self.targets.of_list(list);
            *self.left.of_list_mut(list) = if list.page_type == dropped {
                0
            } else {
                (target * (100 - percent_left) / 100).saturating_sub(target - left)
            };
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lru::ReclaimKind;
    use alloc::vec::Vec;

    const INACTIVE_ANON: ListId = ListId::ROUND[0];
    const ACTIVE_ANON: ListId = ListId::ROUND[1];
    const INACTIVE_FILE: ListId = ListId::ROUND[2];
    const ACTIVE_FILE: ListId = ListId::ROUND[3];

    fn scan() -> Scan {
        Scan::new(ReclaimKind::Direct, 32)
    }

    fn work(mut round: Round, scan: &mut Scan, reclaims: fn(ListId, u64) -> u64) -> Vec<Work> {
        let mut done = Vec::new();
        loop {
            let work = round.next_work(scan);
            match work {
                Work::Scan(list, nr) => round.count_reclaimed(reclaims(list, nr)),
                Work::AgeAnon => {}
                Work::Nothing => return done,
            }
            done.push(work);
        }
    }

    #[test]
    fn lists_take_turns_in_pieces_of_32() {
        let targets = ListPages { inactive: [0, 70], active: [0, 40] };
        let pieces = work(Round::new(targets, [true; 2]), &mut scan(), |_, _| 0);
        let expected = [
            Work::Scan(INACTIVE_FILE, 32),
            Work::Scan(ACTIVE_FILE, 32),
            Work::Scan(INACTIVE_FILE, 32),
            Work::Scan(ACTIVE_FILE, 8),
            Work::Scan(INACTIVE_FILE, 6),
            Work::AgeAnon,
        ];
        assert_eq!(pieces, expected);
    }

    #[test]
    fn forbidden_active_list_is_skipped_and_noted() {
        let targets = ListPages { inactive: [0, 20], active: [0, 40] };
        let mut scan = scan();
        let pieces = work(Round::new(targets, [true, false]), &mut scan, |_, _| 0);
        assert_eq!(pieces, [Work::Scan(INACTIVE_FILE, 20), Work::AgeAnon]);
        assert!(scan.skipped);
    }

    #[test]
    fn file_only_stops_after_the_round_that_meets_the_target() {
        let targets = ListPages { inactive: [0, 300], active: [0, 300] };
        let inactive_half = |list: ListId, nr| match list.activity {
            Activity::Inactive => nr / 2,
            Activity::Active => 0,
        };
        let mut scan = scan();
        let pieces = work(Round::new(targets, [true; 2]), &mut scan, inactive_half);
        assert_eq!(pieces.len(), 5, "two rounds of two pieces, and aging: {pieces:?}");
        assert!(!scan.skipped);
    }

    #[test]
    fn active_anon_alone_does_not_go_on() {
        let targets = ListPages { inactive: [10, 0], active: [100, 0] };
        let pieces = work(Round::new(targets, [true; 2]), &mut scan(), |_, _| 0);
        let expected = [Work::Scan(INACTIVE_ANON, 10), Work::Scan(ACTIVE_ANON, 32), Work::AgeAnon];
        assert_eq!(pieces, expected);
    }

    /// Anon has 36 + 68 of 68 + 100 left: p = 10400 / 169 = 61. File goes on to 39 % of 400 and
    /// 200: 156 and 78, less 32 each.
    #[test]
    fn other_type_goes_on_to_the_same_fraction() {
        let targets = ListPages { inactive: [68, 400], active: [100, 200] };
        let mut round = Round::new(targets, [true; 2]);
        let mut scan = scan();
        for list in ListId::ROUND {
            assert_eq!(round.next_work(&mut scan), Work::Scan(list, 32));
        }
        round.count_reclaimed(64);
        assert_eq!(round.next_work(&mut scan), Work::Scan(INACTIVE_FILE, 32));
        assert_eq!(round.left, ListPages { inactive: [0, 156 - 32 - 32], active: [0, 78 - 32] });
        assert_eq!(round.next_work(&mut scan), Work::Scan(ACTIVE_FILE, 32));
        assert_eq!(round.next_work(&mut scan), Work::AgeAnon, "now one type has nothing left");
    }

    #[test]
    fn of_equal_types_the_file_type_is_dropped() {
        let targets = ListPages { inactive: [100, 100], active: [0, 0] };
        let mut round = Round::new(targets, [true; 2]);
        let mut scan = scan();
        assert_eq!(round.next_work(&mut scan), Work::Scan(INACTIVE_ANON, 32));
        assert_eq!(round.next_work(&mut scan), Work::Scan(INACTIVE_FILE, 32));
        round.count_reclaimed(64);
        // p = 6800 / 101 = 67, so 33 - 32 = 1 is left of anon.
        assert_eq!(round.next_work(&mut scan), Work::Scan(INACTIVE_ANON, 1));
    }
}

//! A loan: main's frames, used by recency for as long as recency makes more of them.
//!
//! # Problem
//!
//! Where only recency helps, LRU over a part of memory is not enough: each page of a window that
//! slides, or a file that just fits, is gone a little too early, while main keeps pages that nobody
//! wants. LRU over all of memory protects nothing: when a stream comes, an idle set is gone before
//! anything could have been learnt from it.
//!
//! # Idea
//!
//! The clock says what LRU over all of memory would have hit, without running it: who comes back at
//! a distance of at most memory. So each access tells what main's frames are worth to either:
//!
//! ```text
//!   distance      0 ......... probation's share ......... memory ......... further
//!   not at main       either hits              only LRU: +1        neither
//!   at main           either hits              either hits         only main: -1
//! ```
//!
//! A sum that is more than chance lends main's share to recency for a memory's distinct pages. So
//! the loan lasts while there is new evidence for it, and ends by itself where there is none: an
//! idle set that was hit three times finds room at main when it grows old.
//!
//! ```text
//!   files that fit by turns     a set read 5 times        a stream longer than memory
//!   +++ +++ +++ +++             (nearer than the share)   (further than memory)
//!   lent .......................... until here            the set goes to main
//! ```
//!
//! # Data and invariants
//!
//! The evidence starts anew with each loan, and counts half after each memory without one.
//!
//! # What it deliberately ignores
//!
//! That probation reaches further than its share where main takes hits off it, and what lent frames
//! would have kept: both would cut loans short, and no row is better for it.
//!
//! Source: our own; ARC (Megiddo and Modha, 2003) moves a share by what comes back.

use super::duel::Duel;
use super::tuning::Tuning;

/// Whether main's share is lent.
#[derive(Debug, Default)]
pub(super) struct Loan {
    /// LRU over all of memory, against probation and main.
    evidence: Duel,
    nr_epochs: u32,
    /// Epochs that are left of it.
    nr_left: u32,
}

impl Loan {
    pub(super) fn is_on(&self) -> bool {
        self.nr_left > 0
    }

    /// A page, `is_main` or not, is accessed so many distinct pages after its last access;
    /// probation has this share of memory. All in one unit.
    pub(super) fn note(&mut self, distance: u64, is_main: bool, share: u64, memory: u64) {
        if is_main && distance > memory {
            self.evidence.note(-1);
        } else if !is_main && share < distance && distance <= memory {
            self.evidence.note(1);
        }
    }

    pub(super) fn end_epoch(&mut self, tuning: &Tuning) {
        self.nr_left = self.nr_left.saturating_sub(1);
        self.nr_epochs = self.nr_epochs.wrapping_add(1);
        if self.evidence.is_sure(tuning.sigmas) {
            self.nr_left = tuning.epochs_a_memory;
            self.evidence = Duel::default();
        } else if self.nr_epochs.is_multiple_of(tuning.epochs_a_memory) {
            self.evidence.halve();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHARE: u64 = 70;
    const MEMORY: u64 = 100;

    fn end_epochs(loan: &mut Loan, nr: u32) {
        (0..nr).for_each(|_| loan.end_epoch(&Tuning::default()));
    }

    #[test]
    fn what_just_fits_lends_and_what_does_not_fit_ends_it_by_itself() {
        let mut loan = Loan::default();
        (0..10).for_each(|_| loan.note(MEMORY, false, SHARE, MEMORY));
        assert!(!loan.is_on());
        end_epochs(&mut loan, 1);
        assert!(loan.is_on());
        for _ in 0..Tuning::default().epochs_a_memory {
            assert!(loan.is_on());
            for distance in [SHARE, MEMORY + 1, u64::MAX] {
                loan.note(distance, false, SHARE, MEMORY);
            }
            end_epochs(&mut loan, 1);
        }
        assert!(!loan.is_on());
    }

    #[test]
    fn a_few_pages_or_hits_at_main_prevent_it() {
        let mut few = Loan::default();
        (0..9).for_each(|_| few.note(MEMORY, false, SHARE, MEMORY));
        let mut even = Loan::default();
        for at in 0..1000 {
            even.note(MEMORY + at % 2, at % 2 == 1, SHARE, MEMORY);
        }
        for mut loan in [few, even] {
            end_epochs(&mut loan, 1);
            assert!(!loan.is_on());
        }
    }

    #[test]
    fn old_evidence_fades() {
        let mut loan = Loan::default();
        (0..9).for_each(|_| loan.note(MEMORY, false, SHARE, MEMORY));
        end_epochs(&mut loan, Tuning::default().epochs_a_memory);
        (0..5).for_each(|_| loan.note(MEMORY, false, SHARE, MEMORY));
        end_epochs(&mut loan, 1);
        assert!(!loan.is_on());
    }
}

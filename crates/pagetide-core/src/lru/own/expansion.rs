//! Expansion: gives main's frames to recency while LRU hits more.
//!
//! **Problem.** LRU over a part of memory evicts each page of a recency workload a little too
//! early. LRU over all of memory lets a stream evict an idle set.
//!
//! **Idea.** The page clock tells the hits of LRU over all of memory: refaults at a distance of at
//! most memory. So each access is evidence about main's frames:
//!
//! ```text
//!   distance        0 ......... probation's share ......... memory ......... further
//!   not in main       either hits              only LRU: +1        neither
//!   in main           either hits              either hits         only main: -1
//! ```
//!
//! A significant sum gives main's share to probation for one memory of distinct pages. Ignored: the
//! pages that the added frames would have kept.
//!
//! Source: our own; ARC (Megiddo and Modha, 2003) also moves a share by refaults.

use super::contest::Contest;
use super::tuning::Tuning;

#[derive(Debug, Default)]
pub(super) struct Expansion {
    /// LRU over all of memory against probation and main.
    evidence: Contest,
    nr_epochs: u32,
    /// Remaining epochs.
    nr_left: u32,
}

impl Expansion {
    pub(super) fn is_on(&self) -> bool {
        self.nr_left > 0
    }

    /// Takes probation's part of `memory` as `share`. All in one unit.
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
            self.evidence = Contest::default();
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

    fn end_epochs(expansion: &mut Expansion, nr: u32) {
        (0..nr).for_each(|_| expansion.end_epoch(&Tuning::default()));
    }

    #[test]
    fn what_just_fits_turns_it_on_and_what_does_not_fit_lets_it_end() {
        let mut expansion = Expansion::default();
        (0..10).for_each(|_| expansion.note(MEMORY, false, SHARE, MEMORY));
        assert!(!expansion.is_on());
        end_epochs(&mut expansion, 1);
        assert!(expansion.is_on());
        for _ in 0..Tuning::default().epochs_a_memory {
            assert!(expansion.is_on());
            for distance in [SHARE, MEMORY + 1, u64::MAX] {
                expansion.note(distance, false, SHARE, MEMORY);
            }
            end_epochs(&mut expansion, 1);
        }
        assert!(!expansion.is_on());
    }

    #[test]
    fn a_few_pages_or_hits_in_main_prevent_it() {
        let mut few = Expansion::default();
        (0..9).for_each(|_| few.note(MEMORY, false, SHARE, MEMORY));
        let mut even = Expansion::default();
        for at in 0..1000 {
            even.note(MEMORY + at % 2, at % 2 == 1, SHARE, MEMORY);
        }
        for mut expansion in [few, even] {
            end_epochs(&mut expansion, 1);
            assert!(!expansion.is_on());
        }
    }

    #[test]
    fn old_evidence_fades() {
        let mut expansion = Expansion::default();
        (0..9).for_each(|_| expansion.note(MEMORY, false, SHARE, MEMORY));
        end_epochs(&mut expansion, Tuning::default().epochs_a_memory);
        (0..5).for_each(|_| expansion.note(MEMORY, false, SHARE, MEMORY));
        end_epochs(&mut expansion, 1);
        assert!(!expansion.is_on());
    }
}

//! Access ages of main's folios, to find the older half.
//!
//! **Problem.** If accesses go to and fro along main's order, the folios at the hand are only a
//! little older than the candidate. A displaced folio is missed next, and becomes the next
//! candidate:
//!
//! ```text
//!   main, in the hand's order     5  6  7  8  9 ............ 25 26
//!   last accessed, pages ago      9 11 13 15 17 ............ 49 51      4 comes back, 8 ago
//!                                 ^                          ^
//!                                 older than 4, gone, the    the older half: each is missed
//!                                 next to be missed          only after 13 others
//! ```
//!
//! **Idea.** Count main's folios by the epoch of their last access. Only the older half makes room
//! for candidates.
//!
//! **Data and invariants.** One count for each known past epoch, and one for all earlier epochs.
//! The running epoch is counted when it ends. The age of the older half is computed when an epoch
//! begins: O(1) amortised.
//!
//! **Ignored.** The weight of streamed pages. A folio without an access for 2^16 epochs looks young
//! again, and leaves a count off by one.
//!
//! Source: our own. In a stack, as in LIRS, the displaced page is the oldest of all.

use super::page_clock::{Epoch, NR_EPOCHS, PageClock};
use alloc::boxed::Box;

#[derive(Debug)]
pub(super) struct Ages {
    /// By epoch modulo [`NR_EPOCHS`], 0 for the running one.
    nr_in: Box<[u32; NR_EPOCHS]>,
    nr_forgotten: u32,
    /// Part of main that counts as old, in percent.
    old_percent: u32,
    /// Minimum age of an old folio, in epochs.
    old_age: u16,
}

impl Ages {
    pub(super) fn new(old_percent: u32) -> Ages {
        Ages { nr_in: Box::new([0; NR_EPOCHS]), nr_forgotten: 0, old_percent, old_age: 0 }
    }

    #[inline]
    pub(super) fn add(&mut self, clock: &PageClock, epoch: Epoch) {
        if epoch != clock.now() {
            *self.count_of(clock, epoch) += 1;
        }
    }

    #[inline]
    pub(super) fn remove(&mut self, clock: &PageClock, epoch: Epoch) {
        if epoch != clock.now() {
            self.renew(clock, epoch);
        }
    }

    /// Expects an `epoch` that has ended.
    #[inline]
    pub(super) fn renew(&mut self, clock: &PageClock, epoch: Epoch) {
        let count = self.count_of(clock, epoch);
        *count = count.saturating_sub(1);
    }

    #[inline]
    fn count_of(&mut self, clock: &PageClock, epoch: Epoch) -> &mut u32 {
        match clock.is_forgotten(epoch) {
            true => &mut self.nr_forgotten,
            false => &mut self.nr_in[usize::from(epoch) % NR_EPOCHS],
        }
    }

    /// Forgets the epoch that used the same slot.
    pub(super) fn begin_epoch(&mut self, clock: &PageClock, nr: u32) {
        let now = clock.now();
        let nr_before = self.nr_forgotten + self.nr_in.iter().sum::<u32>();
        self.nr_in[usize::from(now.wrapping_sub(1)) % NR_EPOCHS] = nr.saturating_sub(nr_before);
        self.nr_forgotten += core::mem::take(&mut self.nr_in[usize::from(now) % NR_EPOCHS]);
        let nr_young = nr - (u64::from(nr) * u64::from(self.old_percent) / 100) as u32;
        let mut nr_younger = 0;
        self.old_age = (0..NR_EPOCHS as u16)
            .find(|age| {
                nr_younger += self.nr_in[usize::from(now.wrapping_sub(*age)) % NR_EPOCHS];
                nr_younger >= nr_young
            })
            .unwrap_or(NR_EPOCHS as u16);
    }

    #[inline]
    pub(super) fn is_old(&self, clock: &PageClock, epoch: Epoch) -> bool {
        clock.age(epoch) >= self.old_age
    }

    pub(super) fn validate(&self, clock: &PageClock, epochs: impl Iterator<Item = Epoch>) {
        let mut left = Ages { nr_in: self.nr_in.clone(), ..*self };
        for epoch in epochs.filter(|epoch| *epoch != clock.now()) {
            let count = left.count_of(clock, epoch);
            assert!(*count > 0, "a folio of epoch {epoch} is not counted");
            *count -= 1;
        }
        let nr_left = left.nr_forgotten + left.nr_in.iter().sum::<u32>();
        assert_eq!(nr_left, 0, "folios are counted that are not main's");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use proptest::prelude::*;

    fn begin_epoch(clock: &mut PageClock, ages: &mut Ages, nr: usize) {
        clock.touch(None, 1);
        ages.begin_epoch(clock, nr as u32);
    }

    #[test]
    fn half_of_them_are_old() {
        let (mut clock, mut ages) = (PageClock::new(1), Ages::new(50));
        for nr in 1..=10 {
            ages.add(&clock, clock.now());
            begin_epoch(&mut clock, &mut ages, nr);
        }
        let nr_old = (0..10).filter(|epoch| ages.is_old(&clock, *epoch)).count();
        // All folios of the median epoch count as old.
        assert_eq!(nr_old, 6);
    }

    #[test]
    fn all_are_old_where_all_may_be_displaced_or_none_are_there() {
        let mut clock = PageClock::new(1);
        for mut ages in [Ages::new(100), Ages::new(50)] {
            begin_epoch(&mut clock, &mut ages, 0);
            assert!(ages.is_old(&clock, clock.now()));
        }
    }

    #[test]
    fn what_is_forgotten_is_old_and_still_counted() {
        let (mut clock, mut ages) = (PageClock::new(1), Ages::new(50));
        let first = clock.now();
        ages.add(&clock, first);
        (0..NR_EPOCHS + 5).for_each(|_| begin_epoch(&mut clock, &mut ages, 1));
        ages.validate(&clock, core::iter::once(first));
        assert!(ages.is_old(&clock, first) && !ages.is_old(&clock, clock.now()));
        ages.remove(&clock, first);
        ages.validate(&clock, core::iter::empty());
    }

    proptest! {
        /// Compares with a sorted list of all stamps: at least `percent` are old, and at most
        /// `percent` without the youngest old epoch.
        #[test]
        fn as_many_are_old_as_were_asked_for(
            stays in prop::collection::vec(0_u16..300, 1..200),
            percent in 1_u32..=100,
        ) {
            let (mut clock, mut ages) = (PageClock::new(1), Ages::new(percent));
            let mut epochs = Vec::new();
            for age in (0..300).rev() {
                for _ in stays.iter().filter(|stay| **stay == age) {
                    epochs.push(clock.now());
                    ages.add(&clock, clock.now());
                }
                begin_epoch(&mut clock, &mut ages, epochs.len());
            }
            ages.validate(&clock, epochs.iter().copied());
            let wanted = epochs.len() * percent as usize / 100;
            let is_old = |epoch: &&Epoch| ages.is_old(&clock, **epoch);
            prop_assert!(epochs.iter().filter(is_old).count() >= wanted);
            let youngest = epochs.iter().filter(is_old).map(|epoch| clock.age(*epoch)).min();
            if let Some(age) = youngest && usize::from(age) < NR_EPOCHS {
                let older = epochs.iter().filter(|epoch| clock.age(**epoch) > age).count();
                prop_assert!(older <= wanted);
            }
        }
    }
}

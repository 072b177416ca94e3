//! The distinct-page clock: counts different pages accessed since an epoch.
//!
//! **Problem.** A page hits in a memory of C frames if at most C *distinct* pages were accessed
//! since its last access (its reuse distance). Exact distances need a stack or a tree.
//!
//! **Idea.** Divide time into epochs, and count the distinct pages accessed since the start of
//! each. A page is stamped with the epoch `p` of its last access. An access in epoch `now` is new
//! to exactly the windows that began after `p`:
//!
//! ```text
//!    epochs     ...   p-1    p    p+1   p+2   ...   now
//!    accesses               *                        *
//!    window from p    |-----*------------------------*   has seen the page already: no change
//!    window from p+1              |------------------*   one more distinct page
//!    window from now                               |-*   one more
//! ```
//!
//! This is one increment in a difference array (`fresh[p+1]`), summed when the epoch ends. An epoch
//! ends after `epoch_pages` first accesses, so summing all [`NR_EPOCHS`] windows is O(1) amortised.
//!
//! ```text
//!    since[e]        distinct pages from the start of e to the end of the last whole epoch
//!    running         first accesses in the running epoch, new to some windows
//!
//!    at_least(e) = since[e]   <=   true count   <=   since[e] + running = at_most(e)
//! ```
//!
//! The sums are weights: a streamed page weighs less than a page read alone. Epochs end by number
//! of pages.
//!
//! **Data and invariants.** Epochs are `u16`, compared modulo 2^16. Only the last [`NR_EPOCHS`] are
//! known. `running < epoch_pages`. The bounds differ by less than an epoch's pages. A window weighs
//! less than 2^64.
//!
//! Ignored: pages without a stamp count as new to all windows. An epoch exactly 2^16 epochs old
//! looks like the running one. Source: our own. Reuse distance: Mattson et al., 1970. Comparing
//! instants instead of stacks: LIRS.

use alloc::boxed::Box;

pub(super) const NR_EPOCHS: usize = 256;

/// An epoch number, modulo 2^16.
pub(super) type Epoch = u16;

#[derive(Debug)]
pub(super) struct PageClock {
    now: Epoch,
    epoch_pages: u32,
    running: u32,
    running_weight: u64,
    /// By epoch modulo [`NR_EPOCHS`].
    since: Box<[u64; NR_EPOCHS]>,
    /// Pending gain of all windows from this epoch on.
    fresh: Box<[u64; NR_EPOCHS]>,
}

impl PageClock {
    /// Limits epochs to one page at least.
    pub(super) fn new(epoch_pages: u32) -> PageClock {
        PageClock {
            now: 0,
            epoch_pages: epoch_pages.max(1),
            running: 0,
            running_weight: 0,
            since: Box::new([0; NR_EPOCHS]),
            fresh: Box::new([0; NR_EPOCHS]),
        }
    }

    pub(super) fn set_epoch_pages(&mut self, epoch_pages: u32) {
        self.epoch_pages = epoch_pages.max(1);
    }

    pub(super) fn now(&self) -> Epoch {
        self.now
    }

    /// Returns a stamp older than any known window.
    pub(super) fn never(&self) -> Epoch {
        self.now.wrapping_sub(NR_EPOCHS as u16)
    }

    pub(super) fn age(&self, epoch: Epoch) -> u16 {
        self.now.wrapping_sub(epoch)
    }

    pub(super) fn is_forgotten(&self, epoch: Epoch) -> bool {
        usize::from(self.age(epoch)) >= NR_EPOCHS
    }

    /// Returns the new stamp. `last` is `None` if unknown. The weight may change. O(1) amortised.
    #[inline]
    pub(super) fn touch(&mut self, last: Option<Epoch>, weight: u32) -> Epoch {
        let now = self.now;
        let age = last.map_or(u16::MAX, |epoch| self.age(epoch));
        if age > 0 {
            self.go_on(age, weight);
        }
        now
    }

    /// Returns true if the epoch ended. `age` is at least 1.
    #[inline]
    pub(super) fn go_on(&mut self, age: u16, weight: u32) -> bool {
        let nr_windows = age.min(NR_EPOCHS as u16);
        let first = self.now.wrapping_sub(nr_windows).wrapping_add(1);
        let weight = u64::from(weight);
        self.fresh[slot(first)] += weight;
        self.running += 1;
        self.running_weight += weight;
        let has_ended = self.running >= self.epoch_pages;
        if has_ended {
            self.end_epoch();
        }
        has_ended
    }

    /// Returns `None` if forgotten.
    pub(super) fn at_least(&self, epoch: Epoch) -> Option<u64> {
        (!self.is_forgotten(epoch)).then(|| self.since[slot(epoch)])
    }

    pub(super) fn at_most(&self, epoch: Epoch) -> Option<u64> {
        self.at_least(epoch).map(|weight| weight + self.running_weight)
    }

    #[cold]
    fn end_epoch(&mut self) {
        let mut gained = 0;
        for back in (0..NR_EPOCHS as u16).rev() {
            let at = slot(self.now.wrapping_sub(back));
            gained += core::mem::take(&mut self.fresh[at]);
            self.since[at] += gained;
        }
        self.now = self.now.wrapping_add(1);
        self.since[slot(self.now)] = 0;
        (self.running, self.running_weight) = (0, 0);
    }
}

fn slot(epoch: Epoch) -> usize {
    usize::from(epoch) % NR_EPOCHS
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::{BTreeMap, BTreeSet};
    use alloc::vec::Vec;
    use proptest::prelude::*;

    fn weight(page: u16) -> u32 {
        1 + u32::from(page % 3) * 7
    }

    #[derive(Default)]
    struct Naive {
        windows: Vec<BTreeSet<u16>>,
        stamps: BTreeMap<u16, Epoch>,
    }

    impl Naive {
        fn access(&mut self, clock: &mut PageClock, page: u16) {
            self.windows.resize_with(usize::from(clock.now()) + 1, BTreeSet::new);
            let first = self.windows.len().saturating_sub(NR_EPOCHS);
            self.windows[first..].iter_mut().for_each(|window| {
                window.insert(page);
            });
            let stamp = clock.touch(self.stamps.get(&page).copied(), weight(page));
            self.stamps.insert(page, stamp);
        }
    }

    proptest! {
        /// The bounds differ by at most one epoch, and are equal at its end.
        #[test]
        fn a_set_for_each_window_lies_within_the_bounds(
            epoch_pages in 1..6u32,
            pages in prop::collection::vec(0..40u16, 1..2500),
        ) {
            let mut clock = PageClock::new(epoch_pages);
            let mut naive = Naive::default();
            for page in pages {
                naive.access(&mut clock, page);
                for (epoch, window) in (0..).zip(&naive.windows) {
                    let (Some(least), Some(most)) = (clock.at_least(epoch), clock.at_most(epoch))
                    else {
                        prop_assert!(usize::from(clock.age(epoch)) >= NR_EPOCHS);
                        continue;
                    };
                    let exact = window.iter().map(|page| u64::from(weight(*page))).sum::<u64>();
                    prop_assert!(least <= exact && exact <= most, "{least} {exact} {most}");
                    prop_assert!(most - least <= u64::from((epoch_pages - 1) * weight(2)));
                    prop_assert!(clock.running > 0 || least == exact);
                }
            }
        }
    }

    #[test]
    fn epochs_wrap_around() {
        let mut clock = PageClock::new(1);
        for _ in 0..70_000 {
            clock.touch(None, 1);
        }
        assert_eq!(clock.now(), (70_000 % 65_536) as u16);
        assert_eq!(clock.at_most(clock.now().wrapping_sub(10)), Some(10));
        assert_eq!(clock.at_least(clock.never()), None);
        assert_eq!(clock.at_least(clock.never().wrapping_add(1)), Some(255));
    }

    #[test]
    fn a_page_counts_once_an_epoch() {
        let mut clock = PageClock::new(4);
        let stamp = clock.touch(None, 1);
        for _ in 0..10 {
            assert_eq!(clock.touch(Some(stamp), 1), stamp);
        }
        assert_eq!((clock.at_least(stamp), clock.at_most(stamp)), (Some(0), Some(1)));
    }
}

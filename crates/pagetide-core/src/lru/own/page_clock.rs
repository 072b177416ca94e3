//! The distinct-page clock: how many different pages were accessed since then?
//!
//! **Problem.** Whether a page would have been a hit in a memory of C frames depends on its reuse
//! distance: the *distinct* pages accessed since its last access. Exact distances want a stack or a
//! tree. Evictions since then are cheap to count, but run fast when a policy is wrong.
//!
//! **Idea.** Cut the past into epochs, and count for each epoch how many distinct pages were
//! accessed since it began. A page is stamped with the epoch of its last access, `p`. When it is
//! accessed again in epoch `now`, that access is new to exactly those windows that began after `p`:
//!
//! ```text
//!    epochs     ...   p-1    p    p+1   p+2   ...   now
//!    accesses               *                        *
//!    window from p    |-----*------------------------*   has seen the page already: no change
//!    window from p+1              |------------------*   one more distinct page
//!    window from now                               |-*   one more
//! ```
//!
//! A range of windows gains one: that is one increment in a difference array (`fresh[p+1]`), and
//! the sums wait until the epoch ends. An epoch ends after `epoch_pages` first accesses in it, so
//! summing all [`NR_EPOCHS`] windows then costs a fixed number of additions for each access.
//!
//! ```text
//!    since[e]        distinct pages from the start of e to the end of the last whole epoch
//!    running         first accesses in the running epoch, new to some windows
//!
//!    at_least(e) = since[e]   <=   true count   <=   since[e] + running = at_most(e)
//! ```
//!
//! Pages have weights: one of a stream is lighter than one that was read alone. What is summed
//! is what they weigh, which is their number where all weigh the same; epochs end by number.
//!
//! **Data and invariants.** Epochs are `u16` and compared modulo 2^16; only the last [`NR_EPOCHS`]
//! are known, older ones are infinitely long ago. `running < epoch_pages`. The bounds differ by
//! less than an epoch's pages. A window weighs less than 2^64, whatever the weights.
//!
//! Ignored: pages that were forgotten (their stamp is gone) count as never seen, so new to all
//! windows. An epoch exactly 2^16 epochs old looks like the running one. Source: our own; reuse
//! distance is Mattson et al., 1970, and instants compared instead of stacks is what LIRS does.

use alloc::boxed::Box;

/// Windows that are known.
pub(super) const NR_EPOCHS: usize = 256;

/// An epoch's number, modulo 2^16.
pub(super) type Epoch = u16;

/// How many distinct pages were accessed since each of the last epochs began.
#[derive(Debug)]
pub(super) struct PageClock {
    now: Epoch,
    epoch_pages: u32,
    /// First accesses in the running epoch.
    running: u32,
    /// What they weigh.
    running_weight: u64,
    /// By epoch modulo [`NR_EPOCHS`].
    since: Box<[u64; NR_EPOCHS]>,
    /// The same: windows from this epoch on gain so many when the running one ends.
    fresh: Box<[u64; NR_EPOCHS]>,
}

impl PageClock {
    /// A clock whose epochs are `epoch_pages` first accesses long, at least one.
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

    /// Epochs that begin later are so long.
    pub(super) fn set_epoch_pages(&mut self, epoch_pages: u32) {
        self.epoch_pages = epoch_pages.max(1);
    }

    /// The running epoch.
    pub(super) fn now(&self) -> Epoch {
        self.now
    }

    /// A stamp for a page that was not accessed yet: longer ago than any known window.
    pub(super) fn never(&self) -> Epoch {
        self.now.wrapping_sub(NR_EPOCHS as u16)
    }

    /// Epochs between `epoch` and the running one.
    pub(super) fn age(&self, epoch: Epoch) -> u16 {
        self.now.wrapping_sub(epoch)
    }

    /// Whether `epoch` is longer ago than any known window.
    pub(super) fn is_forgotten(&self, epoch: Epoch) -> bool {
        usize::from(self.age(epoch)) >= NR_EPOCHS
    }

    /// A page last accessed in `last` is accessed; `None`: never, or not known. The caller
    /// stamps it with the epoch returned. What the page weighs may change. O(1), amortised.
    #[inline]
    pub(super) fn touch(&mut self, last: Option<Epoch>, weight: u32) -> Epoch {
        let now = self.now;
        let age = last.map_or(u16::MAX, |epoch| self.age(epoch));
        if age > 0 {
            self.go_on(age, weight);
        }
        now
    }

    /// A page that was not accessed in the running epoch, but `age` epochs ago, is accessed. Says
    /// whether the epoch has ended with that.
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

    /// The least that the distinct pages weigh which were accessed since `epoch` began; `None`:
    /// longer ago than is known.
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

    /// Some pages weigh less than others.
    fn weight(page: u16) -> u32 {
        1 + u32::from(page % 3) * 7
    }

    /// A set of pages for each window: what the clock counts without them.
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
        /// Every window's true count lies between the bounds, which are one epoch apart at most,
        /// and meet when an epoch ends.
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

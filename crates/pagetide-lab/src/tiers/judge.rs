//! Bounds for tiering: memory all fast, all slow, or placed with knowledge of the future.
//!
//! ```text
//!   all-slow <= first-touch ? base ? hot-selection ? ... <= oracle <= all-fast
//! ```
//!
//! **Problem.** A score alone means nothing. **Idea.** Play the same touches at the same prices
//! without decisions. The oracle knows each window of touches, and moves its hottest pages into
//! fast memory for free.
//!
//! **Data and invariants.** With the oracle all hot pages are fast. *Recall* is another machine's
//! share of hot-page accesses served from fast memory.
//!
//! **Ignored.** A better oracle over several windows. Source: our own. The bounds are Belady's idea
//! with two memories.

use super::access_loop::{AccessLoop, Node, TierAccess};
use pagetide_core::ids::FrameId;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Placement {
    AllFast,
    AllSlow,
    Oracle,
}

#[derive(Debug)]
pub(super) struct Flat {
    access_loop: AccessLoop,
    placement: Placement,
}

impl Flat {
    pub(super) fn new(mut access_loop: AccessLoop, placement: Placement) -> Flat {
        let node = if placement == Placement::AllFast { Node::Fast } else { Node::Slow };
        (0..access_loop.nr_pages()).for_each(|page| access_loop.place(page, node, FrameId(page)));
        access_loop.stop_at_ns(u64::MAX);
        Flat { access_loop, placement }
    }

    pub(super) fn access_loop(&self) -> &AccessLoop {
        &self.access_loop
    }

    pub(super) fn play(&mut self, touches: &[TierAccess]) {
        let mut rest = touches;
        while !rest.is_empty() {
            rest = &rest[self.access_loop.play(rest)..];
            if self.access_loop.is_due() {
                self.access_loop.look_at_load();
                self.access_loop.stop_at_ns(u64::MAX);
            }
        }
    }

    pub(super) fn set_hot(&mut self, hottest: &[u32]) {
        if self.placement == Placement::Oracle {
            for page in 0..self.access_loop.nr_pages() {
                self.access_loop.place(page, Node::Slow, FrameId(page));
            }
            for &page in hottest {
                self.access_loop.place(page, Node::Fast, FrameId(page));
            }
        }
        self.access_loop.set_hot(hottest);
    }
}

#[derive(Debug)]
pub(super) struct Hottest {
    counts: Vec<u32>,
    pages: Vec<u32>,
}

impl Hottest {
    pub(super) fn new(nr_pages: u32) -> Hottest {
        Hottest { counts: vec![0; nr_pages as usize], pages: Vec::new() }
    }

    /// Returns at most `nr` most-touched pages. Ties go to the first page.
    pub(super) fn of(&mut self, window: &[TierAccess], nr: u32) -> &[u32] {
        self.counts.fill(0);
        window.iter().for_each(|touch| self.counts[touch.page() as usize] += 1);
        self.pages.clear();
        let touched = (0..self.counts.len() as u32).filter(|page| self.counts[*page as usize] > 0);
        self.pages.extend(touched);
        let nr = nr as usize;
        if nr < self.pages.len() {
            let counts = &self.counts;
            let key = |page: &u32| (std::cmp::Reverse(counts[*page as usize]), *page);
            self.pages.select_nth_unstable_by_key(nr, key);
            self.pages.truncate(nr);
        }
        &self.pages
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tiers::prices::TierPrices;

    #[test]
    fn the_hottest_are_those_touched_most_and_of_equals_the_first() {
        let mut hottest = Hottest::new(6);
        let window = [5, 5, 5, 2, 4, 4, 2, 1].map(TierAccess::read);
        let mut found = |nr| {
            let mut pages = hottest.of(&window, nr).to_vec();
            pages.sort_unstable();
            pages
        };
        assert_eq!((found(1), found(2), found(3)), (vec![5], vec![2, 5], vec![2, 4, 5]));
        assert_eq!((found(0), found(9)), (vec![], vec![1, 2, 4, 5]));
    }

    #[test]
    fn the_oracle_is_between_all_slow_and_all_fast_and_misses_nothing_hot() {
        let window: Vec<TierAccess> =
            (0..10_000_u32).map(|at| TierAccess::read(at * at % 97 % 40)).collect();
        let play = |placement| {
            let mut flat = Flat::new(AccessLoop::new(TierPrices::OPTANE, 40, 1, 1), placement);
            flat.set_hot(Hottest::new(40).of(&window, 10));
            flat.play(&window);
            (flat.access_loop().now_ns(), flat.access_loop().counts().hot())
        };
        let (slow, fast, oracle) =
            (play(Placement::AllSlow), play(Placement::AllFast), play(Placement::Oracle));
        assert!(fast.0 < oracle.0 && oracle.0 < slow.0);
        assert_eq!((slow.1.1, oracle.1.1), (0, oracle.1.0));
    }
}

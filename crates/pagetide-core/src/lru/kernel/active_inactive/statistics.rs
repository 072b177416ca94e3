//! Live or folded statistics.
//!
//! Problem: a kernel folds its counters every two seconds, so reclaim reads old sums, which changes
//! hit ratios. Idea: one value, live or from the last fold (zero before the first).
//!
//! ```text
//!   lists, counters --live--------------------------> Summary --> inactive low, cache trimming,
//!                   --fold_statistics--> the folded --^           permission and its snapshot, W
//! ```
//!
//! Always live: the quotas (list sizes by priority), the nonresident age, and the sum of the lists
//! that decays costs. So a change of the refault count permits deactivation in exactly one pass per
//! fold.
//!
//! Ignored: kernels other than 6.12 to 6.18. The earlier designs are always live. Source: Linux
//! 6.18's memory cgroup statistics.

use crate::lru::refault_distance::ListPages;
use crate::lru::{Context, Statistics};
use crate::vmstat::Counter;

#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Summary {
    pub(super) sizes: ListPages,
    pub(super) activated: [u64; 2],
}

impl Summary {
    pub(super) fn now(cx: &Context<'_>, sizes: ListPages) -> Summary {
        let counters = [Counter::WorkingsetActivateAnon, Counter::WorkingsetActivateFile];
        Summary { sizes, activated: counters.map(|counter| cx.vmstat.read(counter)) }
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct SummarySource {
    statistics: Statistics,
    folded: Summary,
}

impl SummarySource {
    pub(super) fn new(statistics: Statistics) -> SummarySource {
        SummarySource { statistics, folded: Summary::default() }
    }

    pub(super) fn fold(&mut self, cx: &Context<'_>, sizes: ListPages) {
        self.folded = Summary::now(cx, sizes);
    }

    /// Returns live or folded statistics. `sizes` are the current list lengths.
    pub(super) fn read(&self, cx: &Context<'_>, sizes: ListPages) -> Summary {
        match self.statistics {
            Statistics::Live => Summary::now(cx, sizes),
            Statistics::Folded => self.folded,
        }
    }
}

//! What the policy knows of itself, now or when it was last summed up.
//!
//! Problem: a kernel counts on each CPU apart and adds the parts up every two seconds; what its
//! reclaim reads in between is old. Measured hit ratios of a plain kernel cannot be met without it.
//!
//! Idea: one value holds all that is read late. With live statistics it is taken afresh for each
//! decision, with folded ones it is the value of the last fold, and all zeros before the first.
//!
//! ```text
//!   lists, counters --live--------------------------> Summary --> inactive low, cache trimming,
//!                   --fold_statistics--> the folded --^           permission and its snapshot, W
//! ```
//!
//! Always live are the quotas (list sizes by priority), the nonresident age, and the sum of the
//! lists that costs decay by. Consequences: between two folds the inactive list is low for every
//! pass or for none, and a change of the refault count permits deactivation in exactly one pass.
//!
//! Ignored: kernels of other versions than 6.12 to 6.18, whose reclaim or refaults fold as well;
//! those designs of this family that predate the sums, which are always live.
//! Source: the classic LRU specification, section 5.1.

use crate::lru::refault_distance::ListPages;
use crate::lru::{Context, Statistics};
use crate::vmstat::Counter;

/// The statistics that decisions are made from.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Summary {
    /// The lengths of the lists.
    pub(super) sizes: ListPages,
    /// Refaults that were activated, ever, by type.
    pub(super) activated: [u64; 2],
}

impl Summary {
    pub(super) fn now(cx: &Context<'_>, sizes: ListPages) -> Summary {
        let counters = [Counter::WorkingsetActivateAnon, Counter::WorkingsetActivateFile];
        Summary { sizes, activated: counters.map(|counter| cx.vmstat.read(counter)) }
    }
}

/// Where decisions get their [`Summary`] from.
#[derive(Clone, Copy, Debug)]
pub(super) struct SummarySource {
    statistics: Statistics,
    folded: Summary,
}

impl SummarySource {
    /// Nothing was folded yet.
    pub(super) fn new(statistics: Statistics) -> SummarySource {
        SummarySource { statistics, folded: Summary::default() }
    }

    /// Sums up.
    pub(super) fn fold(&mut self, cx: &Context<'_>, sizes: ListPages) {
        self.folded = Summary::now(cx, sizes);
    }

    /// What a decision sees. `sizes` are the lengths of the lists now.
    pub(super) fn read(&self, cx: &Context<'_>, sizes: ListPages) -> Summary {
        match self.statistics {
            Statistics::Live => Summary::now(cx, sizes),
            Statistics::Folded => self.folded,
        }
    }
}

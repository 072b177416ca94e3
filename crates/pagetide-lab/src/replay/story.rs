//! The history of one page: each access, and the reason of each eviction.
//!
//! Problem: counters cannot explain one eviction. Idea: ask core for one folio's position before
//! each entry, and for its shadow at each miss:
//!
//! ```text
//!   access 812   missed      evicted 512 evictions ago, ...
//!          812   came in     at main, 0 credits; ...
//!          970   hit         at main, 1 credits; ...
//!         1544   evicted     at main, 0 credits; ...        as it stood before that access
//! ```
//!
//! Ignored: the steps of a reclaim pass. An eviction shows the position before its access, with the
//! credits that the pass used up. Source: our own.

use super::{Setup, World};
use crate::trace::{AccessKind, DenseTrace};
use pagetide_core::ids::PageId;
use serde::Serialize;
use std::cell::Cell;

/// A kind of event.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Happening {
    /// An access that hit.
    Hit,
    /// An access that missed.
    Missed,
    /// The page became resident, by an access or readahead.
    CameIn,
    /// The page was evicted.
    Evicted,
    /// The page was dropped: truncated, or no longer wanted.
    Dropped,
}

impl Happening {
    /// Returns the word for people.
    pub const fn as_str(self) -> &'static str {
        match self {
            Happening::Hit => "hit",
            Happening::Missed => "missed",
            Happening::CameIn => "came in",
            Happening::Evicted => "evicted",
            Happening::Dropped => "dropped",
        }
    }
}

/// One event of the history.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Event {
    /// Number of the access, counted from 1 over all pages.
    pub access: u64,
    /// The kind.
    pub what: Happening,
    /// Position of the folio (hit, came in, evicted), or its shadow (missed). Empty if there is
    /// none.
    pub state: String,
}

/// The history of a page.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Story {
    /// The events, in order.
    pub events: Vec<Event>,
    /// Set if the page was resident at the end.
    pub is_resident: bool,
}

/// Replays the trace and returns the history of the page with this rank, or `None` if `keep_on`
/// ended the replay (see [`run_while`](super::run_while)).
pub fn story_of(
    setup: Setup,
    trace: &DenseTrace,
    rank: u32,
    mut keep_on: impl FnMut(u64) -> bool,
) -> Option<Story> {
    tell_story(setup, trace, rank, &mut keep_on)
}

fn tell_story(
    setup: Setup,
    trace: &DenseTrace,
    rank: u32,
    keep_on: &mut dyn FnMut(u64) -> bool,
) -> Option<Story> {
    const STRETCH: u64 = 1 << 16;
    let page = trace.page(rank);
    let is_evicted = Cell::new(false);
    let evicted = |gone: PageId| is_evicted.set(is_evicted.get() || gone == page);
    let mut world = World::new(setup, trace, evicted);
    let mut story = Story::default();
    for (nth, (entry_rank, kind)) in (1..).zip(trace.entries()) {
        let before = world.describe_folio(rank);
        let is_its_own = entry_rank == rank && is_access(kind);
        let past = if is_its_own { world.past(rank) } else { String::new() };
        world.apply(entry_rank, kind);
        let access = world.outcome().accesses;
        let mut tell = |what, state| story.events.push(Event { access, what, state });
        let after = world.describe_folio(rank);
        match (before, is_evicted.take()) {
            (Some(state), true) => tell(Happening::Evicted, state),
            (Some(_), false) if is_its_own => tell(Happening::Hit, after.clone().unwrap_or(past)),
            (Some(_), false) if after.is_none() => tell(Happening::Dropped, String::new()),
            (Some(_), false) => {}
            (None, _) => {
                if is_its_own {
                    tell(Happening::Missed, past);
                }
                if let Some(state) = after {
                    tell(Happening::CameIn, state);
                }
            }
        }
        if nth % STRETCH == 0 && !keep_on(STRETCH) {
            return None;
        }
    }
    story.is_resident = world.is_resident(rank);
    Some(story)
}

fn is_access(kind: AccessKind) -> bool {
    use AccessKind::{Bypass, Read, ReadAgain, Table, TableWrite, Write};
    matches!(kind, Read | ReadAgain | Write | Table | TableWrite | Bypass)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::run_observed;
    use pagetide_core::lru::PolicyName;

    #[test]
    fn the_stories_of_all_pages_add_up() {
        let trace = DenseTrace::from_reads((0..2000_u64).map(|at| at * at % 97 % 24));
        for &policy in PolicyName::ALL {
            let setup = Setup::new(policy, 16);
            let mut evictions = Vec::new();
            let outcome = run_observed(setup, &trace, |page| evictions.push(page));
            let (mut nr_missed, mut nr_accesses) = (0, 0);
            for rank in 0..trace.nr_pages() as u32 {
                let story = story_of(setup, &trace, rank, |_| true).expect("it is not stopped");
                let count = |what| story.events.iter().filter(|event| event.what == what).count();
                nr_missed += count(Happening::Missed);
                nr_accesses += count(Happening::Missed) + count(Happening::Hit);
                let page = trace.page(rank);
                let nr_evicted = evictions.iter().filter(|gone| **gone == page).count();
                assert_eq!(count(Happening::Evicted), nr_evicted, "{policy} {page}");
                assert_eq!(count(Happening::CameIn), nr_evicted + usize::from(story.is_resident));
            }
            assert_eq!(nr_missed as u64, outcome.misses, "{policy}");
            assert_eq!(nr_accesses as u64, outcome.accesses, "{policy}");
        }
    }

    #[test]
    fn our_own_policy_says_where_a_page_stood() {
        // Page 600 comes when memory is full, is read once, and again long after.
        let trace = DenseTrace::from_reads((0..1000).chain([600]));
        let setup = Setup::new(PolicyName::Pagetide, 400);
        let story = story_of(setup, &trace, 600, |_| true).expect("it is not stopped");
        let first = &story.events[1];
        assert_eq!((first.access, first.what), (601, Happening::CameIn));
        let gone = story.events.iter().find(|event| event.what == Happening::Evicted);
        let said = &gone.expect("it was evicted").state;
        assert!(said.starts_with("on probation, 0 of ") && said.contains(" hits; "), "{story:?}");
        assert!(said.contains("distinct pages ago, memory is "), "{story:?}");
        let returned = story.events.iter().rev().find(|event| event.what == Happening::Missed);
        let said = &returned.expect("it was evicted").state;
        assert!(said.starts_with("evicted ") && said.contains("evictions ago"), "{story:?}");
    }
}

//! The effect of a descriptor access on a folio.
//!
//! Problem: reclaim must see millions of hits a second without a lock, and a hot page must not be
//! written.
//!
//! Idea: a policy's [`AccessRule`] changes the flags word ([`AccessRule::mark`]). [`Marked::Log`]
//! asks the caller to add the folio to the CPU's access log, drained later under the lruvec's lock.
//!
//! ```text
//!   count references   1st: REFERENCED   2nd..4th: REFS 1..3   5th: +WORKINGSET   then: no write
//!   ... of Linux 6.1   1st: REFERENCED   2nd: +WORKINGSET   3rd..5th: REFS 1..3   then: no write
//!   count hits         2nd..4th: REFS 1..3                             then: no write
//!   count and log      the same, and logs the first in each tick, or all of a watched folio
//!   two touches        1st: REFERENCED   2nd on the inactive list: log an activation
//! ```
//!
//! The first access to a readahead page counts as a miss, so that a sequential read leaves no hit
//! pages.
//!
//! Ignored: table accesses (guards), which only set the page word's young bit. Source: the
//! multi-gen LRU of Linux 6.1 and 6.18, and 6.18's two lists.

use crate::folio::{Flags, Folio, Folios, Hits};
use crate::ids::FrameId;

/// The way a policy learns of descriptor accesses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AccessRule {
    /// Multi-gen LRU: counts up to five references in the flags.
    CountReferences,
    /// Multi-gen LRU of Linux 6.1: the second access sets WORKINGSET, the next three count.
    CountAfterWorkingset,
    /// Two lists: the second access of an inactive folio activates it.
    TwoTouches,
    /// CLOCK: sets a reference bit once.
    ReferenceBit,
    /// S3-FIFO: counts up to three hits after the miss in the reference field.
    CountHits,
    /// pagetide: counts hits as [`AccessRule::CountHits`], and logs the first access of each tick,
    /// or all accesses of a watched folio. The count survives a lost log entry. [`Hits`] holds
    /// count, tick and watch.
    CountAndLog,
    /// Strict LRU: logs every access in order.
    LogEach,
    /// FIFO: ignores accesses.
    Ignore,
}

/// The remaining work of the caller of [`AccessRule::mark`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Marked {
    /// None.
    Done,
    /// Put the folio into this CPU's access log.
    Log,
}

/// The path of an access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AccessPath {
    /// A read or write call through a descriptor.
    Descriptor,
    /// A descriptor call that reads several pages from the device at once. Each page costs its
    /// caller part of a wait.
    Run,
    /// A page table: a guard, or a mapped region.
    Table,
    /// Readahead, not an access.
    Readahead,
    /// A neighbour's miss while memory was ample, not an access.
    Around,
}

impl AccessPath {
    /// Returns true if the page was not accessed yet.
    pub const fn is_ahead(self) -> bool {
        matches!(self, AccessPath::Readahead | AccessPath::Around)
    }
}

impl AccessRule {
    /// Returns true if a hit may need a list operation.
    pub const fn logs_hits(self) -> bool {
        matches!(self, AccessRule::TwoTouches | AccessRule::CountAndLog | AccessRule::LogEach)
    }

    /// Returns true if refault distances count log entries. The log is then drained first.
    pub(crate) const fn logs_what_clocks_count(self) -> bool {
        matches!(self, AccessRule::TwoTouches | AccessRule::CountAndLog)
    }

    /// Records one descriptor access. Lock-free. Writes nothing once the folio is saturated.
    #[inline(always)]
    pub fn mark(self, folios: &Folios, frame: FrameId) -> Marked {
        match self {
            AccessRule::CountAndLog => count_and_log(&folios[frame], folios.tick()),
            _ => self.mark_flags(&folios[frame]),
        }
    }

    #[inline(always)]
    fn mark_flags(self, folio: &Folio) -> Marked {
        match self {
            AccessRule::CountReferences => count_reference(folio),
            AccessRule::CountAfterWorkingset => count_after_workingset(folio),
            AccessRule::TwoTouches => touch_twice(folio),
            AccessRule::ReferenceBit => {
                if !folio.flags().any(Flags::REFERENCED) && !takes_first_access(folio) {
                    folio.set(Flags::REFERENCED);
                }
                Marked::Done
            }
            AccessRule::CountHits => count_hit(folio),
            AccessRule::LogEach if takes_first_access(folio) => Marked::Done,
            AccessRule::LogEach => Marked::Log,
            AccessRule::CountAndLog | AccessRule::Ignore => Marked::Done,
        }
    }

    /// Returns true if the descriptor access that missed is recorded.
    ///
    /// The kernel's policies count the miss as the first access. The queue papers do not count it.
    pub const fn marks_fills(self) -> bool {
        matches!(
            self,
            AccessRule::CountReferences | AccessRule::CountAfterWorkingset | AccessRule::TwoTouches
        )
    }

    /// Records the access that missed, if the rule counts it.
    #[inline]
    pub fn mark_fill(self, folios: &Folios, frame: FrameId) -> Marked {
        if self.marks_fills() { self.mark(folios, frame) } else { Marked::Done }
    }

    /// Returns the initial flags of a folio, by its path. A page fault leaves the page young: the
    /// multi-gen LRU makes such a folio active, and a policy that counts hits must not count that
    /// access twice.
    pub const fn flags_on_fill(self, kind: AccessPath) -> Flags {
        match (self, kind) {
            (AccessRule::CountReferences | AccessRule::CountAfterWorkingset, AccessPath::Table) => {
                Flags::ACTIVE
            }
            (AccessRule::CountAndLog, AccessPath::Table) => Flags::REFERENCED,
            (_, AccessPath::Readahead) => Flags::PREFETCHED.with(Flags::STREAMED),
            (_, AccessPath::Run) => Flags::STREAMED,
            (_, AccessPath::Around) => Flags::PREFETCHED,
            _ => Flags::NONE,
        }
    }
}

/// Returns true once, at the first access of a readahead page.
#[inline]
fn takes_first_access(folio: &Folio) -> bool {
    folio.flags().any(Flags::PREFETCHED) && folio.clear(Flags::PREFETCHED).any(Flags::PREFETCHED)
}

const SATURATED: Flags = Flags::REFERENCED.with(Flags::WORKINGSET).with(Flags::REFS);

#[inline]
fn count_reference(folio: &Folio) -> Marked {
    if folio.flags().all(SATURATED) {
        return Marked::Done;
    }
    folio.update(referenced_again);
    Marked::Done
}

/// Returns `None` if nothing changes.
#[inline]
pub(super) fn referenced_again(flags: Flags) -> Option<Flags> {
    if flags.any(Flags::UNEVICTABLE) {
        None
    } else if !flags.any(Flags::REFERENCED) {
        Some(flags.with(Flags::REFERENCED).with_refs(0))
    } else if flags.refs() < Flags::REFS_MAX {
        Some(flags.with_refs(flags.refs() + 1))
    } else if !flags.any(Flags::WORKINGSET) {
        Some(flags.with(Flags::WORKINGSET))
    } else {
        None
    }
}

#[inline]
fn count_after_workingset(folio: &Folio) -> Marked {
    if folio.flags().all(SATURATED) {
        return Marked::Done;
    }
    folio.update(|flags| {
        if flags.any(Flags::UNEVICTABLE) {
            None
        } else if !flags.any(Flags::REFERENCED) {
            Some(flags.with(Flags::REFERENCED))
        } else if !flags.any(Flags::WORKINGSET) {
            Some(flags.with(Flags::WORKINGSET))
        } else {
            (flags.refs() < Flags::REFS_MAX).then(|| flags.with_refs(flags.refs() + 1))
        }
    });
    Marked::Done
}

#[inline]
fn count_hit(folio: &Folio) -> Marked {
    if folio.flags().refs() < Flags::REFS_MAX && !takes_first_access(folio) {
        folio.update(|flags| {
            let hits = flags.refs() + 1;
            (hits <= Flags::REFS_MAX).then(|| flags.with_refs(hits))
        });
    }
    Marked::Done
}

#[inline]
fn count_and_log(folio: &Folio, tick: u16) -> Marked {
    if folio.hits() == Hits::quiet(tick) {
        return Marked::Done;
    }
    if folio.flags().any(Flags::PREFETCHED) {
        return log_first_access(folio, tick);
    }
    let hits = folio.hits();
    folio.set_hits(hits.with_another().with_tick(tick));
    if hits.wants_log(tick) { Marked::Log } else { Marked::Done }
}

/// Skips the count. A folio already in a log is not logged twice.
#[cold]
fn log_first_access(folio: &Folio, tick: u16) -> Marked {
    folio.set_hits(folio.hits().with_tick(tick));
    let before = folio.clear(Flags::PREFETCHED);
    if before.any(Flags::PENDING) { Marked::Done } else { Marked::Log }
}

#[inline]
fn touch_twice(folio: &Folio) -> Marked {
    let flags = folio.flags();
    if !flags.any(Flags::REFERENCED) {
        folio.set(Flags::REFERENCED);
        return Marked::Done;
    }
    if flags.any(Flags::ACTIVE) || flags.any(Flags::UNEVICTABLE) {
        return Marked::Done;
    }
    folio.clear(Flags::REFERENCED);
    Marked::Log
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::PageType;

    #[test]
    fn references_count_as_in_linux_6_18() {
        let folios = Folios::new(1);
        let folio = &folios[FrameId(0)];
        let expected = [
            (Flags::REFERENCED, 0),
            (Flags::REFERENCED, 1),
            (Flags::REFERENCED, 2),
            (Flags::REFERENCED, 3),
            (Flags::REFERENCED.with(Flags::WORKINGSET), 3),
            (Flags::REFERENCED.with(Flags::WORKINGSET), 3),
        ];
        for (nth, (flags, refs)) in expected.into_iter().enumerate() {
            assert_eq!(AccessRule::CountReferences.mark(&folios, FrameId(0)), Marked::Done);
            assert_eq!(folio.flags(), flags.with_refs(refs), "after access {}", nth + 1);
        }
    }

    #[test]
    fn references_of_6_1_count_after_workingset() {
        let folios = Folios::new(1);
        let folio = &folios[FrameId(0)];
        let twice = Flags::REFERENCED.with(Flags::WORKINGSET);
        let expected = [(Flags::REFERENCED, 0), (twice, 0), (twice, 1), (twice, 2), (twice, 3)];
        for (nth, (flags, refs)) in expected.into_iter().chain([(twice, 3)]).enumerate() {
            assert_eq!(AccessRule::CountAfterWorkingset.mark(&folios, FrameId(0)), Marked::Done);
            assert_eq!(folio.flags(), flags.with_refs(refs), "after access {}", nth + 1);
        }
        let locked = Flags::UNEVICTABLE;
        folio.bind(folio.page(), PageType::File, locked);
        assert_eq!(AccessRule::CountAfterWorkingset.mark(&folios, FrameId(0)), Marked::Done);
        assert_eq!(folio.flags(), locked);
    }

    #[test]
    fn the_access_that_missed_counts_for_the_kernels_policies_only() {
        let folios = Folios::new(1);
        let folio = &folios[FrameId(0)];
        let queues = [
            AccessRule::ReferenceBit,
            AccessRule::CountHits,
            AccessRule::CountAndLog,
            AccessRule::LogEach,
            AccessRule::Ignore,
        ];
        for rule in queues {
            assert_eq!(rule.mark_fill(&folios, FrameId(0)), Marked::Done);
            assert_eq!(folio.flags(), Flags::NONE, "{rule:?}");
        }
        let kernels =
            [AccessRule::CountReferences, AccessRule::CountAfterWorkingset, AccessRule::TwoTouches];
        for rule in kernels {
            folio.clear(Flags::REFERENCED);
            assert_eq!(rule.mark_fill(&folios, FrameId(0)), Marked::Done);
            assert_eq!(folio.flags(), Flags::REFERENCED, "{rule:?}");
        }
    }

    #[test]
    fn hits_count_to_three() {
        let folios = Folios::new(1);
        let folio = &folios[FrameId(0)];
        for hits in [1, 2, 3, 3] {
            assert_eq!(AccessRule::CountHits.mark(&folios, FrameId(0)), Marked::Done);
            assert_eq!(folio.flags(), Flags::NONE.with_refs(hits));
        }
    }

    #[test]
    fn the_first_access_to_what_readahead_brought_counts_as_little_as_a_miss() {
        let folios = Folios::new(1);
        let folio = &folios[FrameId(0)];
        let rules = [
            (AccessRule::ReferenceBit, Marked::Done, Flags::REFERENCED),
            (AccessRule::CountHits, Marked::Done, Flags::NONE.with_refs(1)),
            (AccessRule::LogEach, Marked::Log, Flags::NONE),
            (AccessRule::Ignore, Marked::Done, Flags::NONE),
        ];
        for (rule, second, after) in rules {
            folio.bind(folio.page(), PageType::File, rule.flags_on_fill(AccessPath::Readahead));
            assert_eq!(rule.mark(&folios, FrameId(0)), Marked::Done);
            assert!(!folio.flags().any(Flags::REFERENCED.with(Flags::REFS)), "{rule:?}");
            assert_eq!(rule.mark(&folios, FrameId(0)), second, "{rule:?}");
            assert_eq!(
                folio.flags().without(Flags::PREFETCHED.with(Flags::STREAMED)),
                after,
                "{rule:?}"
            );
        }
    }

    #[test]
    fn the_first_access_to_what_readahead_brought_is_told_once() {
        let folios = Folios::new(1);
        let folio = &folios[FrameId(0)];
        let mark = || AccessRule::CountAndLog.mark(&folios, FrameId(0));
        folio.bind(folio.page(), PageType::File, Flags::PREFETCHED);
        assert_eq!([mark(), mark()], [Marked::Log, Marked::Done]);
        let ticked = Hits::default().with_tick(1);
        assert_eq!((folio.flags(), folio.hits()), (Flags::NONE, ticked.with_count(1)));
        let waiting = Flags::PREFETCHED.with(Flags::PENDING);
        folio.bind(folio.page(), PageType::File, waiting);
        assert_eq!(mark(), Marked::Done, "the folio's entry in the log is its access");
        assert_eq!((folio.flags(), folio.hits()), (Flags::PENDING, ticked));
    }

    #[test]
    fn a_tick_hears_of_a_folio_once_and_of_a_watched_one_each_time() {
        let folios = Folios::new(1);
        let folio = &folios[FrameId(0)];
        let mark = || AccessRule::CountAndLog.mark(&folios, FrameId(0));
        assert_eq!(
            [mark(), mark(), mark(), mark()],
            [Marked::Log, Marked::Done, Marked::Done, Marked::Done]
        );
        assert_eq!((folio.hits(), folio.flags()), (Hits::quiet(1), Flags::NONE));
        folios.end_tick();
        assert_eq!([mark(), mark()], [Marked::Log, Marked::Done]);
        folio.set_hits(folio.hits().with_watched(true));
        assert_eq!([mark(), mark()], [Marked::Log, Marked::Log]);
        (0..0xffff).for_each(|_| folios.end_tick());
        assert_eq!(folios.tick(), 2, "65,535 ticks: none is 0");
    }

    #[test]
    fn unevictable_folio_ignores_references() {
        let folios = Folios::new(1);
        let folio = &folios[FrameId(0)];
        folio.set(Flags::UNEVICTABLE);
        assert_eq!(AccessRule::CountReferences.mark(&folios, FrameId(0)), Marked::Done);
        assert_eq!(folio.flags(), Flags::UNEVICTABLE);
    }

    #[test]
    fn second_touch_of_an_inactive_folio_asks_for_activation() {
        let folios = Folios::new(1);
        let folio = &folios[FrameId(0)];
        assert_eq!(AccessRule::TwoTouches.mark(&folios, FrameId(0)), Marked::Done);
        assert_eq!(folio.flags(), Flags::REFERENCED);
        assert_eq!(AccessRule::TwoTouches.mark(&folios, FrameId(0)), Marked::Log);
        assert_eq!(folio.flags(), Flags::NONE);
        folio.set(Flags::ACTIVE);
        assert_eq!(AccessRule::TwoTouches.mark(&folios, FrameId(0)), Marked::Done);
        assert_eq!(AccessRule::TwoTouches.mark(&folios, FrameId(0)), Marked::Done);
        assert_eq!(folio.flags(), Flags::ACTIVE.with(Flags::REFERENCED));
    }
}

//! What eviction remembers, and what a refault makes of it.
//!
//! ```text
//!   token   | oldest generation at eviction ....... | references - 1 (2 bits) |   w = workingset
//! ```
//!
//! The distance between the youngest generation now and the oldest one then says how long ago the
//! page left. Less than a full window ago, it would still be here had memory been a little larger:
//! then its tier's refault is counted, and a page of the working set is recognised as such.
//!
//! Ignored: shadows of other memory groups and nodes. Source: the multi-gen LRU specification,
//! section 8, profile B.

use super::tiers::{RefTier, References};
use super::window::MAX_NR_GENS;
use crate::lru::{LruvecId, ShadowEntry, TOKEN_MASK};

const REFS_BITS: u32 = 2;
const REFS_MASK: u64 = (1 << REFS_BITS) - 1;
const SEQ_MASK: u64 = TOKEN_MASK >> REFS_BITS;

/// What is left of a folio evicted while `min_seq` was its type's oldest generation.
pub(super) fn shadow_of(min_seq: u64, references: References, lruvec: LruvecId) -> ShadowEntry {
    let refs = u64::from(references.count.saturating_sub(1));
    ShadowEntry::new(min_seq << REFS_BITS | refs, lruvec, references.workingset)
}

/// What a shadow says about a page that returned soon enough to matter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Returned {
    /// What it had been accessed before it was evicted; at least once.
    pub(super) references: References,
}

impl Returned {
    /// Reads `shadow` while `max_seq` is the youngest generation; nothing if it is too old.
    pub(super) fn recently(shadow: ShadowEntry, max_seq: u64) -> Option<Returned> {
        let seq = shadow.token() >> REFS_BITS;
        let is_recent = (max_seq & SEQ_MASK).abs_diff(seq) < MAX_NR_GENS as u64;
        let count = (shadow.token() & REFS_MASK) as u32 + 1;
        let references = References { count, workingset: shadow.workingset() };
        is_recent.then_some(Returned { references })
    }

    /// The tier it was in.
    pub(super) fn tier(self) -> RefTier {
        self.references.tier()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LRUVEC: LruvecId = LruvecId { group: 5, node: 1 };

    fn shadow(min_seq: u64, count: u32, workingset: bool) -> ShadowEntry {
        shadow_of(min_seq, References { count, workingset }, LRUVEC)
    }

    /// Specification, section 8, the vectors of profile B.
    #[test]
    fn shadows_are_packed_as_specified() {
        assert_eq!(shadow(9, 4, true).bits(), 0x1380_0283);
        assert_eq!(shadow(9, 0, false).bits(), 0x1200_0282);
        assert_eq!(shadow(9, 1, false).bits(), 0x1200_0282);
    }

    #[test]
    fn a_window_later_is_not_recent() {
        let evicted_early = shadow(7, 1, false);
        assert!(Returned::recently(evicted_early, 10).is_some());
        assert!(Returned::recently(evicted_early, 11).is_none());
        let evicted_late = shadow(8, 1, false);
        assert!(Returned::recently(evicted_late, 11).is_some());
        assert!(Returned::recently(evicted_late, 12).is_none());
    }

    #[test]
    fn the_tier_comes_back() {
        let tiers = [(0, false), (1, false), (2, false), (3, false), (4, false), (4, true)]
            .map(|(count, workingset)| shadow(7, count, workingset))
            .map(|shadow| Returned::recently(shadow, 10).map(|returned| returned.tier().0));
        assert_eq!(tiers, [0, 0, 1, 2, 2, 3].map(Some));
    }

    #[test]
    fn sequences_are_compared_as_the_token_keeps_them() {
        let seq = SEQ_MASK + 6;
        assert!(Returned::recently(shadow(seq, 1, false), seq + 3).is_some());
    }
}

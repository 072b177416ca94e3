//! Shadow entries of evicted pages, and the outcome of a refault.
//!
//! ```text
//!   token   | oldest generation at eviction ....... | references - 1 (2 bits) |   w = workingset
//! ```
//!
//! The distance between a current generation and the token's tells how long ago the page was
//! evicted. Within the profile's limit the refault counts for the page's tier, and a page of the
//! working set is recognised. The profile defines `w`.
//!
//! Ignored: shadows of other memory groups and nodes. Source: Linux 6.1 and 6.18,
//! `mm/workingset.c`.

use super::tiers::References;
use crate::folio::Flags;
use crate::lru::{LruvecId, ShadowEntry, TOKEN_MASK};

const REFS_BITS: u32 = 2;
const REFS_MASK: u64 = (1 << REFS_BITS) - 1;
const SEQ_MASK: u64 = TOKEN_MASK >> REFS_BITS;

pub(super) fn shadow_of(min_seq: u64, references: References, lruvec: LruvecId) -> ShadowEntry {
    let refs = u64::from(references.count.saturating_sub(1));
    ShadowEntry::new(min_seq << REFS_BITS | refs, lruvec, references.workingset)
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Token {
    /// Truncated to the token's width.
    seq: u64,
    /// References beyond the first, 0 to 3.
    pub(super) references: u32,
}

impl Token {
    pub(super) const fn of(shadow: ShadowEntry) -> Token {
        let token = shadow.token();
        Token { seq: token >> REFS_BITS, references: (token & REFS_MASK) as u32 }
    }

    pub(super) const fn distance_to(self, seq: u64) -> u64 {
        (seq & SEQ_MASK).abs_diff(self.seq)
    }
}

/// The outcome of a refault within the window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RefaultOutcome {
    /// Flags to set: WORKINGSET, a reference count, or none.
    pub(super) flags: Flags,
    /// Counts as an activation.
    pub(super) is_activated: bool,
    /// Counts as thrashing: the page had been in the working set.
    pub(super) is_restored: bool,
}

#[cfg(test)]
mod tests {
    use super::super::tiers::RefTier;
    use super::*;

    #[test]
    fn distances_are_compared_as_the_token_keeps_them() {
        let references = References { count: 3, workingset: false, tier: RefTier(2) };
        let seq = SEQ_MASK + 6;
        let token = Token::of(shadow_of(seq, references, LruvecId::default()));
        assert_eq!((token.distance_to(seq), token.distance_to(seq + 3)), (0, 3));
        assert_eq!(token.references, 2);
    }
}

//! What eviction remembers, and what a refault makes of it.
//!
//! ```text
//!   token   | oldest generation at eviction ....... | references - 1 (2 bits) |   w = workingset
//! ```
//!
//! The distance between a generation of now and that one says how long ago the page left. If it is
//! short, the page would still be here had memory been a little larger: then its tier's refault is
//! counted, and a page of the working set is recognised as such. How short, and what `w` means, are
//! the profile's.
//!
//! Ignored: shadows of other memory groups and nodes. Source: the multi-gen LRU specification,
//! section 8.

use super::tiers::References;
use crate::folio::Flags;
use crate::lru::{LruvecId, ShadowEntry, TOKEN_MASK};

const REFS_BITS: u32 = 2;
const REFS_MASK: u64 = (1 << REFS_BITS) - 1;
const SEQ_MASK: u64 = TOKEN_MASK >> REFS_BITS;

/// What is left of a folio evicted while `min_seq` was its type's oldest generation.
pub(super) fn shadow_of(min_seq: u64, references: References, lruvec: LruvecId) -> ShadowEntry {
    let refs = u64::from(references.count.saturating_sub(1));
    ShadowEntry::new(min_seq << REFS_BITS | refs, lruvec, references.workingset)
}

/// A shadow's token, taken apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Token {
    /// The type's oldest generation when the page was evicted, as far as the token holds it.
    seq: u64,
    /// References beyond the first, 0 to 3.
    pub(super) references: u32,
}

impl Token {
    /// Reads it.
    pub(super) const fn of(shadow: ShadowEntry) -> Token {
        let token = shadow.token();
        Token { seq: token >> REFS_BITS, references: (token & REFS_MASK) as u32 }
    }

    /// How many generations lie between the page's and `seq`.
    pub(super) const fn distance_to(self, seq: u64) -> u64 {
        (seq & SEQ_MASK).abs_diff(self.seq)
    }
}

/// What a page is given that returned soon enough to matter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RefaultOutcome {
    /// Flags to set: WORKINGSET or a reference count, or nothing.
    pub(super) flags: Flags,
    /// It counts as made active at once.
    pub(super) is_activated: bool,
    /// It counts as thrashing: it had been in the working set.
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

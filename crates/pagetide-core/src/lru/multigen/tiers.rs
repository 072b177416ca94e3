//! Tiers: how often a folio was accessed, read from its flags.
//!
//! Descriptor accesses only touch flags ([`crate::lru::AccessRule::CountReferences`]), so inside
//! one generation folios differ by a small count. Tiers are its logarithm; they have no lists.
//!
//! ```text
//!   accesses      0   1   2   3   4   5 and more
//!   references    0   1   2   3   4   4 + workingset = saturated
//!   tier          0   0   1   2   2   3
//! ```
//!
//! Table accesses are seen later, by whoever finds the page word young, and take two steps: the
//! first observation sets REFERENCED, the next makes the folio part of the working set.
//! Source: the multi-gen LRU specification, section 4.

use crate::folio::{Flags, Folio};

/// Tiers a generation has.
pub const NR_TIERS: usize = 4;

/// An access-count class inside a generation, 0 to 3.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct RefTier(pub u8);

impl RefTier {
    /// The tier of folios of the working set.
    pub const LAST: RefTier = RefTier(NR_TIERS as u8 - 1);

    /// Its position in arrays indexed by tier.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// What a folio's flags say about its accesses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct References {
    /// 0 to 4.
    pub(super) count: u32,
    /// Whether it has been part of the working set.
    pub(super) workingset: bool,
}

impl References {
    /// Reads them.
    pub(super) const fn of(flags: Flags) -> References {
        let count = if flags.any(Flags::REFERENCED) { flags.refs() + 1 } else { 0 };
        References { count, workingset: flags.any(Flags::WORKINGSET) }
    }

    /// The tier.
    pub(super) const fn tier(self) -> RefTier {
        if self.workingset {
            RefTier::LAST
        } else {
            RefTier(self.count.next_power_of_two().trailing_zeros() as u8)
        }
    }

    /// Accessed so often that no further access is counted: promoted when eviction meets it.
    pub(super) const fn is_saturated(self) -> bool {
        self.workingset && self.count == Flags::REFS_MAX + 1
    }
}

/// What observing a young page word made of a folio.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Observed {
    /// The first time: now REFERENCED, nothing else.
    First,
    /// Again: now part of the working set, and to be promoted.
    Again,
}

/// Notes that `folio` was found young.
pub(super) fn observe_young(folio: &Folio) -> Observed {
    const SEEN: Flags = Flags::REFERENCED.with(Flags::WORKINGSET);
    let before = folio.update(|flags| {
        Some(if flags.any(SEEN) {
            flags.without(Flags::REFERENCED).with_refs(0).with(Flags::WORKINGSET)
        } else {
            flags.with(Flags::REFERENCED).with_refs(0)
        })
    });
    if before.any(SEEN) { Observed::Again } else { Observed::First }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folio::Folios;
    use crate::ids::FrameId;
    use crate::lru::{AccessRule, Marked};

    /// Specification, section 4, the last column.
    #[test]
    fn tiers_follow_the_access_count() {
        let folios = Folios::new(1);
        let folio = &folios[FrameId(0)];
        let expected = [(0, 0), (1, 0), (2, 1), (3, 2), (4, 2), (4, 3), (4, 3), (4, 3)];
        for (nth, (count, tier)) in expected.into_iter().enumerate() {
            let references = References::of(folio.flags());
            assert_eq!((references.count, references.tier().0), (count, tier), "{nth} accesses");
            assert_eq!(references.is_saturated(), nth >= 5, "{nth} accesses");
            assert_eq!(AccessRule::CountReferences.mark(folio), Marked::Done);
        }
    }

    #[test]
    fn remembered_references_do_not_count_before_an_access() {
        let references = References::of(Flags::NONE.with_refs(3));
        assert_eq!((references.count, references.tier().0), (0, 0));
    }

    #[test]
    fn young_words_promote_at_the_second_observation() {
        let folios = Folios::new(1);
        let folio = &folios[FrameId(0)];
        folio.update(|flags| Some(flags.with_refs(2)));
        assert_eq!(observe_young(folio), Observed::First);
        assert_eq!(folio.flags(), Flags::REFERENCED);
        assert_eq!(observe_young(folio), Observed::Again);
        assert_eq!(folio.flags(), Flags::WORKINGSET);
        assert_eq!(observe_young(folio), Observed::Again);
        assert_eq!(folio.flags(), Flags::WORKINGSET);
    }
}

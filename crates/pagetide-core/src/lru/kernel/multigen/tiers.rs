//! Tiers: how often a folio was accessed, read from its flags.
//!
//! Descriptor accesses only touch flags ([`crate::lru::AccessRule`]), so inside one generation
//! folios differ by a small count. Tiers are its logarithm; they have no lists. How flags count is
//! the profile's; both come to this:
//!
//! ```text
//!   accesses      0   1   2   3   4   5 and more
//!   tier          0   0   1   2   2   3
//! ```
//!
//! Table accesses are seen later, by the look that finds the page word young.
//! Source: the multi-gen LRU specification, section 4.

/// Tiers a generation has.
pub const NR_TIERS: usize = 4;

/// An access-count class inside a generation, 0 to 3.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct RefTier(pub u8);

impl RefTier {
    /// The tier of the most accesses.
    pub const LAST: RefTier = RefTier(NR_TIERS as u8 - 1);

    /// Its position in arrays indexed by tier.
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// The tier of so many accesses.
    pub(super) const fn holding(nr_accesses: u32) -> RefTier {
        RefTier(nr_accesses.next_power_of_two().trailing_zeros() as u8)
    }
}

/// What a folio's flags say about its accesses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct References {
    /// As the profile counts, 0 to 4.
    pub(super) count: u32,
    /// What its shadow says beside the count, if it is evicted: it has been part of the working
    /// set.
    pub(super) workingset: bool,
    pub(super) tier: RefTier,
}

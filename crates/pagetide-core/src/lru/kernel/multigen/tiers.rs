//! Tiers: access counts of folios, read from their flags.
//!
//! Descriptor accesses only change flags ([`crate::lru::AccessRule`]). A tier is the logarithm of
//! that count and has no list. The profile decodes the flags, always to this result:
//!
//! ```text
//!   accesses      0   1   2   3   4   5 and more
//!   tier          0   0   1   2   2   3
//! ```
//!
//! Table accesses are counted later, when a scan finds the page word young. Source:
//! `Documentation/mm/multigen_lru.rst`, "Workflow overview".

/// Tiers per generation.
pub const NR_TIERS: usize = 4;

/// An access-count class inside a generation, 0 to 3.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct RefTier(pub u8);

impl RefTier {
    /// The tier with the most accesses.
    pub const LAST: RefTier = RefTier(NR_TIERS as u8 - 1);

    /// Returns the array index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    pub(super) const fn holding(nr_accesses: u32) -> RefTier {
        RefTier(nr_accesses.next_power_of_two().trailing_zeros() as u8)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct References {
    /// Accesses as the profile counts them, 0 to 4.
    pub(super) count: u32,
    /// True if the folio has been in the working set. Stored in the shadow beside the count.
    pub(super) workingset: bool,
    pub(super) tier: RefTier,
}

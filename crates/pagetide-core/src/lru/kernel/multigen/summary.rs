//! A read-only summary of a multi-gen lruvec, for statistics and tests.

use super::tiers::NR_TIERS;
use super::window::MAX_NR_GENS;
use super::{Multigen, Profile, RefTierCounts};
use crate::folio::Flags;
use crate::ids::PageType;
use crate::lru::page_table::LookCounts;
use crate::units::Millis;
use core::fmt;

/// One generation. Sizes follow the GEN field, not the list.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct GenerationSummary {
    /// Sequence number.
    pub seq: u64,
    /// Start time, by the world's clock.
    pub birth: Millis,
    /// Folios, indexed by [`PageType::index`]. 0 if the type has retired the generation.
    pub nr_folios: [u64; 2],
}

/// The state of a multi-gen lruvec at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MultigenSummary {
    /// The youngest generation.
    pub max_seq: u64,
    /// The oldest generation, indexed by [`PageType::index`].
    pub min_seq: [u64; 2],
    /// The generations `max_seq - 3` to `max_seq`, oldest first.
    pub generations: [GenerationSummary; MAX_NR_GENS],
    /// Counts of the latest page-table walk.
    pub tables: LookCounts,
    /// Counts of all walks.
    pub tables_total: LookCounts,
    /// Counts of the controller: row = page type, column = tier.
    pub tiers: [[RefTierCounts; NR_TIERS]; 2],
    /// The last evicted tier of each type, compared with the type's own tier 0. Higher tiers are
    /// protected.
    pub tier_limits: [u8; 2],
}

impl<P: Profile> Multigen<P> {
    /// Costs O(1).
    pub(crate) fn summary(&self) -> MultigenSummary {
        let window = self.generations.window;
        let first = window.max_seq - (MAX_NR_GENS as u64 - 1);
        let generations = core::array::from_fn(|nth| {
            let seq = first + nth as u64;
            let nr_folios = PageType::ALL.map(|page_type| {
                let is_in_use = seq >= window.oldest(page_type);
                if is_in_use { self.generations.nr_in(page_type, seq) } else { 0 }
            });
            GenerationSummary { seq, birth: self.births.of(seq), nr_folios }
        });
        MultigenSummary {
            max_seq: window.max_seq,
            min_seq: window.min_seq,
            generations,
            tables: self.walks.latest(),
            tables_total: self.walks.total(),
            tiers: PageType::ALL.map(|page_type| *self.controller.tiers(page_type)),
            tier_limits: PageType::ALL.map(|page_type| self.tier_limit(page_type).0),
        }
    }

    /// Generations are counted from the oldest of the type.
    pub(super) fn write_generation(&self, flags: Flags, out: &mut dyn fmt::Write) -> fmt::Result {
        let window = self.generations.window;
        let page_type = flags.page_type();
        let nr_gens = window.nr_gens(page_type);
        if flags.generation().is_some() {
            let nth = window.nth_of(flags);
            write!(out, "generation {nth} of {nr_gens}, the 1st is the oldest; ")?;
        }
        write!(out, "{flags:?}")
    }
}

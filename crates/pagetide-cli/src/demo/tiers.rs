//! `--tier`: the same memory in other shapes, as subjects beside each other.
//!
//! Problem: what slow memory costs shows only beside the same memory all fast, and beside the fast
//! part alone. Idea: with tiers given, a policy can sit in each of the three:
//!
//! ```text
//!   mglru             [ fast |      slow      ]    the tiers, pages moving between them
//!   mglru@all-fast    [         fast          ]    as much, and none of it slow
//!   mglru@fast-only   [ fast ]                     without the slow tier
//! ```
//!
//! Ignored: the kernel in tiers; it would need a machine that has them.

use crate::failure::Failure;
use ::pagetide::{PageCache, Tier};
use pagetide_core::units::Bytes;
use std::fmt;

/// What a policy's memory is made of, where tiers are given.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) enum Seat {
    /// The tiers; all memory alike where there are none.
    #[default]
    Tiers,
    /// As much memory, all of it fast.
    AllFast,
    /// The fast tier alone.
    FastOnly,
}

impl Seat {
    /// What stands behind a policy's name for it.
    pub(crate) const NAMED: [(&'static str, Seat); 2] =
        [("@all-fast", Seat::AllFast), ("@fast-only", Seat::FastOnly)];

    /// Takes the seat off the end of a subject's name.
    pub(crate) fn split(text: &str) -> (&str, Seat) {
        let named = |&(name, seat): &(&str, Seat)| Some((text.strip_suffix(name)?, seat));
        Seat::NAMED.iter().find_map(named).unwrap_or((text, Seat::Tiers))
    }
}

impl fmt::Display for Seat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Seat::NAMED.iter().find(|(_, seat)| seat == self).map_or("", |(name, _)| name);
        f.write_str(name)
    }
}

/// The tiers of a demo, checked.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Tiers {
    tiers: Vec<Tier>,
    total: Bytes,
    fast: Bytes,
}

impl Tiers {
    /// Asks the library whether such a cache can be, by building an empty one.
    ///
    /// # Errors
    /// Tiers that no cache can have (usage).
    pub(crate) fn check(tiers: &[Tier]) -> Result<Option<Tiers>, Failure> {
        if tiers.is_empty() {
            return Ok(None);
        }
        let builder = PageCache::builder().background(false);
        let builder = tiers.iter().fold(builder, |builder, tier| builder.tier(*tier));
        let stats = builder.build().map_err(|error| Failure::Usage(error.to_string()))?.stats();
        let total = Bytes(stats.memory_bytes);
        let told = stats.tiering.as_ref().and_then(|tiering| tiering.tiers.first());
        let fast = told.map_or(total, |fast| fast.tier.len());
        Ok(Some(Tiers { tiers: tiers.to_vec(), total, fast }))
    }

    /// What all tiers of frames have together.
    pub(crate) fn total(&self) -> Bytes {
        self.total
    }

    /// The tiers that a subject in `seat` gets: none, or all.
    pub(crate) fn of_seat(&self, seat: Seat) -> &[Tier] {
        if seat == Seat::Tiers { &self.tiers } else { &[] }
    }

    /// The memory that a subject in `seat` gets.
    pub(crate) fn memory_of_seat(&self, seat: Seat) -> Bytes {
        if seat == Seat::FastOnly { self.fast } else { self.total }
    }
}

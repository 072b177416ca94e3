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
pub(crate) enum MemoryShape {
    /// The tiers; all memory alike where there are none.
    #[default]
    Tiers,
    /// As much memory, all of it fast.
    AllFast,
    /// The fast tier alone.
    FastOnly,
}

impl MemoryShape {
    /// What stands behind a policy's name for it.
    pub(crate) const NAMED: [(&'static str, MemoryShape); 2] =
        [("@all-fast", MemoryShape::AllFast), ("@fast-only", MemoryShape::FastOnly)];

    /// Takes the shape off the end of a subject's name.
    pub(crate) fn split(text: &str) -> (&str, MemoryShape) {
        let named = |&(name, shape): &(&str, MemoryShape)| Some((text.strip_suffix(name)?, shape));
        MemoryShape::NAMED.iter().find_map(named).unwrap_or((text, MemoryShape::Tiers))
    }
}

impl fmt::Display for MemoryShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name =
            MemoryShape::NAMED.iter().find(|(_, shape)| shape == self).map_or("", |(name, _)| name);
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
        let first = stats.tiering.as_ref().and_then(|tiering| tiering.tiers.first());
        let fast = first.map_or(total, |fast| fast.tier.len());
        Ok(Some(Tiers { tiers: tiers.to_vec(), total, fast }))
    }

    /// What all tiers of frames have together.
    pub(crate) fn total(&self) -> Bytes {
        self.total
    }

    /// The tiers that a subject in `shape` gets: none, or all.
    pub(crate) fn of_shape(&self, shape: MemoryShape) -> &[Tier] {
        if shape == MemoryShape::Tiers { &self.tiers } else { &[] }
    }

    /// The memory that a subject in `shape` gets.
    pub(crate) fn memory_of_shape(&self, shape: MemoryShape) -> Bytes {
        if shape == MemoryShape::FastOnly { self.fast } else { self.total }
    }
}

//! `--tier`: equal memory in different shapes, as adjacent subjects.
//!
//! ```text
//!   mglru             [ fast |      slow      ]    the tiers, pages moving between them
//!   mglru@all-fast    [         fast          ]    the same size, all fast
//!   mglru@fast-only   [ fast ]                     without the slow tier
//! ```
//!
//! Ignored: the kernel's tiering, which needs special hardware.

use crate::failure::Failure;
use ::pagetide::{PageCache, Tier};
use pagetide_core::units::Bytes;
use std::fmt;

#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) enum MemoryShape {
    /// The given tiers, or uniform memory.
    #[default]
    Tiers,
    AllFast,
    FastOnly,
}

impl MemoryShape {
    pub(crate) const NAMED: [(&'static str, MemoryShape); 2] =
        [("@all-fast", MemoryShape::AllFast), ("@fast-only", MemoryShape::FastOnly)];

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

#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Tiers {
    tiers: Vec<Tier>,
    total: Bytes,
    fast: Bytes,
}

impl Tiers {
    /// Builds an empty cache to check the tiers.
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

    pub(crate) fn total(&self) -> Bytes {
        self.total
    }

    pub(crate) fn of_shape(&self, shape: MemoryShape) -> &[Tier] {
        if shape == MemoryShape::Tiers { &self.tiers } else { &[] }
    }

    pub(crate) fn memory_of_shape(&self, shape: MemoryShape) -> Bytes {
        if shape == MemoryShape::FastOnly { self.fast } else { self.total }
    }
}

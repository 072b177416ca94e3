//! Tiers: the kinds of memory of a cache, and their text form.
//!
//! ```text
//!   Tier::dram(2G)              dram=2G                   fast: the machine's own memory
//!   Tier::numa(1, 8G)           numa1=8G                  memory of node 1: CXL, persistent memory
//!   Tier::emulated(8G, 300 ns)  slow=8G,latency=300ns     DRAM slowed down, for experiments
//!   Tier::compressed(4G)        compressed=4G             evicted pages, compressed
//!   .growing_to(6G)             dram=2G,max=6G            maximum of later resizes
//! ```
//!
//! New pages go to the fast tier. Cold pages are *demoted* to the next slower tier, and hot pages
//! are *promoted*. Building the cache checks the combination: see `plan`.

use pagetide_core::units::{Bytes, ParseBytesError};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

pub(crate) mod plan;
pub(crate) mod sizes;
#[cfg(test)]
mod tests;

/// A kind of memory and its size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tier {
    pub(crate) kind: TierKind,
    pub(crate) len: Bytes,
    pub(crate) most: Bytes,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TierKind {
    Dram,
    Numa(u32),
    /// DRAM with this latency added to each page access.
    Emulated(Duration),
    Compressed,
}

impl Tier {
    /// Creates the fast tier, of the machine's own memory.
    pub const fn dram(len: Bytes) -> Tier {
        Tier::new(TierKind::Dram, len)
    }

    /// Creates a tier of NUMA node `node`, as the system numbers them: CXL or persistent memory.
    pub const fn numa(node: u32, len: Bytes) -> Tier {
        Tier::new(TierKind::Numa(node), len)
    }

    /// Creates a tier of DRAM that emulates slower memory: each access of a 4 KiB page spins for
    /// `latency`.
    pub const fn emulated(len: Bytes, latency: Duration) -> Tier {
        Tier::new(TierKind::Emulated(latency), len)
    }

    /// Creates a tier of `len` bytes of compressed pages, below the slowest memory. It keeps clean
    /// evicted pages that compress, to save reads.
    pub const fn compressed(len: Bytes) -> Tier {
        Tier::new(TierKind::Compressed, len)
    }

    const fn new(kind: TierKind, len: Bytes) -> Tier {
        Tier { kind, len, most: len }
    }

    /// Reserves address space for `most`, the maximum of a later
    /// [`resize`](crate::PageCache::resize) or [`resize_tier`](crate::PageCache::resize_tier). Not
    /// for compressed pages.
    pub const fn growing_to(self, most: Bytes) -> Tier {
        Tier { most, ..self }
    }

    pub(crate) const fn resized(self, len: Bytes) -> Tier {
        Tier { len, ..self }
    }

    /// Returns the size.
    pub const fn len(&self) -> Bytes {
        self.len
    }

    /// Returns the maximum size.
    pub const fn most(&self) -> Bytes {
        self.most
    }

    /// Returns true if the size is 0.
    pub const fn is_empty(&self) -> bool {
        self.len.0 == 0
    }
}

/// Invalid text of a tier.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ParseTierError {
    /// The text is not a kind of memory, `=`, and a size.
    #[error(
        "a tier is dram=SIZE, numaN=SIZE, slow=SIZE,latency=300ns or compressed=SIZE, as in \
         dram=2G; all but the last may end in ,max=SIZE"
    )]
    Form,
    /// The size is invalid.
    #[error("the tier's size is not one")]
    Length(#[from] ParseBytesError),
    /// A slow tier needs a latency.
    #[error("a slow tier needs its latency: write slow=SIZE,latency=300ns")]
    NoLatency,
    /// The latency is invalid.
    #[error("a latency is a whole number of ns, us or ms, as in 300ns")]
    Latency,
}

impl FromStr for Tier {
    type Err = ParseTierError;

    fn from_str(text: &str) -> Result<Tier, ParseTierError> {
        if let Some((tier, most)) = text.rsplit_once(',')
            && let Some(most) = most.trim().strip_prefix("max=")
        {
            let tier: Tier = tier.parse()?;
            return match tier.kind {
                TierKind::Compressed => Err(ParseTierError::Form),
                _ => Ok(tier.growing_to(most.parse()?)),
            };
        }
        let (first, rest) = text.split_once(',').map_or((text, None), |(a, b)| (a, Some(b)));
        let (kind, len) = first.split_once('=').ok_or(ParseTierError::Form)?;
        let kind = kind.trim();
        if kind == "slow" {
            let latency = rest.ok_or(ParseTierError::NoLatency)?.trim();
            let latency = latency.strip_prefix("latency=").ok_or(ParseTierError::NoLatency)?;
            return Ok(Tier::emulated(len.parse()?, parse_latency(latency)?));
        }
        if rest.is_some() {
            return Err(ParseTierError::Form);
        }
        match (kind, kind.strip_prefix("numa")) {
            ("dram", _) => Ok(Tier::dram(len.parse()?)),
            ("compressed", _) => Ok(Tier::compressed(len.parse()?)),
            (_, Some(node)) => {
                let node = node.parse().map_err(|_| ParseTierError::Form)?;
                Ok(Tier::numa(node, len.parse()?))
            }
            _ => Err(ParseTierError::Form),
        }
    }
}

fn parse_latency(text: &str) -> Result<Duration, ParseTierError> {
    let units = [("ns", 1), ("us", 1000), ("ms", 1_000_000)];
    let in_unit = |(unit, ns): (&str, u64)| -> Option<Duration> {
        let number: u64 = text.trim().strip_suffix(unit)?.trim_end().parse().ok()?;
        Some(Duration::from_nanos(number.checked_mul(ns)?))
    };
    units.into_iter().find_map(in_unit).ok_or(ParseTierError::Latency)
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let len = self.len;
        match self.kind {
            TierKind::Dram => write!(f, "dram={len}"),
            TierKind::Numa(node) => write!(f, "numa{node}={len}"),
            TierKind::Emulated(latency) => {
                write!(f, "slow={len},latency={}ns", latency.as_nanos())
            }
            TierKind::Compressed => write!(f, "compressed={len}"),
        }?;
        // Present sizes are whole pages.
        let grows = self.most.whole_pages() > len.whole_pages();
        if grows { write!(f, ",max={}", self.most) } else { Ok(()) }
    }
}

//! Tiers: what kinds of memory a cache has, as people say it.
//!
//! ```text
//!   Tier::dram(2G)              dram=2G                   fast: the machine's own memory
//!   Tier::numa(1, 8G)           numa1=8G                  memory of node 1: CXL, persistent memory
//!   Tier::emulated(8G, 300 ns)  slow=8G,latency=300ns     DRAM that is made slow, to find out
//!   Tier::compressed(4G)        compressed=4G             pages on their way out, compressed
//!   .growing_to(6G)             dram=2G,max=6G            what a later resize may grow it to
//! ```
//!
//! Pages come in at the fast tier as long as it has room. What the replacement policy calls cold
//! there is *demoted*, to the next slower tier, and what is hot in slow memory is *promoted*. Which
//! combinations make sense is checked when the cache is built: see `plan`.

use pagetide_core::units::{Bytes, ParseBytesError};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

pub(crate) mod plan;
pub(crate) mod sizes;
#[cfg(test)]
mod tests;

/// One kind of memory of a cache, and how much of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tier {
    pub(crate) kind: TierKind,
    pub(crate) len: Bytes,
    pub(crate) most: Bytes,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TierKind {
    /// The machine's own memory, from wherever the system gives it.
    Dram,
    /// Memory of one NUMA node.
    Numa(u32),
    /// DRAM, with this much added to each access of a page.
    Emulated(Duration),
    /// Compressed copies of clean pages.
    Compressed,
}

impl Tier {
    /// The machine's own memory: the fast tier.
    pub const fn dram(len: Bytes) -> Tier {
        Tier::new(TierKind::Dram, len)
    }

    /// Memory of NUMA node `node`, as the system numbers them: CXL or persistent memory.
    pub const fn numa(node: u32, len: Bytes) -> Tier {
        Tier::new(TierKind::Numa(node), len)
    }

    /// DRAM that behaves like slower memory: `latency` is added to each access of a 4 KiB page, by
    /// waiting busily. To find out what such memory would do, without having it.
    pub const fn emulated(len: Bytes, latency: Duration) -> Tier {
        Tier::new(TierKind::Emulated(latency), len)
    }

    /// `len` bytes of compressed pages, between the slowest memory and the stores. A page that is
    /// evicted clean is kept here if it compresses, and comes back without a read.
    pub const fn compressed(len: Bytes) -> Tier {
        Tier::new(TierKind::Compressed, len)
    }

    const fn new(kind: TierKind, len: Bytes) -> Tier {
        Tier { kind, len, most: len }
    }

    /// The same, with address space reserved for `most`: a later
    /// [`resize`](crate::PageCache::resize) or [`resize_tier`](crate::PageCache::resize_tier) may
    /// grow it so far. Not for compressed pages.
    pub const fn growing_to(self, most: Bytes) -> Tier {
        Tier { most, ..self }
    }

    /// The same, of another size; what it may grow to stays.
    pub(crate) const fn resized(self, len: Bytes) -> Tier {
        Tier { len, ..self }
    }

    /// How much of it there is.
    pub const fn len(&self) -> Bytes {
        self.len
    }

    /// The most it can grow to.
    pub const fn most(&self) -> Bytes {
        self.most
    }

    /// Whether there is none of it.
    pub const fn is_empty(&self) -> bool {
        self.len.0 == 0
    }
}

/// Why a text is no tier.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ParseTierError {
    /// Not a kind of memory, `=`, and a size.
    #[error(
        "a tier is dram=SIZE, numaN=SIZE, slow=SIZE,latency=300ns or compressed=SIZE, as in \
         dram=2G; all but the last may end in ,max=SIZE"
    )]
    Form,
    /// The size is none.
    #[error("the tier's size is not one")]
    Length(#[from] ParseBytesError),
    /// A slow tier must say how slow.
    #[error("a slow tier needs its latency: write slow=SIZE,latency=300ns")]
    NoLatency,
    /// The latency is none.
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
    /// As it is typed.
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
        // A size in force is one of whole pages.
        let grows = self.most.whole_pages() > len.whole_pages();
        if grows { write!(f, ",max={}", self.most) } else { Ok(()) }
    }
}

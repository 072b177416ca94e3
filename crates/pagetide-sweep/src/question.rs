//! The question to every trace, and shards of traces.

use crate::reading::Reading;
use pagetide_core::units::{Bytes, PAGE_BYTES};
use pagetide_lab::replay::Contender;
use std::fmt;
use std::str::FromStr;
use twox_hash::XxHash3_128;

/// A size of memory: an amount, or a share of the trace's pages.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum MemorySize {
    /// Frames of 4 KiB, at least one.
    Frames(u32),
    /// Millionths of the pages that the trace accesses, at least one frame.
    Share(u32),
}

/// Text that is not a size.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "{text:?} is no size: write 64M or 4G, at most 16 TiB, or a share of the trace's pages such as \
     10%"
)]
pub struct BadSize {
    text: String,
}

impl MemorySize {
    /// Returns the frames for a trace of `nr_pages` pages.
    pub fn frames(self, nr_pages: u64) -> u32 {
        match self {
            MemorySize::Frames(frames) => frames,
            MemorySize::Share(millionths) => {
                let frames = u128::from(nr_pages) * u128::from(millionths) / 1_000_000;
                u32::try_from(frames).unwrap_or(u32::MAX).max(1)
            }
        }
    }
}

impl FromStr for MemorySize {
    type Err = BadSize;

    fn from_str(text: &str) -> Result<MemorySize, BadSize> {
        let bad = || BadSize { text: text.to_owned() };
        if let Some(percent) = text.strip_suffix('%') {
            let percent: f64 = percent.trim().parse().map_err(|_| bad())?;
            let millionths = (percent * 1e4).round();
            let is_share = (1.0..=1e6).contains(&millionths);
            return is_share.then_some(MemorySize::Share(millionths as u32)).ok_or_else(bad);
        }
        let bytes: Bytes = text.parse().map_err(|_| bad())?;
        let frames = u32::try_from(bytes.0 / PAGE_BYTES as u64).map_err(|_| bad())?;
        (frames > 0).then_some(MemorySize::Frames(frames)).ok_or_else(bad)
    }
}

/// The form in the journal's keys: equal for equal sizes.
impl fmt::Display for MemorySize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MemorySize::Frames(frames) => write!(f, "{frames}"),
            MemorySize::Share(millionths) => write!(f, "{}%", f64::from(*millionths) / 1e4),
        }
    }
}

/// The question to every trace.
#[derive(Clone, Debug)]
pub struct Question {
    /// The policies to run.
    pub contenders: Vec<Contender>,
    /// The memory sizes.
    pub sizes: Vec<MemorySize>,
    /// The way to read traces.
    pub reading: Reading,
}

impl Question {
    /// Returns all cells of a trace.
    pub fn cells(&self) -> Vec<(Contender, MemorySize)> {
        let of_size = |&size: &MemorySize| self.contenders.iter().map(move |&it| (it, size));
        let mut cells: Vec<_> = self.sizes.iter().flat_map(of_size).collect();
        let mut seen = std::collections::BTreeSet::new();
        cells.retain(|cell| seen.insert(*cell));
        cells
    }
}

/// One of several parts of the traces, by their names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shard {
    /// From 0.
    index: u32,
    of: u32,
}

/// Text that is not a shard.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{text:?} is no shard: write 1/4 for the first of four, up to 4/4")]
pub struct BadShard {
    text: String,
}

impl Shard {
    /// Returns true if the named trace is in the shard. Each trace is in exactly one, on every
    /// machine.
    pub fn takes(self, name: &str) -> bool {
        let hash = XxHash3_128::oneshot(name.as_bytes());
        hash % u128::from(self.of) == u128::from(self.index)
    }
}

impl FromStr for Shard {
    type Err = BadShard;

    fn from_str(text: &str) -> Result<Shard, BadShard> {
        let numbers = text.split_once('/').and_then(|(nth, of)| {
            Some((nth.parse::<u32>().ok()?.checked_sub(1)?, of.parse::<u32>().ok()?))
        });
        match numbers {
            Some((index, of)) if index < of => Ok(Shard { index, of }),
            _ => Err(BadShard { text: text.to_owned() }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_an_amount_or_a_share_and_has_one_name() {
        let parsed = |text: &str| text.parse::<MemorySize>();
        assert_eq!(parsed("64M"), parsed("65536K"));
        assert_eq!(parsed("64M").map(|size| size.to_string()), Ok("16384".to_owned()));
        assert_eq!(parsed("0.10%").map(|size| size.to_string()), Ok("0.1%".to_owned()));
        assert_eq!(parsed("10%").map(|size| size.frames(1005)), Ok(100));
        assert_eq!(parsed("0.01%").map(|size| size.frames(7)), Ok(1));
        for wrong in ["", "%", "0%", "101%", "nan%", "1", "4095", "17T", "much"] {
            assert!(parsed(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn each_trace_is_in_one_shard() {
        let shards: Vec<Shard> =
            (1..=3).map(|nth| format!("{nth}/3").parse().expect("a shard")).collect();
        for name in 0..300 {
            let takers = shards.iter().filter(|shard| shard.takes(&name.to_string())).count();
            assert_eq!(takers, 1, "{name}");
        }
        for shard in shards {
            let taken = (0..300).filter(|name| shard.takes(&name.to_string())).count();
            assert!((60..140).contains(&taken), "{shard:?} has {taken} of 300");
        }
        for wrong in ["0/3", "4/3", "1", "/", "1/0", "-1/3"] {
            assert!(wrong.parse::<Shard>().is_err(), "{wrong}");
        }
    }
}

//! How much of hot-page selection is on: its mechanisms, and the stages they were added in.
//!
//! ```text
//!   stage            hot selection   rate limit   auto threshold
//!   base                  -              -              -         whatever was touched
//!   hot-selection         x              -              -         what was touched soon enough
//!   rate-limit            x              x              -         and not too many a second
//!   auto-threshold        x              x              x         soon enough is found out
//!   auto                       by cost and benefit instead        what pays
//! ```
//!
//! Source: the tiering specification, sections 5 and 9; the three patches of the series. The
//! last stage is our own.

use core::fmt;
use core::str::FromStr;

/// Which mechanisms of promotion are on.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct TieringSwitches {
    /// Only pages whose hint fault came within the threshold are candidates; off, all are.
    pub hot_selection: bool,
    /// So many candidates a second are promoted, and no more.
    pub rate_limit: bool,
    /// The threshold moves until there are as many candidates as the rate limit lets pass; off, it
    /// stays at its default. Moves nothing without hot selection.
    pub auto_threshold: bool,
    /// A page is promoted when that pays, and the scan runs as often as that does (see `auto`); the
    /// other three, and their knobs, do not matter.
    pub auto: bool,
}

impl TieringSwitches {
    /// All off: promote whatever was touched.
    pub const BASE: TieringSwitches = TieringSwitches {
        hot_selection: false,
        rate_limit: false,
        auto_threshold: false,
        auto: false,
    };

    /// Whether nothing is selected: the balancing that was there before.
    pub const fn is_base(self) -> bool {
        !(self.hot_selection || self.rate_limit || self.auto_threshold || self.auto)
    }
}

impl Default for TieringSwitches {
    /// All on that Linux has.
    fn default() -> TieringSwitches {
        Stage::default().switches()
    }
}

/// The mechanisms as they were added, one patch upon the other.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum Stage {
    /// None: the page touched most recently is promoted.
    Base,
    /// Hot pages are told by the latency of their hint fault.
    HotSelection,
    /// And promoted at a limited rate.
    RateLimit,
    /// And what is hot follows from that rate: Linux 6.1 and later.
    #[default]
    AutoThreshold,
    /// None of them: what is promoted, and how much, follows from what it costs and gains.
    Auto,
}

impl Stage {
    /// All stages, in their order.
    pub const ALL: [Stage; 5] =
        [Stage::Base, Stage::HotSelection, Stage::RateLimit, Stage::AutoThreshold, Stage::Auto];

    /// The name, as typed.
    pub const fn as_str(self) -> &'static str {
        match self {
            Stage::Base => "base",
            Stage::HotSelection => "hot-selection",
            Stage::RateLimit => "rate-limit",
            Stage::AutoThreshold => "auto-threshold",
            Stage::Auto => "auto",
        }
    }

    /// What is on.
    pub const fn switches(self) -> TieringSwitches {
        TieringSwitches {
            hot_selection: self as u8 >= Stage::HotSelection as u8,
            rate_limit: self as u8 >= Stage::RateLimit as u8,
            auto_threshold: self as u8 >= Stage::AutoThreshold as u8,
            auto: self as u8 >= Stage::Auto as u8,
        }
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// No stage has that name; [`Stage::ALL`] are those there are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "no such stage of tiering; there are base, hot-selection, rate-limit, auto-threshold, auto"
)]
pub struct UnknownStage;

impl FromStr for Stage {
    type Err = UnknownStage;

    fn from_str(text: &str) -> Result<Stage, UnknownStage> {
        Stage::ALL.into_iter().find(|stage| stage.as_str() == text).ok_or(UnknownStage)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn names_parse_back() {
        for stage in Stage::ALL {
            assert_eq!(stage.to_string().parse(), Ok(stage));
            assert!(UnknownStage.to_string().contains(stage.as_str()));
        }
        assert_eq!("hot".parse::<Stage>(), Err(UnknownStage));
    }

    #[test]
    fn each_stage_adds_one_mechanism() {
        let nr_on = |stage: Stage| {
            let TieringSwitches { hot_selection, rate_limit, auto_threshold, auto } =
                stage.switches();
            [hot_selection, rate_limit, auto_threshold, auto].iter().filter(|is_on| **is_on).count()
        };
        assert_eq!(Stage::ALL.map(nr_on), [0, 1, 2, 3, 4]);
        assert!(
            Stage::ALL.iter().all(|stage| stage.switches().is_base() == (*stage == Stage::Base))
        );
        assert_eq!(Stage::Base.switches(), TieringSwitches::BASE);
    }
}

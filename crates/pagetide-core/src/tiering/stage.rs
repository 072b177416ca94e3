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

crate::named! {
    /// The mechanisms as they were added, one patch upon the other.
    #[derive(Default)]
    pub enum Stage or UnknownStage("no such stage of tiering") {
        /// None: the page touched most recently is promoted.
        Base = "base",
        /// Hot pages are told by the latency of their hint fault.
        HotSelection = "hot-selection",
        /// And promoted at a limited rate.
        RateLimit = "rate-limit",
        /// And what is hot follows from that rate: Linux 6.1 and later.
        #[default]
        AutoThreshold = "auto-threshold",
        /// None of them: what is promoted, and how much, follows from what it costs and gains.
        Auto = "auto",
    }
}

impl Stage {
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

#[cfg(test)]
mod tests {
    use super::*;

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

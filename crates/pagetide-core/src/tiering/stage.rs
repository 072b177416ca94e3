//! Mechanisms of hot-page selection, and the stages that added them.
//!
//! ```text
//!   stage            hot selection   rate limit   auto threshold   promotes
//!   base                  -              -              -         any touched page
//!   hot-selection         x              -              -         pages touched soon enough
//!   rate-limit            x              x              -         at a limited rate
//!   auto-threshold        x              x              x         with a threshold from the rate
//!   auto                       by cost and benefit instead        pages that repay the move
//! ```
//!
//! **Source.** The three patches of "memory tiering: hot page selection", Huang Ying, 2022. The
//! last stage is original.

/// Active mechanisms of promotion.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct TieringSwitches {
    /// Only pages with a hint fault within the threshold are candidates.
    pub hot_selection: bool,
    /// Limits the promotions a second.
    pub rate_limit: bool,
    /// Adapts the threshold to the rate limit. No effect without hot selection.
    pub auto_threshold: bool,
    /// Promotes by cost and benefit (see `auto`). Overrides all other switches and their knobs.
    pub auto: bool,
}

impl TieringSwitches {
    /// All off: promotes any touched page.
    pub const BASE: TieringSwitches = TieringSwitches {
        hot_selection: false,
        rate_limit: false,
        auto_threshold: false,
        auto: false,
    };

    /// Returns true if nothing is selected.
    pub const fn is_base(self) -> bool {
        !(self.hot_selection || self.rate_limit || self.auto_threshold || self.auto)
    }
}

impl Default for TieringSwitches {
    /// All mechanisms of Linux.
    fn default() -> TieringSwitches {
        Stage::default().switches()
    }
}

crate::named! {
    /// The stages, each adding one mechanism.
    #[derive(Default)]
    pub enum Stage or UnknownStage("no such stage of tiering") {
        /// None: promotes the page touched last.
        Base = "base",
        /// Selects hot pages by hint-fault latency.
        HotSelection = "hot-selection",
        /// Also limits the rate.
        RateLimit = "rate-limit",
        /// Also adapts the threshold: Linux 6.1 and later.
        #[default]
        AutoThreshold = "auto-threshold",
        /// Cost and benefit instead.
        Auto = "auto",
    }
}

impl Stage {
    /// Returns the active mechanisms.
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

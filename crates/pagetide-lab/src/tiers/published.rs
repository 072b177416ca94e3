//! Published figures of hot-page selection, to print beside the lab's.
//!
//! Source: Huang Ying, "memory tiering: hot page selection", version 4, June 2022: pmbench on a
//! server with two sockets, DRAM and PMEM.

use pagetide_core::tiering::Stage;

/// One row of the published table.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PublishedScore {
    /// The mechanisms.
    pub stage: Stage,
    /// Accesses a second.
    pub score: f64,
    /// Promotion rate, in MB a second.
    pub promotion_mb_per_s: f64,
}

impl PublishedScore {
    const fn new(stage: Stage, score: f64, promotion_mb_per_s: f64) -> PublishedScore {
        PublishedScore { stage, score, promotion_mb_per_s }
    }

    /// pmbench, stage after stage.
    pub const PMBENCH: [PublishedScore; 4] = [
        PublishedScore::new(Stage::Base, 146_887_704.1, 725.6),
        PublishedScore::new(Stage::HotSelection, 165_695_601.2, 544.0),
        PublishedScore::new(Stage::RateLimit, 162_814_569.8, 165.2),
        PublishedScore::new(Stage::AutoThreshold, 170_495_294.0, 136.9),
    ];

    /// Returns the row of the stage with this name.
    pub fn named(stage: &str) -> Option<PublishedScore> {
        PublishedScore::PMBENCH.into_iter().find(|line| line.stage.as_str() == stage)
    }
}

/// Returns the change from `before` to `now`, in percent.
pub fn change(before: f64, now: f64) -> f64 {
    (now / before - 1.0) * 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_changes_follow_from_the_published_figures() {
        let claimed = [(12.8, -25.0), (-1.7, -69.6), (4.7, -17.1)];
        for (pair, claim) in PublishedScore::PMBENCH.windows(2).zip(claimed) {
            let score = change(pair[0].score, pair[1].score);
            let rate = change(pair[0].promotion_mb_per_s, pair[1].promotion_mb_per_s);
            assert!((score - claim.0).abs() < 0.06 && (rate - claim.1).abs() < 0.06, "{pair:?}");
        }
        assert_eq!(PublishedScore::named("rate-limit"), Some(PublishedScore::PMBENCH[2]));
        assert_eq!(PublishedScore::named("oracle"), None);
    }
}

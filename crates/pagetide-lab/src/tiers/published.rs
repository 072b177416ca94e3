//! What was published of hot-page selection, to stand beside what the lab measures.
//!
//! Source: Huang Ying, "memory tiering: hot page selection", version 4, June 2022: pmbench on a
//! server with two sockets, DRAM and PMEM.

use pagetide_core::tiering::Stage;

/// One line of the published table.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Published {
    /// The mechanisms.
    pub stage: Stage,
    /// Accesses a second.
    pub score: f64,
    /// Promoted, MB a second.
    pub promotion_mb_per_s: f64,
}

impl Published {
    const fn new(stage: Stage, score: f64, promotion_mb_per_s: f64) -> Published {
        Published { stage, score, promotion_mb_per_s }
    }

    /// pmbench, stage after stage.
    pub const PMBENCH: [Published; 4] = [
        Published::new(Stage::Base, 146_887_704.1, 725.6),
        Published::new(Stage::HotSelection, 165_695_601.2, 544.0),
        Published::new(Stage::RateLimit, 162_814_569.8, 165.2),
        Published::new(Stage::AutoThreshold, 170_495_294.0, 136.9),
    ];

    /// The line of the stage of this name.
    pub fn named(stage: &str) -> Option<Published> {
        Published::PMBENCH.into_iter().find(|line| line.stage.as_str() == stage)
    }
}

/// How much more `now` is than `before`, in percent.
pub fn change(before: f64, now: f64) -> f64 {
    (now / before - 1.0) * 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_changes_follow_from_the_published_figures() {
        let claimed = [(12.8, -25.0), (-1.7, -69.6), (4.7, -17.1)];
        for (pair, claim) in Published::PMBENCH.windows(2).zip(claimed) {
            let score = change(pair[0].score, pair[1].score);
            let rate = change(pair[0].promotion_mb_per_s, pair[1].promotion_mb_per_s);
            assert!((score - claim.0).abs() < 0.06 && (rate - claim.1).abs() < 0.06, "{pair:?}");
        }
        assert_eq!(Published::named("rate-limit"), Some(Published::PMBENCH[2]));
        assert_eq!(Published::named("oracle"), None);
    }
}

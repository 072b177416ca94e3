//! The best setting there is: thresholds, rates and scan periods, all against all.
//!
//! **Problem.** A stage that claims to need no knobs has to be compared with the best setting of
//! all. **Idea.** Play every combination, and take the best score.
//!
//! ```text
//!   threshold  125 ... 4000 ms  \
//!   rate        64 ... 4096 MB/s >  each with each, over seeds --> mean scores --> the best
//!   period      60 ... 480 s    /
//! ```
//!
//! **Data and invariants.** The threshold stays where it is put: hot selection and rate limit are
//! on, the automatic threshold is off. The points come in the order of the grid.
//!
//! **Ignored.** What lies between the points. Source: ARMS and others compare with hand-tuned
//! settings found like this.

use super::programs::TierWorkload;
use super::run::{Placer, Ratio, TierSetup, run_while};
use pagetide_core::tiering::TieringSwitches;
use pagetide_core::units::Millis;
use rayon::prelude::*;

/// What is tried. None of the lists may be empty.
#[derive(Clone, Debug)]
pub struct Grid {
    /// Hot thresholds, in milliseconds.
    pub thresholds: Vec<u64>,
    /// Rate limits, in MB (2^20 bytes) a second, on the machine.
    pub rates: Vec<u64>,
    /// Longest scan periods, in milliseconds.
    pub scan_periods: Vec<u64>,
    /// The machine; its own threshold, rate and period do not matter.
    pub setup: TierSetup,
}

impl Default for Grid {
    /// 6 thresholds, 4 rates and 2 periods, on the published machine, for a shorter time.
    fn default() -> Grid {
        Grid {
            thresholds: vec![125, 250, 500, 1000, 2000, 4000],
            rates: vec![64, 256, 1024, 4096],
            scan_periods: vec![60_000, 480_000],
            setup: TierSetup::published(),
        }
    }
}

/// One setting, and what came of it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct GridPoint {
    /// The hot threshold, in milliseconds.
    pub threshold_ms: u64,
    /// The rate limit, in MB (2^20 bytes) a second.
    pub rate_mb_per_s: u64,
    /// The longest scan period, in milliseconds.
    pub scan_period_ms: u64,
    /// Accesses a second, the mean over the seeds.
    pub score: f64,
    /// Promoted, in MB a second, the mean.
    pub promotion_mb_per_s: f64,
}

/// All settings.
#[derive(Clone, PartialEq, Debug)]
pub struct GridResult {
    /// In the order of the grid: by threshold, then rate, then period.
    pub points: Vec<GridPoint>,
}

impl GridResult {
    /// The setting with the best score; of equals, the first.
    ///
    /// # Panics
    /// When there is no setting.
    pub fn best(&self) -> &GridPoint {
        let mut points = self.points.iter();
        let first = points.next().expect("a grid has points");
        points.fold(first, |best, point| if point.score > best.score { point } else { best })
    }
}

/// Plays every setting of `grid` with every seed, on all cores.
///
/// # Panics
/// When there are no seeds, or a list of the grid is empty.
///
/// # Cost
/// Half a second a setting and seed on the published machine.
pub fn best(workload: TierWorkload, ratio: Ratio, seeds: &[u64], grid: &Grid) -> GridResult {
    best_while(workload, ratio, seeds, grid, || true).expect("nobody stops it")
}

/// As [`best`], unless `keep_on`, asked now and then, says no: then `None`.
///
/// # Panics
/// As [`best`].
pub fn best_while(
    workload: TierWorkload,
    ratio: Ratio,
    seeds: &[u64],
    grid: &Grid,
    keep_on: impl Fn() -> bool + Sync,
) -> Option<GridResult> {
    assert!(!seeds.is_empty(), "a score needs a seed");
    let settings = settings(grid);
    assert!(!settings.is_empty(), "a grid has points");
    let nr_seeds = seeds.len();
    let play = |at: usize| {
        let setup = setup_of(grid, ratio, &settings[at / nr_seeds]);
        let seed = seeds[at % nr_seeds];
        let mut program = workload.program(setup.nr_pages, seed);
        let switches =
            TieringSwitches { hot_selection: true, rate_limit: true, ..TieringSwitches::BASE };
        let subject = Placer::Core { switches, name: "grid" };
        let outcome = run_while(&setup, workload.as_str(), &mut *program, subject, |_| keep_on())?;
        Some((outcome.row.score, outcome.row.promotion_mb_per_s))
    };
    let plays: Option<Vec<(f64, f64)>> =
        (0..settings.len() * nr_seeds).into_par_iter().with_max_len(1).map(play).collect();
    let plays = plays?;
    let point = |(setting, plays): (&GridPoint, &[(f64, f64)])| GridPoint {
        score: plays.iter().map(|play| play.0).sum::<f64>() / nr_seeds as f64,
        promotion_mb_per_s: plays.iter().map(|play| play.1).sum::<f64>() / nr_seeds as f64,
        ..*setting
    };
    Some(GridResult { points: settings.iter().zip(plays.chunks(nr_seeds)).map(point).collect() })
}

/// Every setting, not played yet.
fn settings(grid: &Grid) -> Vec<GridPoint> {
    let mut settings = Vec::new();
    for &threshold_ms in &grid.thresholds {
        for &rate_mb_per_s in &grid.rates {
            for &scan_period_ms in &grid.scan_periods {
                settings.push(GridPoint {
                    threshold_ms,
                    rate_mb_per_s,
                    scan_period_ms,
                    score: 0.0,
                    promotion_mb_per_s: 0.0,
                });
            }
        }
    }
    settings
}

fn setup_of(grid: &Grid, ratio: Ratio, point: &GridPoint) -> TierSetup {
    let mut setup = grid.setup.with_ratio(ratio).with_rate_limit(point.rate_mb_per_s);
    setup.knobs.hot_threshold = Millis(point.threshold_ms);
    setup.knobs.scan_period_max = Millis(point.scan_period_ms);
    setup.knobs.scan_period_min = setup.knobs.scan_period_min.min(setup.knobs.scan_period_max);
    setup
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Nanos;

    #[test]
    fn every_setting_is_played_in_order_and_the_best_found() {
        let mut setup = TierSetup::published();
        (setup.nr_frames, setup.nr_pages) = ([256, 768], 900);
        (setup.warm_up, setup.measured) = (Nanos::from_secs(120), Nanos::from_secs(60));
        let grid = Grid {
            thresholds: vec![100, 1000],
            rates: vec![128, 2048],
            scan_periods: vec![60_000],
            setup,
        };
        let found = best(TierWorkload::Zipf, Ratio(4), &[1, 2], &grid);
        let order: Vec<_> =
            found.points.iter().map(|point| (point.threshold_ms, point.rate_mb_per_s)).collect();
        assert_eq!(order, [(100, 128), (100, 2048), (1000, 128), (1000, 2048)]);
        assert!(found.points.iter().all(|point| point.score > 0.0));
        let best_score = found.best().score;
        assert!(found.points.iter().all(|point| point.score <= best_score));
        assert!(
            found.points[1].promotion_mb_per_s > found.points[0].promotion_mb_per_s,
            "a higher rate lets more pass: {found:?}"
        );
        let stopped = best_while(TierWorkload::Zipf, Ratio(4), &[1], &grid, || false);
        assert!(stopped.is_none());
    }
}

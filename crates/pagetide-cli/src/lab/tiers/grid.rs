//! `--grid`: thresholds, rates and scan periods, searched for the best score.

use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::table::{Table, cells, left, right};
use pagetide_lab::tiers::programs::TierWorkload;
use pagetide_lab::tiers::{Grid, GridPoint, GridResult, Ratio, TierSetup, best_while};
use serde::Serialize;

/// A setting as `--json` prints it.
#[derive(Serialize)]
pub(super) struct GridLine {
    workload: &'static str,
    ratio: String,
    threshold_ms: u64,
    rate_mb_per_s: u64,
    scan_period_ms: u64,
    score: f64,
    promotion_mb_per_s: f64,
    is_best: bool,
}

/// Tries all settings of each workload at each ratio.
///
/// # Errors
/// An interrupt.
pub(super) fn search(
    workloads: &[TierWorkload],
    ratios: &[Ratio],
    seeds: &[u64],
    setup: TierSetup,
    interrupt: &Interrupt,
) -> Result<Vec<GridLine>, Failure> {
    let grid = Grid { setup, ..Grid::default() };
    let mut lines = Vec::new();
    for &workload in workloads {
        for &ratio in ratios {
            let found = best_while(workload, ratio, seeds, &grid, || !interrupt.is_set());
            lines.extend(grid_lines(workload, ratio, &found.ok_or(Failure::Interrupted)?));
        }
    }
    Ok(lines)
}

/// A line a setting.
pub(super) fn table(lines: &[GridLine]) -> Table<'static> {
    let columns = [
        left("workload", 11),
        right("ratio", 5),
        right("threshold ms", 13),
        right("rate MB/s", 10),
        right("period ms", 13),
        right("Maccess/s", 10),
        right("promote", 10),
        left("", 0),
    ];
    let cells_of = |line: &GridLine| {
        cells![
            line.workload,
            line.ratio,
            line.threshold_ms,
            line.rate_mb_per_s,
            line.scan_period_ms,
            format!("{:.1}", line.score / 1e6),
            format!("{:.1}", line.promotion_mb_per_s),
            if line.is_best { " best" } else { "" },
        ]
    };
    Table::new(&columns).with_rows(lines.iter().map(cells_of))
}

fn grid_lines(workload: TierWorkload, ratio: Ratio, found: &GridResult) -> Vec<GridLine> {
    let best = *found.best();
    let line = |point: &GridPoint| GridLine {
        workload: workload.as_str(),
        ratio: ratio.to_string(),
        threshold_ms: point.threshold_ms,
        rate_mb_per_s: point.rate_mb_per_s,
        scan_period_ms: point.scan_period_ms,
        score: point.score,
        promotion_mb_per_s: point.promotion_mb_per_s,
        is_best: *point == best,
    };
    found.points.iter().map(line).collect()
}

//! The report: the rows with unchanged constants, then one line per variant.

use crate::replays::median;
use crate::variants::Variant;
use serde::Serialize;
use std::fmt::Write;

/// A row under a variant.
#[derive(Debug, Serialize)]
pub(crate) struct Cell {
    pub(crate) variant: String,
    pub(crate) row: &'static str,
    pub(crate) best_policy: &'static str,
    pub(crate) best_miss_ratio: f64,
    /// By seed.
    pub(crate) miss_ratios: Vec<f64>,
    /// In points, the median over seeds.
    pub(crate) regret: f64,
}

pub(crate) fn table(cells: &[Cell], variants: &[Variant]) -> String {
    let mut text = String::new();
    let range = |cell: &Cell, best: f64| {
        let ends = cell.miss_ratios.iter().map(|ratio| 100.0 * (ratio - best));
        (ends.clone().fold(f64::INFINITY, f64::min), ends.fold(f64::NEG_INFINITY, f64::max))
    };
    // Writing to a string cannot fail.
    let _ =
        writeln!(text, "{:<24} {:>10} {:>8} {:>8} {:>16}", "row", "best", "", "regret", "seeds");
    for cell in cells.iter().filter(|cell| cell.variant == variants[0].name) {
        let (low, high) = range(cell, cell.best_miss_ratio);
        let _ = writeln!(
            text,
            "{:<24} {:>10} {:>8.4} {:>+8.2} [{low:>+6.2}, {high:>+6.2}]",
            cell.row, cell.best_policy, cell.best_miss_ratio, cell.regret,
        );
    }
    let _ = writeln!(text, "\n{:<28} {:>7} {:>7}  worst row", "constants", "median", "worst");
    for variant in variants {
        let of_variant = cells.iter().filter(|cell| cell.variant == variant.name);
        let worst = of_variant.clone().max_by(|one, other| one.regret.total_cmp(&other.regret));
        let Some(worst) = worst else { continue };
        let median = median(of_variant.map(|cell| cell.regret));
        let _ = writeln!(
            text,
            "{:<28} {median:>+7.2} {:>+7.2}  {}",
            variant.name, worst.regret, worst.row
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_names_the_worst_row_of_each_variant() {
        let cell = |row, regret| Cell {
            variant: "as it is".to_owned(),
            row,
            best_policy: "lru",
            best_miss_ratio: 0.5,
            miss_ratios: vec![0.5 + regret / 100.0],
            regret,
        };
        let variants = Variant::all();
        let text = table(&[cell("one", 1.5), cell("two", -1.0)], &variants);
        assert!(text.contains("+0.25   +1.50  one"), "{text}");
        assert_eq!(text.lines().count(), 6, "{text}");
    }
}

//! The report on the cost of a slow tier, by the fast share of memory.

use super::{Cost, table};
use crate::failure::Failure;
use crate::report::page::{Figure, Page};
use crate::report::plots::{Axes, DrawError, Line, lines};
use crate::report::{self, distinct};
use crate::table::escape;
use pagetide_lab::tiers::prices::TierPrices;
use std::path::Path;

type Reading = fn(&Cost) -> f64;

/// Writes the report. `model` describes the modelled machine.
pub(super) fn write(
    path: &Path,
    model: &str,
    costs: &[Cost],
    prices: &TierPrices,
) -> Result<(), Failure> {
    report::write(path, render(model, costs, prices))
}

fn render(model: &str, costs: &[Cost], prices: &TierPrices) -> Result<String, DrawError> {
    let stages = distinct(costs.iter().map(|cost| cost.row.stage));
    let mut page = Page::new("Pagetide: what slow memory costs", &escape(model), &stages);
    let plots: [(&str, &str, Reading); 3] = [
        (
            "Slowdown",
            "Times as long as in memory that is all fast, by the share of memory that is.",
            |cost| cost.slowdown,
        ),
        ("Accesses served fast", "Of all, in percent.", |cost| cost.row.fast_share * 100.0),
        ("Promotions", "MB a second moved to fast memory.", |cost| cost.row.promotion_mb_per_s),
    ];
    let mut figures = Vec::new();
    for (title, caption, reading) in plots {
        figures.push(Figure::new(by_share(&stages, costs, reading)?, title, caption));
    }
    page.section("", &figures, Some(&table(costs)));
    Ok(page.finish("How this was run", &method(prices)))
}

/// Returns HTML.
pub(crate) fn method(prices: &TierPrices) -> String {
    format!(
        "Only what has a price takes time; every access is one that missed the processor's caches. \
         Prices, in ns where no unit is said: {}.",
        escape(&prices.to_string())
    )
}

fn by_share(stages: &[&str], costs: &[Cost], reading: Reading) -> Result<String, DrawError> {
    let doublings = |cost: &Cost| cost.fast.log2();
    let (left, right) = costs
        .iter()
        .map(doublings)
        .fold((f64::MAX, f64::MIN), |(low, high), at| (low.min(at), high.max(at)));
    let top = costs.iter().map(reading).fold(1e-9, f64::max);
    let axes = Axes {
        x: left..right.max(left + 0.5),
        y: 0.0..top * 1.06,
        x_name: "",
        x_tick: &|doublings| format!("{:.0} %", doublings.exp2() * 100.0),
        y_tick: &|value| format!("{value:.1}"),
    };
    let line = |stage: &&str| {
        let of_stage = costs.iter().filter(|cost| cost.row.stage == *stage);
        let mut points: Vec<(f64, f64)> =
            of_stage.map(|cost| (doublings(cost), reading(cost))).collect();
        points.sort_by(|one, other| one.0.total_cmp(&other.0));
        Line { has_dots: true, ..Line::new(stage, points) }
    };
    lines(&axes, &stages.iter().map(line).collect::<Vec<_>>())
}

//! The report on fast and slow memory: scores and moves by stage, or by how little is fast.

use crate::failure::Failure;
use crate::lab::TierRuns;
use crate::output;
use crate::report::page;
use crate::report::plots::{Area, DrawError, colour, label_above, mesh, svg_of};
use crate::tier::Cost;
use pagetide_lab::tiers::TierRow;
use pagetide_lab::tiers::prices::TierPrices;
use plotters::prelude::*;
use std::fmt::Write;
use std::path::Path;

const SIZE: (u32, u32) = (520, 300);

/// What a plot shows of a cost.
type Reading = fn(&Cost) -> f64;

/// Writes the report on `runs` to `path`.
///
/// # Errors
/// Where the file cannot be written.
pub(crate) fn write_tiers(
    path: &Path,
    runs: &[TierRuns],
    prices: &TierPrices,
) -> Result<(), Failure> {
    let text =
        render_runs(runs, prices).map_err(|error| Failure::on("draw the report", &*error))?;
    output::write("the report", path, &text)
}

/// Writes the report on what a slow tier would cost to `path`.
///
/// # Errors
/// Where the file cannot be written.
pub(crate) fn write_tier_costs(
    path: &Path,
    said: &str,
    costs: &[Cost],
    prices: &TierPrices,
) -> Result<(), Failure> {
    let text = render_costs(said, costs, prices)
        .map_err(|error| Failure::on("draw the report", &*error))?;
    output::write("the report", path, &text)
}

fn render_runs(runs: &[TierRuns], prices: &TierPrices) -> Result<String, DrawError> {
    let said = "Programs in a model of fast and slow memory, in virtual time: core's promotion and \
                demotion, stage after stage, beside memory that is all slow, all fast, or placed \
                by an oracle whose moves are free.";
    let mut names: Vec<&str> = Vec::new();
    for it in runs {
        if !names.contains(&it.subject.as_str()) {
            names.push(it.subject.as_str());
        }
    }
    let mut text = page::start("Pagetide fast and slow memory", said, &names);
    let is_same = |one: &TierRuns, other: &TierRuns| {
        (one.workload, one.ratio) == (other.workload, other.ratio)
    };
    for runs in runs.chunk_by(is_same) {
        let (workload, ratio) = (runs[0].workload, runs[0].ratio);
        let rows: Vec<TierRow> = runs.iter().map(TierRuns::median).collect();
        let summary = page::escape(workload.summary());
        let _ = write!(text, "<section><h2>{workload}, {ratio}</h2><p>{summary}.</p>");
        text.push_str("<div class=\"plots\">");
        let score = svg_of(SIZE, |area| bars(area, &rows, |row| row.score / 1e6))?;
        text.push_str(&page::figure(&score, "Score", "Million accesses a second."));
        let moved = svg_of(SIZE, |area| bars(area, &rows, |row| row.promotion_mb_per_s))?;
        let caption = "MB a second moved to fast memory; as much is moved back.";
        text.push_str(&page::figure(&moved, "Promotions", caption));
        text.push_str("</div>");
        text.push_str(&table(&rows));
        text.push_str("</section>");
    }
    text.push_str(&foot(prices));
    Ok(text)
}

fn render_costs(said: &str, costs: &[Cost], prices: &TierPrices) -> Result<String, DrawError> {
    let mut stages: Vec<&str> = Vec::new();
    for cost in costs {
        if !stages.contains(&cost.row.stage) {
            stages.push(cost.row.stage);
        }
    }
    let mut text = page::start("Pagetide: what slow memory costs", &page::escape(said), &stages);
    text.push_str("<section><div class=\"plots\">");
    let plots: [(&str, &str, Reading); 3] = [
        (
            "Slowdown",
            "Times as long as in memory that is all fast, by the share of memory that is.",
            |cost| cost.slowdown,
        ),
        ("Accesses served fast", "Of all, in percent.", |cost| cost.row.fast_share * 100.0),
        ("Promotions", "MB a second moved to fast memory.", |cost| cost.row.promotion_mb_per_s),
    ];
    for (title, caption, value) in plots {
        let svg = svg_of(SIZE, |area| lines(area, &stages, costs, value))?;
        text.push_str(&page::figure(&svg, title, caption));
    }
    text.push_str("</div>");
    let rows: Vec<TierRow> = costs.iter().map(|cost| cost.row).collect();
    text.push_str(&table(&rows));
    text.push_str("</section>");
    text.push_str(&foot(prices));
    Ok(text)
}

fn foot(prices: &TierPrices) -> String {
    format!(
        "<section><h2>How this was run</h2><p>Only what has a price takes time; every access is \
         one that missed the processor's caches. Prices, in ns where no unit is said: {}.</p>\
         </section></body></html>\n",
        page::escape(&prices.to_string())
    )
}

/// A bar a row.
fn bars(area: &Area<'_>, rows: &[TierRow], value: fn(&TierRow) -> f64) -> Result<(), DrawError> {
    let top = rows.iter().map(value).fold(1e-9, f64::max);
    let mut chart = ChartBuilder::on(area)
        .margin(8)
        .x_label_area_size(8)
        .y_label_area_size(54)
        .build_cartesian_2d(0.0..rows.len() as f64, 0.0..top * 1.15)?;
    mesh(&mut chart)
        .x_labels(0)
        .y_labels(6)
        .y_label_formatter(&|value| format!("{value:.0}"))
        .draw()?;
    for (at, row) in rows.iter().enumerate() {
        let (left, height) = (at as f64, value(row));
        let bar =
            Rectangle::new([(left + 0.15, 0.0), (left + 0.85, height)], colour(row.stage).filled());
        chart.draw_series(std::iter::once(bar))?;
        let label = chart.backend_coord(&(left + 0.5, height));
        label_above(area, label, &format!("{height:.0}"))?;
    }
    Ok(())
}

/// A line a stage, over the share of memory that is fast.
fn lines(
    area: &Area<'_>,
    stages: &[&str],
    costs: &[Cost],
    value: Reading,
) -> Result<(), DrawError> {
    let doublings = |cost: &Cost| cost.fast.log2();
    let (left, right) = costs
        .iter()
        .map(doublings)
        .fold((f64::MAX, f64::MIN), |(low, high), at| (low.min(at), high.max(at)));
    let right = right.max(left + 0.5);
    let top = costs.iter().map(value).fold(1e-9, f64::max);
    let mut chart = ChartBuilder::on(area)
        .margin(8)
        .x_label_area_size(34)
        .y_label_area_size(54)
        .build_cartesian_2d(left..right, 0.0..top * 1.06)?;
    mesh(&mut chart)
        .x_labels(6)
        .y_labels(6)
        .x_label_formatter(&|doublings| format!("{:.0} %", doublings.exp2() * 100.0))
        .y_label_formatter(&|value| format!("{value:.1}"))
        .draw()?;
    for stage in stages {
        let style = colour(stage).stroke_width(2);
        let of_stage = costs.iter().filter(|cost| cost.row.stage == *stage);
        let mut points: Vec<(f64, f64)> =
            of_stage.map(|cost| (doublings(cost), value(cost))).collect();
        points.sort_by(|one, other| one.0.total_cmp(&other.0));
        chart.draw_series(points.iter().map(|at| Circle::new(*at, 3, style.filled())))?;
        chart.draw_series(LineSeries::new(points, style))?;
    }
    Ok(())
}

fn table(rows: &[TierRow]) -> String {
    let mut text = String::from("<div class=\"scroll\"><table><thead><tr>");
    for head in [
        "stage",
        "million accesses/s",
        "promoted MB/s",
        "demoted MB/s",
        "hint faults",
        "fast",
        "paid",
        "recall",
        "ping-pong",
    ] {
        // Writing to a string cannot fail.
        let _ = write!(text, "<th>{head}</th>");
    }
    text.push_str("</tr></thead><tbody>");
    for row in rows {
        let _ = write!(
            text,
            "<tr><td>{}</td><td>{:.1}</td><td>{:.1}</td><td>{:.1}</td><td>{}</td>",
            page::escape(row.stage),
            row.score / 1e6,
            row.promotion_mb_per_s,
            row.demotion_mb_per_s,
            row.hint_faults
        );
        for share in [row.fast_share, row.precision, row.recall, row.ping_pong] {
            let _ = write!(text, "<td>{:.1} %</td>", share * 100.0);
        }
        text.push_str("</tr>");
    }
    text.push_str("</tbody></table></div>");
    text
}

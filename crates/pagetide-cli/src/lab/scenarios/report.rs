//! The scenario report: a plot per metric, courses over time, and the claims.
//!
//! ```text
//!   metric   bar = median of the seeds, whisker = lowest and highest, one per subject
//!   course   a thin line per seed, in the subject's colour
//! ```

use super::plays::Played;
use crate::failure::Failure;
use crate::report::page::{Figure, Page, heading, paragraph, remark};
use crate::report::plots::{
    Axes, DrawError, GREY, Line, SIZE, colour, label_above, lines, mesh, svg,
};
use crate::report::{self, distinct};
use crate::table::{Table, cells, left, right};
use pagetide_lab::scenario::{Scenario, SummaryRow};
use plotters::prelude::*;
use std::path::Path;

const METHOD: &str = "\
In virtual memory: the decision code that runs for \
real, over accesses made up by the scenario as it goes, in a machine that exists only as \
counters. Nothing here depends on the computer it ran on; the same seeds give the same numbers \
anywhere. A seed decides what a scenario leaves open: frames within 1/64 of the size, where \
reading starts, how many pages a call reads, orders and popularities. Bars are medians over \
seeds, whiskers the lowest and the highest of them. Claims are what a scenario's source says \
of the same quantity.";

pub(super) fn write(path: &Path, played: &[Played], rows: &[SummaryRow]) -> Result<(), Failure> {
    report::write(path, render(played, rows))
}

fn render(played: &[Played], rows: &[SummaryRow]) -> Result<String, DrawError> {
    let subjects: Vec<String> = played.iter().map(|it| it.subject.to_string()).collect();
    let subjects = distinct(subjects.iter().map(String::as_str));
    let names = distinct(played.iter().map(|it| it.scenario.name));
    let nr_seeds = played.first().map_or(0, |it| it.plays.len());
    let said = format!("{} scenarios, each played with {nr_seeds} seeds.", names.len());
    let mut page = Page::new("Pagetide scenarios", &said, &subjects);
    for name in names {
        let of_scenario: Vec<&Played> =
            played.iter().filter(|it| it.scenario.name == name).collect();
        let its_rows: Vec<&SummaryRow> = rows.iter().filter(|row| row.scenario == name).collect();
        add_section(&mut page, of_scenario[0].scenario, &of_scenario, &its_rows)?;
    }
    Ok(page.finish("How this was played", METHOD))
}

fn add_section(
    page: &mut Page,
    scenario: &Scenario,
    played: &[&Played],
    rows: &[&SummaryRow],
) -> Result<(), DrawError> {
    let words = heading(scenario.name)
        + &paragraph(scenario.story)
        + &remark(&format!("Source: {}.", scenario.source));
    let mut figures = Vec::new();
    for metric in scenario.metrics {
        let of_metric: Vec<&SummaryRow> =
            rows.iter().copied().filter(|row| row.metric == metric.name).collect();
        figures.push(Figure::new(bars(&of_metric)?, metric.name, metric.meaning));
    }
    for name in course_names(played) {
        let caption = "Step by step; a line for each seed of each subject.";
        figures.push(Figure::new(courses(played, name)?, name, caption));
    }
    page.section(&words, &figures, Some(&table(rows)));
    Ok(())
}

fn course_names(played: &[&Played]) -> Vec<&'static str> {
    let first = played.first().and_then(|it| it.plays.first());
    first.map_or(Vec::new(), |play| play.courses.iter().map(|course| course.name).collect())
}

fn bars(rows: &[&SummaryRow]) -> Result<String, DrawError> {
    let top = rows.iter().map(|row| row.high).fold(0.0, f64::max);
    let top = if top > 0.0 { top * 1.14 } else { 1.0 };
    let bottom = rows.iter().map(|row| row.low).fold(0.0, f64::min) * 1.14;
    svg(SIZE, |area| {
        let mut chart = ChartBuilder::on(area)
            .margin(8)
            .x_label_area_size(12)
            .y_label_area_size(54)
            .build_cartesian_2d(0.0..rows.len().max(1) as f64, bottom..top)?;
        mesh(&mut chart).disable_x_mesh().x_labels(0).y_labels(6).draw()?;
        for (row, left) in rows.iter().zip((0..).map(f64::from)) {
            let (start, middle, end) = (left + 0.15, left + 0.5, left + 0.85);
            let fill = colour(&row.policy).filled();
            chart.draw_series([Rectangle::new([(start, 0.0), (end, row.median)], fill)])?;
            let whisker = GREY.stroke_width(2);
            let lines = [
                vec![(middle, row.low), (middle, row.high)],
                vec![(middle - 0.12, row.low), (middle + 0.12, row.low)],
                vec![(middle - 0.12, row.high), (middle + 0.12, row.high)],
            ];
            chart.draw_series(lines.into_iter().map(|line| PathElement::new(line, whisker)))?;
            // Clear of the whisker.
            let (x, y) = chart.backend_coord(&(middle, row.high));
            label_above(area, (x, y - 1), &median_text(row.median))?;
        }
        Ok(())
    })
}

fn median_text(median: f64) -> String {
    if median.fract() == 0.0 { format!("{median:.0}") } else { format!("{median:.1}") }
}

fn courses(played: &[&Played], name: &str) -> Result<String, DrawError> {
    let mut all = Vec::new();
    for it in played {
        let style = colour(&it.subject.to_string()).mix(0.6).stroke_width(1);
        let courses = it.plays.iter().flat_map(|play| &play.courses);
        all.extend(courses.filter(|course| course.name == name).map(|course| {
            let points = (1..).map(f64::from).zip(course.values.iter().copied()).collect();
            Line { points, style, has_dots: false }
        }));
    }
    let points = || all.iter().flat_map(|line| &line.points);
    let right = points().map(|point| point.0).fold(2.0, f64::max);
    let top = points().map(|point| point.1).fold(1.0, f64::max);
    let axes = Axes {
        x: 0.5..right + 0.5,
        y: 0.0..top * 1.04,
        x_name: "step",
        x_tick: &|step| format!("{step:.0}"),
        y_tick: &|value| format!("{value:.1}"),
    };
    lines(&axes, &all)
}

fn table(rows: &[&SummaryRow]) -> Table<'static> {
    let columns = [
        left("policy", 0),
        left("metric", 0),
        right("median", 0),
        right("low", 0),
        right("high", 0),
        right("seeds", 0),
        left("claim", 0),
    ];
    let decimals = |value: f64| format!("{value:.2}");
    let cells_of = |row: &&SummaryRow| {
        let [median, low, high] = [row.median, row.low, row.high].map(decimals);
        cells![row.policy, row.metric, median, low, high, row.seeds, row.claim]
    };
    Table::new(&columns).with_rows(rows.iter().map(cells_of))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagetide_core::lru::PolicyName;
    use pagetide_lab::scenario::summarize;

    #[test]
    fn a_plot_for_each_metric_and_course_and_the_claims() {
        let scenario = Scenario::named("wsprotect").expect("it exists");
        let subject = PolicyName::ActiveInactive.into();
        let plays: Vec<_> = (1..=2)
            .map(|seed| scenario.play(subject, seed, &|_| true).expect("nothing stops it"))
            .collect();
        let rows = summarize(scenario, subject, &plays);
        let nr_plots = scenario.metrics.len() + plays[0].courses.len();
        let text = render(&[Played { scenario, subject, plays }], &rows).expect("it draws");
        assert_eq!(text.matches("<svg").count(), nr_plots);
        assert!(text.contains("98 0 97 0 95"), "the booted kernels' claim");
        report::assert_stands_alone(&text);
    }
}

//! The lab's report: for each scenario a plot a metric, how it went over time, and the claims.
//!
//! ```text
//!   metric   bar = median of the seeds, whisker = lowest and highest, one a subject
//!   course   a thin line a seed, in the subject's colour: the spread is seen as it is
//! ```

use crate::failure::Failure;
use crate::lab::Played;
use crate::output;
use crate::report::page;
use crate::report::plots::{DrawError, GREY, colour, label_above, mesh, svg_of};
use pagetide_lab::scenario::{Scenario, SummaryRow};
use plotters::prelude::*;
use std::fmt::Write;
use std::path::Path;

const SIZE: (u32, u32) = (520, 300);
const FOOT: &str = "\
<section><h2>How this was played</h2><p>In virtual memory: the decision code that runs for \
real, over accesses made up by the scenario as it goes, in a machine that exists only as \
counters. Nothing here depends on the computer it ran on; the same seeds give the same numbers \
anywhere. A seed decides what a scenario leaves open: frames within 1/64 of the size, where \
reading starts, how many pages a call reads, orders and popularities. Bars are medians over \
seeds, whiskers the lowest and the highest of them. Claims are what a scenario's source says \
of the same quantity.</p></section></body></html>\n";

/// Writes the report on what was played to `path`.
///
/// # Errors
/// Where the file cannot be written.
pub(crate) fn write_scenarios(
    path: &Path,
    played: &[Played],
    rows: &[SummaryRow],
) -> Result<(), Failure> {
    let text = render(played, rows).map_err(|error| Failure::on("draw the report", &*error))?;
    output::write("the report", path, &text)
}

fn render(played: &[Played], rows: &[SummaryRow]) -> Result<String, DrawError> {
    let mut subjects: Vec<String> = Vec::new();
    let mut scenarios: Vec<&Scenario> = Vec::new();
    for it in played {
        let subject = it.subject.to_string();
        if !subjects.contains(&subject) {
            subjects.push(subject);
        }
        if !scenarios.iter().any(|scenario| scenario.name == it.scenario.name) {
            scenarios.push(it.scenario);
        }
    }
    let names: Vec<&str> = subjects.iter().map(String::as_str).collect();
    let nr_seeds = played.first().map_or(0, |it| it.plays.len());
    let said = format!("{} scenarios, each played with {nr_seeds} seeds.", scenarios.len());
    let mut text = page::start("Pagetide scenarios", &said, &names);
    for scenario in scenarios {
        let of_scenario: Vec<&Played> =
            played.iter().filter(|it| it.scenario.name == scenario.name).collect();
        let its_rows: Vec<&SummaryRow> =
            rows.iter().filter(|row| row.scenario == scenario.name).collect();
        text.push_str(&section(scenario, &of_scenario, &its_rows)?);
    }
    text.push_str(FOOT);
    Ok(text)
}

fn section(
    scenario: &Scenario,
    played: &[&Played],
    rows: &[&SummaryRow],
) -> Result<String, DrawError> {
    let mut text = format!(
        "<section><h2>{}</h2><p>{}</p><p class=\"dim\">Source: {}.</p><div class=\"plots\">",
        page::escape(scenario.name),
        page::escape(scenario.story),
        page::escape(scenario.source)
    );
    for metric in scenario.metrics {
        let of_metric: Vec<&SummaryRow> =
            rows.iter().copied().filter(|row| row.metric == metric.name).collect();
        text.push_str(&page::figure(&bars(&of_metric)?, metric.name, metric.meaning));
    }
    for name in course_names(played) {
        let caption = "Step by step; a line for each seed of each subject.";
        text.push_str(&page::figure(&courses(played, name)?, name, caption));
    }
    text.push_str("</div>");
    text.push_str(&table(rows));
    text.push_str("</section>");
    Ok(text)
}

fn course_names(played: &[&Played]) -> Vec<&'static str> {
    let first = played.first().and_then(|it| it.plays.first());
    first.map_or(Vec::new(), |play| play.courses.iter().map(|course| course.name).collect())
}

/// A bar a row from zero to the median, and a whisker from low to high.
fn bars(rows: &[&SummaryRow]) -> Result<String, DrawError> {
    let top = rows.iter().map(|row| row.high).fold(0.0, f64::max);
    let top = if top > 0.0 { top * 1.14 } else { 1.0 };
    let bottom = rows.iter().map(|row| row.low).fold(0.0, f64::min) * 1.14;
    svg_of(SIZE, |area| {
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

/// A line for each seed of each subject.
fn courses(played: &[&Played], name: &str) -> Result<String, DrawError> {
    let lines: Vec<(String, &[f64])> = played
        .iter()
        .flat_map(|it| it.plays.iter().map(move |play| (it.subject.to_string(), play)))
        .flat_map(|(subject, play)| {
            let named = play.courses.iter().filter(move |course| course.name == name);
            named.map(move |course| (subject.clone(), course.values.as_slice()))
        })
        .collect();
    let right = lines.iter().map(|(_, line)| line.len()).max().unwrap_or(0).max(2) as f64;
    let top = lines.iter().flat_map(|(_, line)| line.iter().copied()).fold(1.0, f64::max);
    svg_of(SIZE, |area| {
        let mut chart = ChartBuilder::on(area)
            .margin(8)
            .x_label_area_size(34)
            .y_label_area_size(54)
            .build_cartesian_2d(0.5..right + 0.5, 0.0..top * 1.04)?;
        mesh(&mut chart)
            .x_desc("step")
            .x_label_formatter(&|step| format!("{step:.0}"))
            .x_labels(8)
            .y_labels(6)
            .draw()?;
        for (subject, line) in lines {
            let points = (1..).map(f64::from).zip(line.iter().copied());
            let style = colour(&subject).mix(0.6).stroke_width(1);
            chart.draw_series(LineSeries::new(points, style))?;
        }
        Ok(())
    })
}

fn table(rows: &[&SummaryRow]) -> String {
    let mut text = String::from(
        "<div class=\"scroll\"><table><thead><tr><th>policy</th><th>metric</th><th>median</th>\
         <th>low</th><th>high</th><th>seeds</th><th>claim</th></tr></thead><tbody>",
    );
    for row in rows {
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "<tr><td>{}</td><td>{}</td><td>{:.2}</td><td>{:.2}</td><td>{:.2}</td><td>{}</td>\
             <td>{}</td></tr>",
            page::escape(&row.policy),
            page::escape(row.metric),
            row.median,
            row.low,
            row.high,
            row.seeds,
            page::escape(row.claim)
        );
    }
    text.push_str("</tbody></table></div>");
    text
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
        for fetched in ["src=", "href=", "@import", "url("] {
            assert!(!text.contains(fetched), "the report fetches something: {fetched}");
        }
    }
}

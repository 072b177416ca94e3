//! The report on the per-CPU lists' tunings: one CPU's limit and list over time, the sum of all
//! lists, and the table, per workload.

use super::{PcpRuns, prices_line, published_line, table};
use crate::failure::Failure;
use crate::report;
use crate::report::page::{Figure, Page, heading, paragraph, remark};
use crate::report::plots::{Area, DrawError, SIZE, colour, mesh, svg};
use crate::table::escape;
use pagetide_core::page_alloc::PcpTuning;
use pagetide_lab::machine::{Costs, Sample};
use plotters::prelude::*;
use std::path::Path;

type Reading = fn(&Sample) -> u64;

pub(super) fn write(path: &Path, runs: &[PcpRuns], costs: &Costs) -> Result<(), Failure> {
    report::write(path, render(runs, costs))
}

fn render(runs: &[PcpRuns], costs: &Costs) -> Result<String, DrawError> {
    let said = "Many virtual CPUs over the page allocator as it ships, in virtual time: what each \
                tuning of the per-CPU lists makes of each workload.";
    let tunings: Vec<&str> = PcpTuning::ALL
        .into_iter()
        .filter(|tuning| runs.iter().any(|it| it.tuning == *tuning))
        .map(PcpTuning::as_str)
        .collect();
    let mut page = Page::new("Pagetide per-CPU lists", said, &tunings);
    for of_workload in runs.chunk_by(|one, other| one.workload == other.workload) {
        add_section(&mut page, of_workload)?;
    }
    let method = format!(
        "{} Only what has a price takes time; memory bandwidth, sockets and reclaim are not there. \
         The same seed gives the same numbers anywhere. Plots are of the first seed.",
        escape(&prices_line(costs))
    );
    Ok(page.finish("How this was run", &method))
}

fn add_section(page: &mut Page, runs: &[PcpRuns]) -> Result<(), DrawError> {
    let workload = runs[0].workload;
    let words = heading(workload.as_str())
        + &paragraph(&format!("{}.", workload.summary()))
        + &published_line(workload).map_or(String::new(), |figures| remark(&figures));
    let plots: [(&str, &str, Reading); 3] = [
        (
            "Limit of one CPU's list",
            "How many pages the first CPU's list may hold before a free drains it, over time. Each \
             unit up is ten times as much, here and beside.",
            |sample| u64::from(sample.high),
        ),
        (
            "Pages on that list",
            "What it did hold, looked at each 10 ms of virtual time.",
            |sample| u64::from(sample.count),
        ),
        (
            "Pages idle in all lists",
            "Memory that is free, and that other CPUs do not see. Lower is better.",
            |sample| sample.listed,
        ),
    ];
    let mut figures = Vec::new();
    for (title, caption, reading) in plots {
        let plot = svg(SIZE, |area| draw(area, runs, reading))?;
        figures.push(Figure::new(plot, title, caption));
    }
    page.section(&words, &figures, Some(&table(runs)));
    Ok(())
}

fn draw(area: &Area<'_>, runs: &[PcpRuns], value: Reading) -> Result<(), DrawError> {
    let samples = || runs.iter().flat_map(|it| &it.outcomes[0].samples);
    let end = samples().map(|sample| sample.at.as_secs()).fold(0.01, f64::max);
    let top = samples().map(|sample| value(sample) as f64).fold(1.0, f64::max);
    let mut chart = ChartBuilder::on(area)
        .margin(8)
        .margin_right(28)
        .x_label_area_size(34)
        .y_label_area_size(64)
        .build_cartesian_2d(0.0..end, (1.0..top * 1.5).log_scale())?;
    mesh(&mut chart)
        .x_labels(8)
        .y_labels(6)
        .x_label_formatter(&|seconds| format!("{seconds:.1} s"))
        .y_label_formatter(&|pages| format!("{pages:.0}"))
        .draw()?;
    for it in runs {
        let line = it.outcomes[0].samples.iter();
        let line = line.map(|sample| (sample.at.as_secs(), (value(sample) as f64).max(1.0)));
        chart.draw_series(LineSeries::new(line, colour(it.tuning.as_str()).stroke_width(1)))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagetide_lab::machine::pcp::{self, PcpWorkload};

    #[test]
    fn the_report_has_three_plots_a_workload_and_needs_nothing_else() {
        let workload = PcpWorkload::PatternA;
        let runs = [PcpTuning::Fixed, PcpTuning::Refill].map(|tuning| PcpRuns {
            workload,
            tuning,
            outcomes: pcp::run_while(workload, tuning, Costs::HOST, 1, |_| true)
                .expect("it can be built")
                .into_iter()
                .collect(),
        });
        let text = render(&runs, &Costs::HOST).expect("it draws");
        assert_eq!(text.matches("<svg").count(), 3);
        assert!(text.contains("zone_page 20") && text.contains("<td>refill</td>"));
        report::assert_stands_alone(&text);
    }
}

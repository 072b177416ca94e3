//! The report on the per-CPU lists' tunings: for each workload the limit and the list of one CPU
//! over time, what all lists hold, and the table.

use crate::failure::Failure;
use crate::lab::{PcpRuns, prices_line, published_line};
use crate::output;
use crate::report::page;
use crate::report::plots::{Area, DrawError, colour, mesh, svg_of};
use pagetide_core::page_alloc::PcpTuning;
use pagetide_lab::machine::pcp::PcpWorkload;
use pagetide_lab::machine::{Costs, Sample};
use plotters::prelude::*;
use std::fmt::Write;
use std::path::Path;

const SIZE: (u32, u32) = (520, 300);

/// What a plot shows of a sample.
type Reading = fn(&Sample) -> u64;

/// Writes the report on `runs` to `path`.
///
/// # Errors
/// Where the file cannot be written.
pub(crate) fn write_pcp(path: &Path, runs: &[PcpRuns], costs: &Costs) -> Result<(), Failure> {
    let text = render(runs, costs).map_err(|error| Failure::on("draw the report", &*error))?;
    output::write("the report", path, &text)
}

fn render(runs: &[PcpRuns], costs: &Costs) -> Result<String, DrawError> {
    let said = "Many virtual CPUs over the page allocator as it ships, in virtual time: what each \
                tuning of the per-CPU lists makes of each workload.";
    let tunings: Vec<&str> = PcpTuning::NAMES
        .into_iter()
        .filter(|name| runs.iter().any(|it| it.tuning.as_str() == *name))
        .collect();
    let mut text = page::start("Pagetide per-CPU lists", said, &tunings);
    for workload in PcpWorkload::ALL {
        let of_workload: Vec<&PcpRuns> = runs.iter().filter(|it| it.workload == workload).collect();
        if !of_workload.is_empty() {
            text.push_str(&section(workload, &of_workload)?);
        }
    }
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "<section><h2>How this was run</h2><p>{} Only what has a price takes time; memory \
         bandwidth, sockets and reclaim are not there. The same seed gives the same numbers \
         anywhere. Plots are of the first seed.</p></section></body></html>",
        page::escape(&prices_line(costs))
    );
    Ok(text)
}

fn section(workload: PcpWorkload, runs: &[&PcpRuns]) -> Result<String, DrawError> {
    let mut text =
        format!("<section><h2>{workload}</h2><p>{}.</p>", page::escape(workload.summary()));
    if let Some(said) = published_line(workload) {
        let _ = write!(text, "<p class=\"dim\">{}</p>", page::escape(&said));
    }
    text.push_str("<div class=\"plots\">");
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
            "Memory that nobody uses and that other CPUs do not see. Lower is better.",
            |sample| sample.listed,
        ),
    ];
    for (title, caption, value) in plots {
        let svg = svg_of(SIZE, |area| draw(area, runs, value))?;
        text.push_str(&page::figure(&svg, title, caption));
    }
    text.push_str("</div>");
    text.push_str(&table(runs));
    text.push_str("</section>");
    Ok(text)
}

fn draw(area: &Area<'_>, runs: &[&PcpRuns], value: Reading) -> Result<(), DrawError> {
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

fn table(runs: &[&PcpRuns]) -> String {
    let mut text = String::from("<div class=\"scroll\"><table><thead><tr>");
    for head in
        ["tuning", "GB/s", "lock wait", "alloc p99 ns", "free p99 ns", "zone pages", "idle pages"]
    {
        let _ = write!(text, "<th>{head}</th>");
    }
    text.push_str("</tr></thead><tbody>");
    for it in runs {
        let row = it.median();
        let _ = write!(
            text,
            "<tr><td>{}</td><td>{:.2}</td><td>{:.2} %</td><td>{}</td><td>{}</td><td>{}</td>\
             <td>{}</td></tr>",
            row.tuning,
            row.throughput,
            row.lock_wait_share * 100.0,
            row.alloc_p99_ns,
            row.free_p99_ns,
            row.zone_pages,
            row.idle_pages
        );
    }
    text.push_str("</tbody></table></div>");
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagetide_lab::machine::pcp;

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
        assert_eq!(text.matches("<section").count(), text.matches("</section>").count());
        assert!(text.contains("zone_page 20") && text.contains("<td>refill</td>"));
        for fetched in ["src=", "href=", "@import", "url("] {
            assert!(!text.contains(fetched), "the report fetches something: {fetched}");
        }
    }
}

//! The demo's report: per workload a specific plot, hits over time, latency, and the table.

use super::plan::Workload;
use super::row::{Outcome, Row};
use super::{plots, table};
use crate::failure::Failure;
use crate::machine;
use crate::report::page::{Figure, Page, heading, paragraph};
use crate::report::plots::DrawError;
use crate::report::{self, distinct};
use pagetide_core::units::Bytes;
use std::path::Path;

const METHOD: &str = "\
Every run is a process of its own, over files made for it and dropped from the kernel's page \
cache beforehand. <b>linux</b> is plain pread and pwrite in a memory cgroup of the same limit; \
its hits are counted with cachestat, its device reads and writes from the process's own account, \
its evictions as what left the cgroup (folios of a page or more with cgroup v1, pages with v2). \
The kernel does not account CPU time in reclaim, so that column stays empty for it. The others \
are Pagetide with the named policy. Rounds go by turns; shown is the round of the median speed. \
Loops are closed: a slow operation delays the next one.";

pub(super) fn write(path: &Path, memory: Bytes, outcomes: &[Outcome]) -> Result<(), Failure> {
    report::write(path, render(memory, outcomes))
}

fn render(memory: Bytes, outcomes: &[Outcome]) -> Result<String, DrawError> {
    let subjects = distinct(outcomes.iter().map(|outcome| outcome.row.subject.as_str()));
    let said = format!(
        "The same jobs on the same files under a memory limit of <b>{}</b>, by the kernel's page \
         cache and by Pagetide's policies.",
        machine::rounded(memory.0)
    );
    let mut page = Page::new("Pagetide demo", &said, &subjects);
    for workload in Workload::ALL {
        let of_workload: Vec<&Outcome> =
            outcomes.iter().filter(|outcome| outcome.row.workload == workload).collect();
        if !of_workload.is_empty() {
            add_section(&mut page, workload, &of_workload)?;
        }
    }
    Ok(page.finish("How this was measured", METHOD))
}

fn add_section(
    page: &mut Page,
    workload: Workload,
    outcomes: &[&Outcome],
) -> Result<(), DrawError> {
    let rows: Vec<&Row> = outcomes.iter().map(|outcome| &outcome.row).collect();
    let hits =
        Figure::new(plots::hit_timeline(outcomes)?, "Hit ratio over time", hits_caption(workload));
    let latency = Figure::new(
        plots::latency(outcomes)?,
        "Latency",
        "How long an operation took at each percentile; the axis is logarithmic. The left end is \
         hits, the right end is the worst wait of all. Lower is better.",
    );
    let words = heading(workload.name()) + &paragraph(&format!("{}.", workload.summary()));
    let figures = [own_figure(workload, &rows)?, hits, latency];
    page.section(&words, &figures, Some(&table::table(&rows)));
    Ok(())
}

fn own_figure(workload: Workload, rows: &[&Row]) -> Result<Figure, DrawError> {
    let (plot, title, caption) = match workload {
        Workload::WsChange => (
            plots::reads_until_cached(rows)?,
            "Reads until cached",
            "How often each file had to be read before a pass needed nothing from the device. Two \
             is the best there is: one read to fill, one to find. A bar to the top, marked with a \
             cross, never got there.",
        ),
        Workload::WsProtect => (
            plots::protected(rows)?,
            "What survived the stream",
            "Share of the working set still in memory after a file larger than memory was streamed \
             ten times. Higher is better.",
        ),
        Workload::ZipfScan
        | Workload::Uniform
        | Workload::Oltp
        | Workload::ZipfFit
        | Workload::ZipfBare => (
            plots::operations(rows)?,
            "Operations a second",
            "Random 4 KiB operations finished each second, cold start included. Higher is better.",
        ),
    };
    Ok(Figure::new(plot, title, caption))
}

fn hits_caption(workload: Workload) -> &'static str {
    if workload.is_timed() {
        "Share of the pages that were in memory just before they were read, stretch by stretch; \
         looked up the same way for every subject, on one read in 16."
    } else {
        "Share of the pages read for which the device had nothing to do, stretch by stretch. \
         (Readahead makes pages resident just before they are read, so sampling beforehand would \
         flatter.)"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::assert_stands_alone;
    use serde_json::json;

    fn outcome(workload: Workload, subject: &str) -> Outcome {
        let mut outcome = Outcome::skipped(workload, subject.to_owned(), "");
        outcome.row.detail = [
            ("reads_until_cached".to_owned(), json!([[2, 3, null], [2, 2, 2]])),
            ("protected_ratio".to_owned(), json!(0.75)),
        ]
        .into_iter()
        .collect();
        outcome.row.ops_per_s = Some(1234.5);
        outcome.row.max_us = Some(900.0);
        outcome.latency_curve = vec![(1.0, 0.5), (50.0, 2.0), (99.0, 80.0), (100.0, 900.0)];
        outcome.hit_timeline = vec![(0.5, 0.1), (1.0, 0.9)];
        outcome
    }

    #[test]
    fn report_has_a_plot_for_each_question_and_needs_nothing_else() {
        let outcomes: Vec<Outcome> = Workload::ALL
            .iter()
            .flat_map(|&workload| {
                [
                    outcome(workload, "mglru"),
                    Outcome::skipped(workload, "linux".into(), "no <cgroup>"),
                ]
            })
            .collect();
        let text = render(Bytes(64 << 20), &outcomes).expect("it draws");
        assert_eq!(text.matches("<svg").count(), 18);
        assert!(text.contains("no &lt;cgroup&gt;"));
        assert_stands_alone(&text);
    }

    #[test]
    fn rows_without_numbers_still_make_a_report() {
        let outcomes = [Outcome::skipped(Workload::Uniform, "linux".into(), "why")];
        assert!(render(Bytes(8 << 20), &outcomes).expect("it draws").contains("skipped: why"));
    }
}

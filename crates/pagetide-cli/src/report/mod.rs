//! The reports: one HTML file that needs nothing else, for a person.
//!
//! Problem: a table says who won, not how it went. Idea: three plots where each answers one
//! question, a sentence under each that says how to read it, and the table for those who want the
//! numbers. Text colours follow the reader's light or dark setting; series colours are mid-tones
//! that stand on both.
//!
//! ```text
//!   outcomes -> plots (SVG, plotters) --+                      demo: here
//!            -> tables and sentences ---+-> page.rs -> HTML    replay.rs, ablation.rs,
//!   rows     -> curves, bars, table ----+                      scenarios.rs, pcp.rs,
//!                                                               tiers.rs, run.rs
//! ```
//!
//! Ignored: scripts, fonts and anything else that would have to be fetched.

mod ablation;
mod arms;
mod curves;
mod page;
mod pcp;
mod plots;
mod replay;
mod run;
mod scenarios;
mod tiers;

pub(crate) use ablation::write_ablation;
pub(crate) use arms::alone as arms_alone;
pub(crate) use curves::{Curve, alone};
pub(crate) use pcp::write_pcp;
pub(crate) use replay::write_replay;
pub(crate) use run::{RunPoint, write_run};
pub(crate) use scenarios::write_scenarios;
pub(crate) use tiers::{write_tier_costs, write_tiers};

use crate::demo::row::{Outcome, Row};
use crate::demo::workload::Workload;
use crate::failure::Failure;
use crate::output;
use pagetide_core::units::Bytes;
use std::path::Path;

/// Writes the report on `outcomes` to `path`.
///
/// # Errors
/// Where the file cannot be written.
pub(crate) fn write(path: &Path, memory: Bytes, outcomes: &[Outcome]) -> Result<(), Failure> {
    let text = render(memory, outcomes)?;
    output::write("the report", path, &text)
}

fn render(memory: Bytes, outcomes: &[Outcome]) -> Result<String, Failure> {
    let subjects = subjects(outcomes);
    let mut body = page::head(memory, &subjects);
    for workload in Workload::ALL {
        let of_workload: Vec<&Outcome> =
            outcomes.iter().filter(|outcome| outcome.row.workload == workload).collect();
        if of_workload.is_empty() {
            continue;
        }
        let section = section(workload, &of_workload)
            .map_err(|error| Failure::on("draw the report", &*error))?;
        body.push_str(&section);
    }
    body.push_str(page::FOOT);
    Ok(body)
}

/// Each subject once, in the order of the rows.
fn subjects(outcomes: &[Outcome]) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for outcome in outcomes {
        if !names.contains(&outcome.row.subject.as_str()) {
            names.push(&outcome.row.subject);
        }
    }
    names
}

fn section(workload: Workload, outcomes: &[&Outcome]) -> Result<String, plots::DrawError> {
    let rows: Vec<&Row> = outcomes.iter().map(|outcome| &outcome.row).collect();
    let mut text = page::section_start(workload);
    text.push_str("<div class=\"plots\">");
    text.push_str(&own_figure(workload, &rows)?);
    text.push_str(&page::figure(
        &plots::hit_course(outcomes)?,
        "Hit ratio over time",
        hits_caption(workload),
    ));
    text.push_str(&page::figure(
        &plots::latency(outcomes)?,
        "Latency",
        "How long an operation took at each percentile; the axis is logarithmic. The left end is \
         hits, the right end is the worst wait anyone had. Lower is better.",
    ));
    text.push_str("</div>");
    text.push_str(&page::table(&rows));
    text.push_str("</section>");
    Ok(text)
}

/// The plot that answers what this workload asks.
fn own_figure(workload: Workload, rows: &[&Row]) -> Result<String, plots::DrawError> {
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
    Ok(page::figure(&plot, title, caption))
}

fn hits_caption(workload: Workload) -> &'static str {
    if workload.is_timed() {
        "Share of the pages that were in memory just before they were read, stretch by stretch; \
         looked up the same way for every subject, on one read in 16."
    } else {
        "Share of the pages read for which the device had nothing to do, stretch by stretch. \
         (Readahead makes pages resident just before they are read, so looking beforehand would \
         flatter.)"
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::row::Outcome;
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
        outcome.hit_course = vec![(0.5, 0.1), (1.0, 0.9)];
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
        assert_eq!(text.matches("<section").count(), text.matches("</section>").count());
        assert!(text.contains("no &lt;cgroup&gt;"));
        for fetched in ["src=", "href=", "@import", "url("] {
            assert!(!text.contains(fetched), "the report fetches something: {fetched}");
        }
    }

    #[test]
    fn rows_without_numbers_still_make_a_report() {
        let outcomes = [Outcome::skipped(Workload::Uniform, "linux".into(), "why")];
        assert!(render(Bytes(8 << 20), &outcomes).expect("it draws").contains("skipped: why"));
    }
}

//! The replay's report: curves of miss ratio by size and policy, and the table.

use super::explain::Explained;
use super::{selection, table};
use crate::failure::Failure;
use crate::machine;
use crate::readahead;
use crate::report;
use crate::report::curves::{self, Curve};
use crate::report::page::{Figure, Page, heading};
use crate::report::plots::DrawError;
use crate::table::escape;
use pagetide_core::units::Bytes;
use pagetide_lab::judge::opt;
use pagetide_lab::replay::ReplayRow;
use pagetide_lab::trace::{DenseTrace, ReadaheadUse};
use std::path::Path;

const CAPTION: &str = "How many accesses miss at each size of memory; lower is better. All \
                       curves answer the same question. \
                       Where a curve falls steeply, a little more memory is worth much; where it \
                       is flat, more is wasted.";
const METHOD: &str = "The trace was replayed, access by \
access, through the decision code that runs for real, in virtual time: one thread, frames of \
4 KiB, a store that answers in a fixed time. Room is made by the access that needs it, at a \
group's limit of so many frames; with --reclaim kernel-group the limit also pays for what a \
kernel charges a group besides pages of files; with --reclaim background, and for the record of a \
run that had one, a thread beside the accesses makes room, between the watermarks of a machine of \
so many. <b>opt</b> is Belady's \
optimum, which knows the future and bounds them all: it answers the same question over the same \
accesses. <b>read</b> is what the store gave: a page for each miss, and what came unasked. \
Refaults are misses on pages that \
eviction remembered; activations are those taken for hot at once; policies without that memory \
have neither. Seconds are this machine's, with as many replays side by side as it has \
cores.";

/// Writes the report on `rows` of `trace`, read from `file`.
pub(super) fn write(
    path: &Path,
    file: &Path,
    trace: &DenseTrace,
    readahead_use: ReadaheadUse,
    rows: &[ReplayRow],
    explained: &[Explained],
) -> Result<(), Failure> {
    report::write(path, render(file, trace, readahead_use, rows, explained))
}

fn render(
    file: &Path,
    trace: &DenseTrace,
    readahead_use: ReadaheadUse,
    rows: &[ReplayRow],
    explained: &[Explained],
) -> Result<String, DrawError> {
    let curves = curves_of(rows);
    let policies: Vec<&str> = curves.iter().map(|curve| curve.policy).collect();
    let nr_pages = opt::count_pages(trace);
    let said = format!(
        "<b>{}</b>: {} accesses of {} pages ({}). Counted are {}.",
        escape(&file.display().to_string()),
        trace.nr_accesses(),
        nr_pages,
        machine::rounded(Bytes::from_pages(nr_pages).0),
        readahead::describe(readahead_use),
    );
    let plot = Figure::new(curves::in_report(&curves)?, "Miss ratio by size", CAPTION);
    let mut page = Page::new("Pagetide replay", &said, &policies);
    page.section("", &[plot], Some(&table(rows)));
    for one in explained {
        let (title, figure) = selection::figure(one)?;
        page.section(&heading(&title), &[figure], None);
    }
    Ok(page.finish("How this was counted", METHOD))
}

/// Keeps the order of the rows.
fn curves_of(rows: &[ReplayRow]) -> Vec<Curve<'_>> {
    let mut curves: Vec<Curve<'_>> = Vec::new();
    for row in rows {
        let point = (row.frames, row.miss_ratio);
        match curves.iter_mut().find(|curve| curve.policy == row.policy) {
            Some(curve) => curve.points.push(point),
            None => {
                curves.push(Curve { policy: row.policy, points: vec![point], errors: Vec::new() })
            }
        }
    }
    for curve in &mut curves {
        curve.points.sort_by_key(|point| point.0);
    }
    curves
}

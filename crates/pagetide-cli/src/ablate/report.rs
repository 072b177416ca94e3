//! The ablation's report: a horizontal bar per mechanism, and the table.

use super::{AblationRow, name_of, table};
use crate::failure::Failure;
use crate::machine;
use crate::readahead;
use crate::report::page::{Figure, Page, heading};
use crate::report::plots::{DrawError, GREY, TEXT_PIXELS, colour, mesh, svg};
use crate::report::{self, distinct};
use crate::table::escape;
use pagetide_core::units::Bytes;
use pagetide_lab::judge::opt;
use pagetide_lab::trace::{DenseTrace, ReadaheadUse};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::path::Path;

const WIDTH: u32 = 640;
const BAR_PIXELS: u32 = 24;
const CAPTION: &str = "Percentage points of all accesses that miss more when the mechanism alone \
                       is flipped. A bar to the right is what the mechanism saves, if it was on; a \
                       bar to the left is what it costs.";
const METHOD: &str = "The trace was replayed with every mechanism as it is, then once more with \
each one flipped. Pairs of mechanisms may stand in for each other: two bars of nothing do not say \
that both can go. CPU time is the replaying thread's own.";

/// Writes the report on `rows` of `trace`, read from `file`.
pub(super) fn write(
    path: &Path,
    file: &Path,
    trace: &DenseTrace,
    readahead_use: ReadaheadUse,
    rows: &[AblationRow],
) -> Result<(), Failure> {
    report::write(path, render(file, trace, readahead_use, rows))
}

fn render(
    file: &Path,
    trace: &DenseTrace,
    readahead_use: ReadaheadUse,
    rows: &[AblationRow],
) -> Result<String, DrawError> {
    let said = format!(
        "<b>{}</b>: {} accesses of {} pages. Counted are {}.",
        escape(&file.display().to_string()),
        trace.nr_accesses(),
        opt::count_pages(trace),
        readahead::describe(readahead_use),
    );
    let policies = distinct(rows.iter().map(|row| row.policy));
    let mut page = Page::new("Pagetide ablation", &said, &policies);
    for group in rows.chunk_by(|row, next| (row.policy, row.frames) == (next.policy, next.frames)) {
        let memory = machine::rounded(Bytes::from_pages(group[0].frames.into()).0);
        let title = heading(&format!("{}, {memory}", group[0].policy));
        let figure = Figure::new(bars(&group[1..])?, "What each mechanism is worth", CAPTION);
        page.section(&title, &[figure], Some(&table(group)));
    }
    Ok(page.finish("How this was counted", METHOD))
}

/// Draws a bar per row, the first on top.
fn bars(rows: &[AblationRow]) -> Result<String, DrawError> {
    let high = rows.iter().map(|row| row.points_more).fold(0.0, f64::max);
    let low = rows.iter().map(|row| row.points_more).fold(0.0, f64::min);
    let margin = ((high - low) * 0.16).max(0.05);
    let nr_rows = rows.len().max(1) as u32;
    svg((WIDTH, nr_rows * BAR_PIXELS + 60), |area| {
        let mut chart = ChartBuilder::on(area)
            .margin(8)
            .x_label_area_size(30)
            .y_label_area_size(190)
            .build_cartesian_2d(low - margin..high + margin, 0.0..f64::from(nr_rows))?;
        mesh(&mut chart).disable_y_mesh().y_labels(0).draw()?;
        let style = ("sans-serif", TEXT_PIXELS).into_text_style(area).color(&GREY);
        for (row, below) in rows.iter().rev().zip((0..).map(f64::from)) {
            let bar = [(0.0, below + 0.15), (row.points_more, below + 0.85)];
            chart.draw_series([Rectangle::new(bar, colour(row.policy).filled())])?;
            let (left, middle) = chart.backend_coord(&(low - margin, below + 0.5));
            let named = style.pos(Pos::new(HPos::Right, VPos::Center));
            area.draw_text(&name_of(row), &named, (left - 6, middle))?;
            let (end, _) = chart.backend_coord(&(row.points_more.max(0.0), below + 0.5));
            let valued = style.pos(Pos::new(HPos::Left, VPos::Center));
            area.draw_text(&format!("{:+.2}", row.points_more), &valued, (end + 4, middle))?;
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(mechanism: Option<&'static str>, points_more: f64) -> AblationRow {
        AblationRow {
            policy: "mglru",
            frames: 100,
            memory_bytes: 100 << 12,
            mechanism,
            is_on: mechanism.map(|_| false),
            readahead: ReadaheadUse::None,
            misses: 10,
            misses_more: 3,
            points_more,
            device_read_bytes: 10 << 12,
            evictions: 0,
            cpu_ns_per_eviction: None,
            cpu_ns_per_eviction_more: None,
            cpu_ns_per_access: 1.0,
            cpu_ns_per_access_more: 0.5,
        }
    }

    #[test]
    fn a_bar_for_each_mechanism_and_none_for_the_policy_as_it_is() {
        let rows = [row(None, 0.0), row(Some("tiers"), 1.25), row(Some("aging"), -0.5)];
        let picture = bars(&rows[1..]).expect("drawn");
        assert!(picture.contains("tiers off") && picture.contains("+1.25"));
        assert!(picture.contains("aging off") && picture.contains("-0.50"));
        let text = render(Path::new("x"), &DenseTrace::default(), ReadaheadUse::None, &rows)
            .expect("rendered");
        assert_eq!(text.matches("<figure>").count(), 1);
        assert!(text.contains("as it is"));
    }
}

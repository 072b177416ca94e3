//! The report on a run: courses over time, and the estimates for other memory sizes.
//!
//! ```text
//!   points --differences--> hit ratio, refaults a second, device bytes a second   lines
//!          --unchanged----> resident memory by generation                         areas
//!   sizing ---------------> misses per access by size                             curves
//! ```

use super::watch::RunPoint;
use crate::failure::Failure;
use crate::machine;
use crate::report;
use crate::report::curves::{self, Curve};
use crate::report::page::{Figure, Page};
use crate::report::plots::{
    Axes, DrawError, Line, SIZE, colour, draw_lines, lines, svg, thousands,
};
use crate::table::escape;
use pagetide::{CacheStats, Estimate, Sizing};
use pagetide_core::units::{Bytes, PAGE_BYTES};
use pagetide_lab::curve::sizes;
use plotters::prelude::*;
use std::path::Path;

const METHOD: &str = "By the page cache itself, looked \
at several times a second. Rates are between two looks. Other sizes are estimated from a sample of \
the pages, whose uses were followed in LRU order: the curve is LRU's, drawn through what was \
measured at the size there was, readahead included. Bars are one standard error, from the sample; \
how unlike LRU the policy is, and how unlike itself readahead at another size, is not in them. For \
what another policy would have done, record the run and use <code>pagetide \
replay</code>.";

pub(super) fn write(
    path: &Path,
    command: &str,
    stats: &CacheStats,
    points: &[RunPoint],
) -> Result<(), Failure> {
    report::write(path, render(command, stats, points))
}

fn render(command: &str, stats: &CacheStats, points: &[RunPoint]) -> Result<String, DrawError> {
    let policy = stats.policy.as_str();
    let said = format!(
        "<code>{}</code> within {}: {} accesses, {:.1} % of them hits, {} read, {} written, \
         resident at most {}.",
        escape(command),
        machine::rounded(stats.memory_bytes),
        stats.accesses,
        stats.hit_ratio() * 100.0,
        machine::rounded(stats.device_read_bytes),
        machine::rounded(stats.device_write_bytes),
        machine::rounded(stats.resident_bytes_max.max(stats.resident_bytes)),
    );
    let mut page = Page::new("Pagetide run", &said, &[policy, READ, WRITTEN]);
    let figures = [
        (hit_ratio(policy, points)?, "Hit ratio over time", HIT_CAPTION),
        (refaults(policy, points)?, "Refaults over time", REFAULT_CAPTION),
        (resident(points)?, "Resident memory over time", RESIDENT_CAPTION),
        (device(points)?, "Device over time", DEVICE_CAPTION),
        (sizing(policy, &stats.sizing())?, "Misses by size of memory", SIZING_CAPTION),
    ];
    page.section("", &figures.map(|(svg, title, caption)| Figure::new(svg, title, caption)), None);
    Ok(page.finish("How this was measured", METHOD))
}

const READ: &str = "read";
const WRITTEN: &str = "written";
const HIT_CAPTION: &str = "Share of the pages wanted that were in memory, between two looks. It \
                           begins low: nothing is in memory yet.";
const REFAULT_CAPTION: &str = "Misses a second on pages that had been evicted not long before. \
                               Where this stays high, memory is too small, or the policy keeps the \
                               wrong pages.";
const RESIDENT_CAPTION: &str = "Memory in use. Where the policy has generations, each is a band: \
                                the oldest, which goes first, at the bottom.";
const DEVICE_CAPTION: &str = "Bytes read from and written to the device each second.";
const SIZING_CAPTION: &str = "What would have been missed with other sizes of memory, estimated; \
                              bars are one standard error. \
                              Where a curve falls steeply, a little more memory is worth much; \
                              where it is flat, more is wasted.";

/// Computes `rate` at the time of the later point.
fn between(points: &[RunPoint], rate: impl Fn(&RunPoint, &RunPoint) -> f64) -> Vec<(f64, f64)> {
    let pairs = points.iter().zip(points.iter().skip(1));
    pairs.map(|(before, now)| (now.seconds, rate(before, now))).collect()
}

fn rates(points: &[RunPoint], counter: fn(&RunPoint) -> u64) -> Vec<(f64, f64)> {
    between(points, |before, now| {
        let more = counter(now).saturating_sub(counter(before));
        more as f64 / (now.seconds - before.seconds).max(1e-3)
    })
}

fn hit_ratio(policy: &str, points: &[RunPoint]) -> Result<String, DrawError> {
    // Without accesses there is no ratio.
    let pairs = points.iter().zip(points.iter().skip(1));
    let busy = pairs.filter(|(before, now)| now.accesses > before.accesses);
    let ratio = |(before, now): (&RunPoint, &RunPoint)| {
        let hits = now.hits.saturating_sub(before.hits) as f64;
        (now.seconds, hits / (now.accesses - before.accesses) as f64)
    };
    let line = Line::new(policy, busy.map(ratio).collect());
    over_time(vec![line], 1.0, &|ratio| format!("{:.0} %", ratio * 100.0))
}

fn refaults(policy: &str, points: &[RunPoint]) -> Result<String, DrawError> {
    over_time(vec![Line::new(policy, rates(points, |it| it.refaults))], 1.0, &thousands)
}

fn device(points: &[RunPoint]) -> Result<String, DrawError> {
    let read = Line::new(READ, rates(points, |it| it.read_bytes));
    let written = Line::new(WRITTEN, rates(points, |it| it.write_bytes));
    over_time(vec![read, written], 4096.0, &|bytes| machine::rounded(bytes as u64))
}

fn sizing(policy: &str, sizing: &Sizing) -> Result<String, DrawError> {
    let frames = u32::try_from(sizing.memory().whole_pages()).unwrap_or(u32::MAX / 4);
    let sizes = sizes((frames / 8).max(1), frames.saturating_mul(4).max(1), 24);
    let estimates: Vec<Estimate> =
        sizes.iter().map(|&frames| sizing.estimate(Bytes::from_pages(frames.into()))).collect();
    let ratios = estimates.iter().map(|estimate| 1.0 - estimate.value);
    curves::in_report(&[Curve {
        policy,
        points: sizes.iter().copied().zip(ratios).collect(),
        errors: estimates.iter().map(|estimate| estimate.error).collect(),
    }])
}

/// Draws the axis from zero up to `at_least` or more.
fn over_time(
    all: Vec<Line>,
    at_least: f64,
    tick: &dyn Fn(f64) -> String,
) -> Result<String, DrawError> {
    let points = || all.iter().flat_map(|line| &line.points);
    let right = points().map(|point| point.0).fold(0.1, f64::max);
    let top = points().map(|point| point.1).fold(at_least, f64::max);
    lines(&Axes::over_seconds(right, top, tick), &all)
}

/// Draws stacked bands of generations, or all resident memory without generations.
fn resident(points: &[RunPoint]) -> Result<String, DrawError> {
    let right = points.iter().map(|point| point.seconds).fold(0.1, f64::max);
    let top = points.iter().map(|point| point.resident_bytes as f64).fold(4096.0, f64::max);
    let tick = |bytes: f64| machine::rounded(bytes as u64);
    svg(SIZE, |area| {
        let mut chart = Axes::over_seconds(right, top, &tick).draw(area)?;
        let all = points.iter().map(|point| (point.seconds, point.resident_bytes as f64));
        let nr_bands = points.iter().map(|point| point.generations.len()).max().unwrap_or(0);
        // Lower bands are drawn over taller bands.
        for depth in (0..nr_bands).rev() {
            let reach = points.iter().map(|point| (point.seconds, up_to(point, depth)));
            chart.draw_series([band(reach, right, BANDS[depth % BANDS.len()])])?;
        }
        if nr_bands == 0 {
            chart.draw_series([band(all.clone(), right, BANDS[0])])?;
        }
        let style = colour("fixed").stroke_width(1);
        draw_lines(&mut chart, &[Line { points: all.collect(), style, has_dots: false }])
    })
}

/// Colours, oldest generation first.
const BANDS: [RGBColor; 4] = [
    RGBColor(0x2a, 0x5d, 0x8f),
    RGBColor(0x3b, 0x82, 0xc4),
    RGBColor(0x7f, 0xb0, 0xde),
    RGBColor(0xb5, 0xd3, 0xee),
];

/// Bytes of the oldest `depth + 1` generations.
fn up_to(point: &RunPoint, depth: usize) -> f64 {
    let pages: u64 = point.generations.iter().take(depth + 1).map(|one| one.1).sum();
    pages as f64 * PAGE_BYTES as f64
}

/// Returns the area under a line.
fn band(
    line: impl Iterator<Item = (f64, f64)>,
    right: f64,
    shade: RGBColor,
) -> Polygon<(f64, f64)> {
    let ends = [(right, 0.0), (0.0, 0.0)];
    Polygon::new(line.chain(ends).collect::<Vec<_>>(), shade.filled())
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagetide::PageCache;

    fn stats() -> CacheStats {
        let builder = PageCache::builder().memory(Bytes(1 << 20)).background(false);
        builder.build().expect("a small cache").stats()
    }

    fn point(step: u64) -> RunPoint {
        RunPoint {
            seconds: step as f64 / 20.0,
            accesses: step * 100,
            hits: step * 60,
            refaults: step,
            read_bytes: step << 20,
            write_bytes: step << 12,
            resident_bytes: step * 4096 * 7,
            generations: vec![(step / 3, 3 * step), (step / 3 + 1, 4 * step)],
        }
    }

    #[test]
    fn a_report_has_five_plots_and_needs_nothing_else() {
        let points: Vec<RunPoint> = (0..30).map(point).collect();
        let text = render("fio <job>", &stats(), &points).expect("it draws");
        assert_eq!(text.matches("<svg").count(), 5);
        assert!(text.contains("fio &lt;job&gt;") && text.contains("60 %"));
        report::assert_stands_alone(&text);
    }

    #[test]
    fn a_run_that_did_nothing_is_drawn() {
        for points in [vec![], vec![RunPoint::default(); 2]] {
            let text = render("true", &stats(), &points).expect("it draws");
            assert_eq!(text.matches("<svg").count(), 5);
        }
    }

    #[test]
    fn rates_are_between_two_looks() {
        let mut points: Vec<RunPoint> = (0..3).map(point).collect();
        points[2].seconds = 0.25;
        assert_eq!(rates(&points, |it| it.refaults), [(0.05, 20.0), (0.25, 5.0)]);
        assert_eq!(up_to(&points[2], 0), 6.0 * 4096.0);
        assert_eq!(up_to(&points[2], 3), 14.0 * 4096.0);
    }
}

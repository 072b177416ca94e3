//! The report on a run: how it went over time, and what other sizes of memory would have done.
//!
//! ```text
//!   points --differences--> hit ratio, refaults a second, device bytes a second   lines
//!          --as they are--> resident by generation                                areas
//!   sizing ---------------> misses per access by size                             curves
//! ```
//!
//! Ignored: which file it was, and which process.

use crate::failure::Failure;
use crate::machine;
use crate::output;
use crate::report::curves::{self, Curve};
use crate::report::page;
use crate::report::plots::{Area, DrawError, TEXT_PIXELS, colour, mesh, svg};
use pagetide::{CacheStats, Estimate, Sizing};
use pagetide_core::units::{Bytes, PAGE_BYTES};
use pagetide_lab::curve::sizes;
use plotters::prelude::*;
use std::path::Path;

/// What was seen at one moment: counters since the start, and what is resident.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RunPoint {
    pub(crate) seconds: f64,
    pub(crate) accesses: u64,
    pub(crate) hits: u64,
    pub(crate) refaults: u64,
    pub(crate) read_bytes: u64,
    pub(crate) write_bytes: u64,
    pub(crate) resident_bytes: u64,
    /// Sequence number and pages, oldest first; none where the policy has no generations.
    pub(crate) generations: Vec<(u64, u64)>,
}

const FOOT: &str = "<section><h2>How this was measured</h2><p>By the page cache itself, looked \
at several times a second. Rates are between two looks. Other sizes are estimated from a sample of \
the pages, whose uses were followed in LRU order: the curve is LRU's, drawn through what was \
measured at the size there was, readahead included. Bars are one standard error, from the sample; \
how unlike LRU the policy is, and how unlike itself readahead at another size, is not in them. For \
what another policy would have done, record the run and use <code>pagetide \
replay</code>.</p></section></body></html>
";

/// Writes the report on a run of `command` to `path`.
///
/// # Errors
/// Where the file cannot be written.
pub(crate) fn write_run(
    path: &Path,
    command: &str,
    stats: &CacheStats,
    points: &[RunPoint],
) -> Result<(), Failure> {
    let text =
        render(command, stats, points).map_err(|error| Failure::on("draw the report", &*error))?;
    output::write("the report", path, &text)
}

fn render(command: &str, stats: &CacheStats, points: &[RunPoint]) -> Result<String, DrawError> {
    let policy = stats.policy.as_str();
    let said = format!(
        "<code>{}</code> within {}: {} accesses, {:.1} % of them hits, {} read, {} written, \
         resident at most {}.",
        page::escape(command),
        machine::rounded(stats.memory_bytes),
        stats.accesses,
        stats.hit_ratio() * 100.0,
        machine::rounded(stats.device_read_bytes),
        machine::rounded(stats.device_write_bytes),
        machine::rounded(stats.resident_bytes_max.max(stats.resident_bytes)),
    );
    let mut text = page::start("Pagetide run", &said, &[policy, READ, WRITTEN]);
    text.push_str("<section><div class=\"plots\">");
    for (plot, title, caption) in [
        (hit_ratio(policy, points)?, "Hit ratio over time", HIT_CAPTION),
        (refaults(policy, points)?, "Refaults over time", REFAULT_CAPTION),
        (resident(points)?, "Resident memory over time", RESIDENT_CAPTION),
        (device(points)?, "Device over time", DEVICE_CAPTION),
        (sizing(policy, &stats.sizing())?, "Misses by size of memory", SIZING_CAPTION),
    ] {
        text.push_str(&page::figure(&plot, title, caption));
    }
    text.push_str("</div></section>");
    text.push_str(FOOT);
    Ok(text)
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

type Line<'a> = (&'a str, Vec<(f64, f64)>);

/// What `rate` makes of each two neighbours, at the later one's time.
fn between(points: &[RunPoint], rate: impl Fn(&RunPoint, &RunPoint) -> f64) -> Vec<(f64, f64)> {
    let pairs = points.iter().zip(points.iter().skip(1));
    pairs.map(|(before, now)| (now.seconds, rate(before, now))).collect()
}

fn a_second(before: (f64, u64), now: (f64, u64)) -> f64 {
    now.1.saturating_sub(before.1) as f64 / (now.0 - before.0).max(1e-3)
}

fn hit_ratio(policy: &str, points: &[RunPoint]) -> Result<String, DrawError> {
    // While nothing is asked for there is no ratio.
    let pairs = points.iter().zip(points.iter().skip(1));
    let busy = pairs.filter(|(before, now)| now.accesses > before.accesses);
    let ratio = |(before, now): (&RunPoint, &RunPoint)| {
        let hits = now.hits.saturating_sub(before.hits) as f64;
        (now.seconds, hits / (now.accesses - before.accesses) as f64)
    };
    let percent = |ratio: f64| format!("{:.0} %", ratio * 100.0);
    lines(&[(policy, busy.map(ratio).collect())], 1.0, percent)
}

fn refaults(policy: &str, points: &[RunPoint]) -> Result<String, DrawError> {
    let rate = between(points, |before, now| {
        a_second((before.seconds, before.refaults), (now.seconds, now.refaults))
    });
    lines(&[(policy, rate)], 1.0, count)
}

fn device(points: &[RunPoint]) -> Result<String, DrawError> {
    let read = between(points, |before, now| {
        a_second((before.seconds, before.read_bytes), (now.seconds, now.read_bytes))
    });
    let written = between(points, |before, now| {
        a_second((before.seconds, before.write_bytes), (now.seconds, now.write_bytes))
    });
    lines(&[(READ, read), (WRITTEN, written)], 4096.0, |bytes| machine::rounded(bytes as u64))
}

fn sizing(policy: &str, sizing: &Sizing) -> Result<String, DrawError> {
    let frames = u32::try_from(sizing.memory().whole_pages()).unwrap_or(u32::MAX / 4);
    let sizes = sizes((frames / 8).max(1), frames.saturating_mul(4).max(1), 24);
    let told: Vec<Estimate> =
        sizes.iter().map(|&frames| sizing.estimate(Bytes::from_pages(frames.into()))).collect();
    let ratios = told.iter().map(|estimate| 1.0 - estimate.value);
    curves::in_report(&[Curve {
        policy,
        points: sizes.iter().copied().zip(ratios).collect(),
        errors: told.iter().map(|estimate| estimate.error).collect(),
    }])
}

fn count(value: f64) -> String {
    if value >= 10_000.0 { format!("{:.0}k", value / 1000.0) } else { format!("{value:.0}") }
}

/// Lines over seconds, from zero up to `at_least` or more.
fn lines(
    lines: &[Line<'_>],
    at_least: f64,
    tick: impl Fn(f64) -> String,
) -> Result<String, DrawError> {
    let points = || lines.iter().flat_map(|line| &line.1);
    let right = points().map(|point| point.0).fold(0.1, f64::max);
    let top = points().map(|point| point.1).fold(at_least, f64::max);
    svg(|area| {
        let mut chart = over_time(area, right, top, &tick)?;
        for (name, points) in lines {
            let style = colour(name).stroke_width(2);
            chart.draw_series(LineSeries::new(points.iter().copied(), style))?;
        }
        Ok(())
    })
}

/// Bands of generations on top of each other, or all that is resident where there are none.
fn resident(points: &[RunPoint]) -> Result<String, DrawError> {
    let right = points.iter().map(|point| point.seconds).fold(0.1, f64::max);
    let top = points.iter().map(|point| point.resident_bytes as f64).fold(4096.0, f64::max);
    svg(|area| {
        let mut chart = over_time(area, right, top, &|bytes| machine::rounded(bytes as u64))?;
        let all = points.iter().map(|point| (point.seconds, point.resident_bytes as f64));
        let nr_bands = points.iter().map(|point| point.generations.len()).max().unwrap_or(0);
        // The higher reaches are drawn first, and the lower ones over them.
        for depth in (0..nr_bands).rev() {
            let reach = points.iter().map(|point| (point.seconds, up_to(point, depth)));
            chart.draw_series([band(reach, right, BANDS[depth % BANDS.len()])])?;
        }
        if nr_bands == 0 {
            chart.draw_series([band(all.clone(), right, BANDS[0])])?;
        }
        let line = colour("fixed").stroke_width(1);
        chart.draw_series(LineSeries::new(all, line))?;
        Ok(())
    })
}

/// Oldest first.
const BANDS: [RGBColor; 4] = [
    RGBColor(0x2a, 0x5d, 0x8f),
    RGBColor(0x3b, 0x82, 0xc4),
    RGBColor(0x7f, 0xb0, 0xde),
    RGBColor(0xb5, 0xd3, 0xee),
];

/// Bytes of the oldest `depth + 1` generations of that moment.
fn up_to(point: &RunPoint, depth: usize) -> f64 {
    let pages: u64 = point.generations.iter().take(depth + 1).map(|one| one.1).sum();
    pages as f64 * PAGE_BYTES as f64
}

/// What lies under a line.
fn band(
    line: impl Iterator<Item = (f64, f64)>,
    right: f64,
    shade: RGBColor,
) -> Polygon<(f64, f64)> {
    let ends = [(right, 0.0), (0.0, 0.0)];
    Polygon::new(line.chain(ends).collect::<Vec<_>>(), shade.filled())
}

type TimeChart<'a, 'b> = ChartContext<
    'a,
    SVGBackend<'b>,
    Cartesian2d<plotters::coord::types::RangedCoordf64, plotters::coord::types::RangedCoordf64>,
>;

/// Axes: seconds up to `right`, and from zero to `top` what `tick` has a word for.
fn over_time<'a, 'b>(
    area: &'a Area<'b>,
    right: f64,
    top: f64,
    tick: &dyn Fn(f64) -> String,
) -> Result<TimeChart<'a, 'b>, DrawError> {
    let mut chart = ChartBuilder::on(area)
        .margin(8)
        .x_label_area_size(34)
        .y_label_area_size(5 * TEXT_PIXELS)
        .build_cartesian_2d(0.0..right, 0.0..top * 1.03)?;
    mesh(&mut chart)
        .x_desc("seconds")
        .x_labels(6)
        .y_labels(6)
        .y_label_formatter(&|value| tick(*value))
        .draw()?;
    Ok(chart)
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
        for fetched in ["src=", "href=", "@import", "url("] {
            assert!(!text.contains(fetched), "the report fetches something: {fetched}");
        }
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
        let rates = between(&points, |before, now| {
            a_second((before.seconds, before.refaults), (now.seconds, now.refaults))
        });
        assert_eq!(rates, [(0.05, 20.0), (0.25, 5.0)]);
        assert_eq!(up_to(&points[2], 0), 6.0 * 4096.0);
        assert_eq!(up_to(&points[2], 3), 14.0 * 4096.0);
    }
}

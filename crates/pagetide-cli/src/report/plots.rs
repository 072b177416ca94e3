//! The report's plots, as SVG text.
//!
//! Each function answers one question and returns one `<svg>`. Lines for courses, bars for
//! comparisons; a legend stands once at the top of the page, so that plots stay small. Grid lines
//! are half-transparent grey and nothing paints a background: both colour schemes show through.

use crate::demo::row::{Outcome, Row};
use plotters::chart::MeshStyle;
use plotters::coord::Shift;
use plotters::coord::ranged1d::ValueFormatter;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// Why a plot could not be drawn.
pub(super) type DrawError = Box<dyn std::error::Error>;

const SIZE: (u32, u32) = (520, 300);
pub(super) const GREY: RGBColor = RGBColor(128, 134, 144);
pub(super) const TEXT_PIXELS: u32 = 13;

/// The colour of a subject, everywhere in the report.
pub(super) fn colour(subject: &str) -> RGBColor {
    match subject {
        "linux" => RGBColor(0xe0, 0x7b, 0x39),
        "lru" => RGBColor(0x8a, 0x8f, 0x98),
        "active-inactive" => RGBColor(0x3b, 0x82, 0xc4),
        "pagetide" => RGBColor(0xe0, 0xa8, 0x00),
        "mglru" => RGBColor(0x2a, 0x9d, 0x6f),
        "fifo" => RGBColor(0xb0, 0x5c, 0xc6),
        "clock" => RGBColor(0xd1, 0x49, 0x5b),
        "opt" => RGBColor(0x6d, 0x59, 0xc9),
        "s3fifo" => RGBColor(0x17, 0xa2, 0xb8),
        "sieve" => RGBColor(0x9c, 0x6b, 0x3f),
        "arc" => RGBColor(0xe3, 0x6f, 0xa8),
        "lirs" => RGBColor(0x7f, 0x9f, 0x2f),
        "2q" => RGBColor(0x4c, 0x6e, 0x91),
        "fixed" => RGBColor(0x8a, 0x8f, 0x98),
        "depth" => RGBColor(0xe0, 0x7b, 0x39),
        "refill" => RGBColor(0x3b, 0x82, 0xc4),
        "adaptive" => RGBColor(0x2a, 0x9d, 0x6f),
        "w-tinylfu" => RGBColor(0x5f, 0x9e, 0x7f),
        _ => colour_by_name(subject),
    }
}

/// A mid-tone of its own for any other name: a policy with mechanisms turned, or a new one.
fn colour_by_name(name: &str) -> RGBColor {
    // FNV-1a: neighbouring names end far apart.
    let hash = name
        .bytes()
        .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    let hue = f64::from(hash >> 8) / f64::from(1_u32 << 24);
    let (red, green, blue) = HSLColor(hue, 0.5, 0.47).to_backend_color().rgb;
    RGBColor(red, green, blue)
}

/// The same as CSS writes it.
pub(super) fn css_colour(subject: &str) -> String {
    let RGBColor(red, green, blue) = colour(subject);
    format!("#{red:02x}{green:02x}{blue:02x}")
}

/// Hit ratio over time, a line per subject.
pub(super) fn hit_course(outcomes: &[&Outcome]) -> Result<String, DrawError> {
    let end = outcomes.iter().filter_map(|outcome| outcome.hit_course.last()).map(|point| point.0);
    let seconds_max = end.fold(0.1, f64::max);
    svg(|area| {
        let mut chart = ChartBuilder::on(area)
            .margin(8)
            .x_label_area_size(34)
            .y_label_area_size(46)
            .build_cartesian_2d(0.0..seconds_max, 0.0..1.03)?;
        mesh(&mut chart)
            .x_desc("seconds")
            .y_label_formatter(&|ratio| format!("{:.0} %", ratio * 100.0))
            .y_labels(6)
            .x_labels(6)
            .draw()?;
        for outcome in outcomes {
            let style = colour(&outcome.row.subject).stroke_width(2);
            chart.draw_series(LineSeries::new(outcome.hit_course.iter().copied(), style))?;
        }
        Ok(())
    })
}

/// Latency at each percentile, a line per subject, on a logarithmic axis.
pub(super) fn latency(outcomes: &[&Outcome]) -> Result<String, DrawError> {
    let values = || outcomes.iter().flat_map(|outcome| &outcome.latency_curve).map(|point| point.1);
    let (low, high) =
        (values().fold(f64::MAX, f64::min).clamp(0.05, 1e6), values().fold(1.0, f64::max));
    let longest =
        outcomes.iter().map(|outcome| &outcome.latency_curve).max_by_key(|curve| curve.len());
    let names: Vec<String> =
        longest.map_or(Vec::new(), |curve| curve.iter().map(|point| percentile(point.0)).collect());
    let right = (names.len().max(2) - 1) as f64;
    svg(|area| {
        let mut chart = ChartBuilder::on(area)
            .margin(8)
            .x_label_area_size(34)
            .y_label_area_size(62)
            .build_cartesian_2d(
                -0.3..right + 0.3,
                (low * 0.7..high.max(low * 10.0) * 1.5).log_scale(),
            )?;
        mesh(&mut chart)
            .disable_x_mesh()
            .x_labels(0)
            .y_label_formatter(&|us| microseconds(*us))
            .draw()?;
        let bottom = low * 0.7;
        for (name, at) in names.iter().zip(0..) {
            label_below(area, chart.backend_coord(&(f64::from(at), bottom)), name)?;
        }
        for outcome in outcomes {
            let line = (0..)
                .map(f64::from)
                .zip(outcome.latency_curve.iter().map(|point| point.1.max(bottom)));
            let style = colour(&outcome.row.subject).stroke_width(2);
            chart.draw_series(LineSeries::new(line.clone(), style))?;
            chart.draw_series(line.map(|point| Circle::new(point, 3, style.filled())))?;
        }
        Ok(())
    })
}

/// wschange: bars of reads until cached, a group per file and round.
pub(super) fn reads_until_cached(rows: &[&Row]) -> Result<String, DrawError> {
    let cap =
        rows.iter().filter_map(|row| row.detail.get("passes_max")?.as_f64()).fold(4.0, f64::max);
    let mut groups: Vec<Group> = Vec::new();
    for row in rows {
        for (round, files) in (1..).zip(row.reads_until_cached().unwrap_or_default()) {
            for (file, reads) in (1..).zip(files) {
                let name = format!("file {file} ({round})");
                let bar = Bar {
                    subject: row.subject.clone(),
                    value: reads.map_or(cap, |reads| reads as f64),
                    label: if reads.is_none() { "x".to_owned() } else { String::new() },
                };
                match groups.iter_mut().find(|group| group.name == name) {
                    Some(group) => group.bars.push(bar),
                    None => groups.push(Group { name, bars: vec![bar] }),
                }
            }
        }
    }
    bars(&groups, 4.0, |reads| format!("{reads:.0}"))
}

/// wsprotect: a bar per subject of what survived.
pub(super) fn protected(rows: &[&Row]) -> Result<String, DrawError> {
    let groups: Vec<Group> = rows
        .iter()
        .filter_map(|row| {
            let ratio = row.protected_ratio()?;
            Some(Group::single(&row.subject, ratio * 100.0, format!("{:.0} %", ratio * 100.0)))
        })
        .collect();
    bars(&groups, 100.0, |percent| format!("{percent:.0} %"))
}

/// A bar per subject of operations a second.
pub(super) fn operations(rows: &[&Row]) -> Result<String, DrawError> {
    let groups: Vec<Group> = rows
        .iter()
        .filter_map(|row| {
            let speed = row.ops_per_s?;
            Some(Group::single(&row.subject, speed, thousands(speed)))
        })
        .collect();
    bars(&groups, 1.0, thousands)
}

struct Bar {
    subject: String,
    value: f64,
    label: String,
}

struct Group {
    name: String,
    bars: Vec<Bar>,
}

impl Group {
    fn single(subject: &str, value: f64, label: String) -> Group {
        Group {
            name: subject.to_owned(),
            bars: vec![Bar { subject: subject.to_owned(), value, label }],
        }
    }
}

/// Groups of bars from zero up to `at_least` or more; a name under each group, a label over a bar
/// that has one.
fn bars(
    groups: &[Group],
    at_least: f64,
    tick: impl Fn(f64) -> String,
) -> Result<String, DrawError> {
    let top =
        groups.iter().flat_map(|group| &group.bars).map(|bar| bar.value).fold(at_least, f64::max);
    svg(|area| {
        let mut chart = ChartBuilder::on(area)
            .margin(8)
            .x_label_area_size(34)
            .y_label_area_size(54)
            .build_cartesian_2d(0.0..groups.len().max(1) as f64, 0.0..top * 1.12)?;
        mesh(&mut chart)
            .disable_x_mesh()
            .x_labels(0)
            .y_labels(6)
            .y_label_formatter(&|value| tick(*value))
            .draw()?;
        for (group, left) in groups.iter().zip((0..).map(f64::from)) {
            let width = 0.76 / group.bars.len() as f64;
            for (bar, number) in group.bars.iter().zip((0..).map(f64::from)) {
                let start = left + 0.12 + number * width;
                let corners = [(start, 0.0), (start + width * 0.9, bar.value)];
                chart.draw_series([Rectangle::new(corners, colour(&bar.subject).filled())])?;
                label_above(
                    area,
                    chart.backend_coord(&(start + width * 0.45, bar.value)),
                    &bar.label,
                )?;
            }
            label_below(area, chart.backend_coord(&(left + 0.5, 0.0)), &group.name)?;
        }
        Ok(())
    })
}

/// `text` centred under the point `at`, given in pixels of the whole plot.
fn label_below(area: &Area<'_>, at: (i32, i32), text: &str) -> Result<(), DrawError> {
    let style =
        ("sans-serif", TEXT_PIXELS).into_text_style(area).pos(Pos::new(HPos::Center, VPos::Top));
    Ok(area.draw(&Text::new(text, (at.0, at.1 + 8), style))?)
}

/// `text` centred over the point `at`, given in pixels of the whole plot.
pub(super) fn label_above(area: &Area<'_>, at: (i32, i32), text: &str) -> Result<(), DrawError> {
    let style =
        ("sans-serif", TEXT_PIXELS).into_text_style(area).pos(Pos::new(HPos::Center, VPos::Bottom));
    Ok(area.draw(&Text::new(text, (at.0, at.1 - 2), style))?)
}

/// The grid and the labels that all plots have.
pub(super) fn mesh<'a, 'b, DB, X, Y>(
    chart: &'b mut ChartContext<'a, DB, Cartesian2d<X, Y>>,
) -> MeshStyle<'a, 'b, X, Y, DB>
where
    DB: DrawingBackend + 'a,
    X: Ranged<ValueType = f64> + ValueFormatter<f64>,
    Y: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    let mut mesh = chart.configure_mesh();
    mesh.bold_line_style(GREY.mix(0.25))
        .light_line_style(TRANSPARENT)
        .axis_style(GREY)
        .label_style(("sans-serif", TEXT_PIXELS));
    mesh
}

pub(super) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

pub(super) fn svg(
    draw: impl FnOnce(&Area<'_>) -> Result<(), DrawError>,
) -> Result<String, DrawError> {
    svg_of(SIZE, draw)
}

/// An `<svg>` of so many pixels, wide and high.
pub(super) fn svg_of(
    size: (u32, u32),
    draw: impl FnOnce(&Area<'_>) -> Result<(), DrawError>,
) -> Result<String, DrawError> {
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, size).into_drawing_area();
        draw(&area)?;
        area.present()?;
    }
    // Inside HTML, the XML declaration is not wanted, and the size is the page's to choose.
    let start = text.find("<svg").unwrap_or(0);
    Ok(text.split_off(start))
}

fn percentile(value: f64) -> String {
    if value == 100.0 { "max".to_owned() } else { format!("p{value}") }
}

fn microseconds(us: f64) -> String {
    match us {
        us if us >= 1e6 => format!("{} s", us / 1e6),
        us if us >= 1e3 => format!("{} ms", us / 1e3),
        us => format!("{us} us"),
    }
}

fn thousands(value: f64) -> String {
    if value >= 10_000.0 { format!("{:.0}k", value / 1000.0) } else { format!("{value:.0}") }
}

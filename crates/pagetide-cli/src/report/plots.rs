//! Drawing of plots as SVG.
//!
//! Half-transparent grey grids without backgrounds suit both colour schemes.

use plotters::chart::MeshStyle;
use plotters::coord::Shift;
use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, ValueFormatter};
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::ops::Range;

pub(crate) type DrawError = Box<dyn std::error::Error>;

pub(crate) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

pub(crate) type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<Marked, Marked>>;

pub(crate) struct Marked {
    axis: RangedCoordf64,
    marks: Vec<f64>,
}

impl Marked {
    pub(crate) fn at(range: Range<f64>, marks: Vec<f64>) -> Marked {
        Marked { axis: range.into(), marks }
    }

    pub(crate) fn round(range: Range<f64>) -> Marked {
        let marks = round_ticks(&range, TICKS);
        Marked::at(range, marks)
    }
}

impl Ranged for Marked {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        self.axis.map(value, limit)
    }

    fn key_points<Hint: KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        self.marks.clone()
    }

    fn range(&self) -> Range<f64> {
        self.axis.range()
    }
}

/// Pixels.
pub(crate) const SIZE: (u32, u32) = (520, 300);
pub(crate) const GREY: RGBColor = RGBColor(128, 134, 144);
pub(crate) const TEXT_PIXELS: u32 = 13;
const TICKS: u32 = 6;

/// Returns fixed colours. The demo's subjects have the Okabe-Ito colours, distinct under colour
/// blindness.
pub(crate) fn colour(name: &str) -> RGBColor {
    match name {
        "linux" => RGBColor(0xd5, 0x5e, 0x00),
        "lru" => RGBColor(0x55, 0x5a, 0x63),
        "active-inactive" => RGBColor(0x00, 0x72, 0xb2),
        "pagetide" => RGBColor(0xe6, 0x9f, 0x00),
        "mglru" => RGBColor(0x00, 0x9e, 0x73),
        "fifo" => RGBColor(0xb0, 0x5c, 0xc6),
        "clock" => RGBColor(0xd1, 0x49, 0x5b),
        "opt" => RGBColor(0x6d, 0x59, 0xc9),
        "s3fifo" => RGBColor(0x56, 0xb4, 0xe9),
        "sieve" => RGBColor(0x9c, 0x6b, 0x3f),
        "arc" => RGBColor(0xe3, 0x6f, 0xa8),
        "lirs" => RGBColor(0x7f, 0x9f, 0x2f),
        "2q" => RGBColor(0x4c, 0x6e, 0x91),
        "fixed" => RGBColor(0x8a, 0x8f, 0x98),
        "depth" => RGBColor(0xd5, 0x5e, 0x00),
        "refill" => RGBColor(0x00, 0x72, 0xb2),
        "w-tinylfu" => RGBColor(0xcc, 0x79, 0xa7),
        _ => colour_by_name(name),
    }
}

fn colour_by_name(name: &str) -> RGBColor {
    // FNV-1a, so that similar names get distant hues.
    let hash = name
        .bytes()
        .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    let hue = f64::from(hash >> 8) / f64::from(1_u32 << 24);
    let (red, green, blue) = HSLColor(hue, 0.5, 0.47).to_backend_color().rgb;
    RGBColor(red, green, blue)
}

pub(super) fn css_colour(name: &str) -> String {
    let RGBColor(red, green, blue) = colour(name);
    format!("#{red:02x}{green:02x}{blue:02x}")
}

pub(crate) struct Axes<'a> {
    pub(crate) x: Range<f64>,
    pub(crate) y: Range<f64>,
    /// The name of the x axis, may be empty.
    pub(crate) x_name: &'a str,
    pub(crate) x_tick: &'a dyn Fn(f64) -> String,
    pub(crate) y_tick: &'a dyn Fn(f64) -> String,
}

/// Returns about `nr` marks at multiples of 1, 2 or 5 times a power of ten.
fn round_ticks(range: &Range<f64>, nr: u32) -> Vec<f64> {
    let wanted = (range.end - range.start) / f64::from(nr);
    if wanted.is_nan() || wanted <= 0.0 {
        return vec![range.start];
    }
    let power = 10_f64.powf(wanted.log10().floor());
    let mut steps = [1.0, 2.0, 5.0, 10.0].into_iter().map(|times| times * power);
    let Some(step) = steps.find(|step| *step >= wanted * 0.999) else { return vec![range.start] };
    let first = (range.start / step).ceil();
    let ticks = (0..=nr).map(|nth| (first + f64::from(nth)) * step);
    ticks.take_while(|at| *at <= range.end).collect()
}

impl<'a> Axes<'a> {
    pub(crate) fn over_seconds(right: f64, top: f64, tick: &'a dyn Fn(f64) -> String) -> Axes<'a> {
        let (x, y) = (0.0..right, 0.0..top * 1.03);
        Axes { x, y, x_name: "seconds", x_tick: &|seconds| format!("{seconds:.1}"), y_tick: tick }
    }

    pub(crate) fn draw<'d, 'b>(&self, area: &'d Area<'b>) -> Result<Chart<'d, 'b>, DrawError> {
        let mut chart = ChartBuilder::on(area)
            .margin(8)
            .x_label_area_size(34)
            .y_label_area_size(5 * TEXT_PIXELS)
            .build_cartesian_2d(Marked::round(self.x.clone()), Marked::round(self.y.clone()))?;
        let mut mesh = mesh(&mut chart);
        if !self.x_name.is_empty() {
            mesh.x_desc(self.x_name);
        }
        mesh.x_label_formatter(&|value| (self.x_tick)(*value))
            .y_label_formatter(&|value| (self.y_tick)(*value))
            .draw()?;
        Ok(chart)
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) points: Vec<(f64, f64)>,
    pub(crate) style: ShapeStyle,
    pub(crate) has_dots: bool,
}

impl Line {
    pub(crate) fn new(name: &str, points: Vec<(f64, f64)>) -> Line {
        Line { points, style: colour(name).stroke_width(2), has_dots: false }
    }
}

pub(crate) fn draw_lines(chart: &mut Chart<'_, '_>, lines: &[Line]) -> Result<(), DrawError> {
    for Line { points, style, has_dots } in lines {
        let dots = points.iter().filter(|_| *has_dots);
        chart.draw_series(dots.map(|at| Circle::new(*at, 3, style.filled())))?;
        chart.draw_series(LineSeries::new(points.iter().copied(), *style))?;
    }
    Ok(())
}

pub(crate) fn lines(axes: &Axes<'_>, lines: &[Line]) -> Result<String, DrawError> {
    svg(SIZE, |area| draw_lines(&mut axes.draw(area)?, lines))
}

#[derive(Clone, Debug)]
pub(crate) struct Bar {
    pub(crate) name: String,
    pub(crate) value: f64,
    /// Text above the bar.
    pub(crate) label: String,
}

/// Adjacent bars with a title below.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub(crate) title: String,
    pub(crate) bars: Vec<Bar>,
}

impl Group {
    pub(crate) fn single(name: &str, value: f64, label: String) -> Group {
        Group { title: name.to_owned(), bars: vec![Bar { name: name.to_owned(), value, label }] }
    }
}

/// Ends the axis at `at_least` or more.
pub(crate) fn bars(
    groups: &[Group],
    at_least: f64,
    tick: impl Fn(f64) -> String,
) -> Result<String, DrawError> {
    let top =
        groups.iter().flat_map(|group| &group.bars).map(|bar| bar.value).fold(at_least, f64::max);
    svg(SIZE, |area| {
        let mut chart = ChartBuilder::on(area)
            .margin(8)
            .x_label_area_size(34)
            .y_label_area_size(54)
            .build_cartesian_2d(0.0..groups.len().max(1) as f64, Marked::round(0.0..top * 1.12))?;
        mesh(&mut chart)
            .disable_x_mesh()
            .x_labels(0)
            .y_label_formatter(&|value| tick(*value))
            .draw()?;
        for (group, left) in groups.iter().zip((0..).map(f64::from)) {
            let width = 0.76 / group.bars.len() as f64;
            for (bar, number) in group.bars.iter().zip((0..).map(f64::from)) {
                let start = left + 0.12 + number * width;
                let corners = [(start, 0.0), (start + width * 0.9, bar.value)];
                chart.draw_series([Rectangle::new(corners, colour(&bar.name).filled())])?;
                label_above(
                    area,
                    chart.backend_coord(&(start + width * 0.45, bar.value)),
                    &bar.label,
                )?;
            }
            label_below(area, chart.backend_coord(&(left + 0.5, 0.0)), &group.title)?;
        }
        Ok(())
    })
}

/// Takes `at` in pixels of the whole plot.
pub(crate) fn label_below(area: &Area<'_>, at: (i32, i32), text: &str) -> Result<(), DrawError> {
    let style =
        ("sans-serif", TEXT_PIXELS).into_text_style(area).pos(Pos::new(HPos::Center, VPos::Top));
    Ok(area.draw(&Text::new(text, (at.0, at.1 + 8), style))?)
}

/// Takes `at` in pixels of the whole plot.
pub(crate) fn label_above(area: &Area<'_>, at: (i32, i32), text: &str) -> Result<(), DrawError> {
    let style =
        ("sans-serif", TEXT_PIXELS).into_text_style(area).pos(Pos::new(HPos::Center, VPos::Bottom));
    Ok(area.draw(&Text::new(text, (at.0, at.1 - 2), style))?)
}

pub(crate) fn mesh<'a, 'b, DB, X, Y>(
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

/// Takes `size` in pixels.
pub(crate) fn svg(
    size: (u32, u32),
    draw: impl FnOnce(&Area<'_>) -> Result<(), DrawError>,
) -> Result<String, DrawError> {
    let mut text = String::new();
    {
        let area = SVGBackend::with_string(&mut text, size).into_drawing_area();
        draw(&area)?;
        area.present()?;
    }
    // HTML needs no XML declaration, and the page chooses the size.
    let start = text.find("<svg").unwrap_or(0);
    Ok(text.split_off(start))
}

/// Draws a standalone picture with a title and a white background.
pub(crate) fn picture(
    size: (u32, u32),
    title: &str,
    draw: impl FnOnce(&Area<'_>) -> Result<(), DrawError>,
) -> Result<String, DrawError> {
    svg(size, |area| {
        area.fill(&WHITE)?;
        draw(&area.titled(title, ("sans-serif", TEXT_PIXELS + 5))?)
    })
}

pub(crate) fn thousands(value: f64) -> String {
    if value >= 10_000.0 { format!("{:.0}k", value / 1000.0) } else { format!("{value:.0}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_inside() {
        assert_eq!(round_ticks(&(0.0..1.03), 6), [0.0, 0.2, 0.4, 0.6000000000000001, 0.8, 1.0]);
        assert_eq!(round_ticks(&(0.5..7.5), 6), [2.0, 4.0, 6.0]);
        assert_eq!(round_ticks(&(0.0..1234.0), 6), [0.0, 500.0, 1000.0]);
        for empty in [0.0..0.0, 1.0..0.0, 0.0..f64::NAN] {
            assert_eq!(round_ticks(&empty, 6).len(), 1);
        }
    }

    /// Colour-blind simulation: Machado, Oliveira and Fernandes, 2009.
    #[test]
    fn the_demos_subjects_are_told_apart_without_one_kind_of_cone() {
        const SEEN: [[[f64; 3]; 3]; 3] = [
            [[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]],
            [[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]],
            [[1.256, -0.077, -0.179], [-0.078, 0.931, 0.148], [0.005, 0.691, 0.304]],
        ];
        let names = ["linux", "lru", "active-inactive", "mglru", "s3fifo", "w-tinylfu", "pagetide"];
        for matrix in SEEN {
            let seen = names.map(|name| {
                let RGBColor(red, green, blue) = colour(name);
                matrix.map(|row| {
                    let [from_red, from_green, from_blue] = row;
                    from_red * f64::from(red)
                        + from_green * f64::from(green)
                        + from_blue * f64::from(blue)
                })
            });
            for (nth, one) in seen.iter().enumerate() {
                for (other, name) in seen[..nth].iter().zip(names) {
                    let apart = one.iter().zip(other).map(|(a, b)| (a - b).powi(2)).sum::<f64>();
                    assert!(apart.sqrt() > 30.0, "{name} and {}: {:.0}", names[nth], apart.sqrt());
                }
            }
        }
    }
}

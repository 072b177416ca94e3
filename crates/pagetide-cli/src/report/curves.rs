//! Miss ratio by memory size, a line per policy, in a report or standalone.
//!
//! The size axis is logarithmic, because curves bend at small memory.

use crate::failure::Failure;
use crate::machine;
use crate::report::plots::{
    Area, DrawError, GREY, Marked, TEXT_PIXELS, colour, mesh, picture, svg,
};
use pagetide_core::units::PAGE_BYTES;
use plotters::prelude::*;

#[derive(Clone, Debug)]
pub(crate) struct Curve<'a> {
    pub(crate) policy: &'a str,
    /// (frames, miss ratio), ascending.
    pub(crate) points: Vec<(u32, f64)>,
    /// Error bars, empty without sampling.
    pub(crate) errors: Vec<f64>,
}

#[derive(Clone, Copy, PartialEq)]
enum Place {
    InReport,
    Alone,
}

pub(crate) fn alone(title: &str, curves: &[Curve<'_>]) -> Result<String, Failure> {
    picture((900, 540), title, |area| draw(area, curves, Place::Alone))
        .map_err(|error| Failure::on("draw the curves", &*error))
}

pub(crate) fn in_report(curves: &[Curve<'_>]) -> Result<String, DrawError> {
    svg((900, 420), |area| draw(area, curves, Place::InReport))
}

fn draw(area: &Area<'_>, curves: &[Curve<'_>], place: Place) -> Result<(), DrawError> {
    let points = || curves.iter().flat_map(|curve| &curve.points);
    let doublings = points().map(|point| log_bytes(point.0));
    let (left, right) =
        doublings.fold((f64::MAX, f64::MIN), |(low, high), at| (low.min(at), high.max(at)));
    let top = points().map(|point| point.1).fold(0.01, f64::max);
    // One size or no size still gets an axis.
    let (left, right) = if left > right { (12.0, 13.0) } else { (left, right.max(left + 0.5)) };
    // Marks some powers of two.
    let every = ((right - left) / 9.0).ceil().max(1.0) as usize;
    let doublings = (left.ceil() as i32..=right as i32).step_by(every).map(f64::from);
    let mut chart = ChartBuilder::on(area)
        .margin(12)
        .margin_right(36)
        .x_label_area_size(44)
        .y_label_area_size(54)
        .build_cartesian_2d(
            Marked::at(left..right, doublings.collect()),
            Marked::round(0.0..top * 1.04),
        )?;
    mesh(&mut chart)
        .x_desc("memory")
        .y_desc("misses of demand per access")
        .x_label_formatter(&|doublings| machine::rounded(doublings.exp2().round() as u64))
        .y_label_formatter(&|ratio| format!("{:.*} %", usize::from(top < 0.1), ratio * 100.0))
        .draw()?;
    for (nth, curve) in curves.iter().enumerate() {
        let style = colour(curve.policy).stroke_width(2);
        let line = curve.points.iter().map(|&(frames, ratio)| (log_bytes(frames), ratio));
        let points = line.clone();
        // Different markers distinguish neighbouring lines.
        let marks = match nth % 3 {
            0 => chart
                .draw_series(points.map(|at| Circle::new(at, 3, style.filled())))?
                .legend(move |(x, y)| Circle::new((x + 9, y), 3, style.filled())),
            1 => chart
                .draw_series(points.map(|at| TriangleMarker::new(at, 5, style.filled())))?
                .legend(move |(x, y)| TriangleMarker::new((x + 9, y), 5, style.filled())),
            _ => chart
                .draw_series(points.map(|at| Cross::new(at, 4, style)))?
                .legend(move |(x, y)| Cross::new((x + 9, y), 4, style)),
        };
        marks.label(curve.policy);
        let sampled = line.clone().zip(&curve.errors).filter(|(_, error)| **error > 0.0);
        let bars = sampled.map(|((size, ratio), error)| {
            let ends = [(ratio - error).max(0.0), ratio + error].map(|end| (size, end));
            PathElement::new(ends, colour(curve.policy))
        });
        chart.draw_series(bars)?;
        chart.draw_series(LineSeries::new(line, style))?;
    }
    if place == Place::Alone {
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::UpperRight)
            .background_style(WHITE.mix(0.85))
            .border_style(GREY.mix(0.4))
            .label_font(("sans-serif", TEXT_PIXELS))
            .draw()?;
    }
    Ok(())
}

fn log_bytes(frames: u32) -> f64 {
    (f64::from(frames.max(1)) * PAGE_BYTES as f64).log2()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_of_its_own_names_its_policies() {
        let curves = ["mglru", "lru"].map(|policy| Curve {
            policy,
            points: vec![(10, 0.9), (100, 0.5), (1000, 0.0)],
            errors: vec![0.02; 3],
        });
        let text = alone("a & b", &curves).expect("it draws");
        assert!(text.starts_with("<svg") && text.trim_end().ends_with("</svg>"), "{text}");
        for word in [
            "a &amp; b",
            "mglru",
            "lru",
            "memory",
            "misses of demand per access",
            "http://www.w3.org/2000/svg",
        ] {
            assert!(text.contains(word), "{word} is missing");
        }
    }

    #[test]
    fn one_point_and_none_are_drawn() {
        let errors = Vec::new;
        let point = |points| {
            alone("one", &[Curve { policy: "lru", points, errors: errors() }]).expect("it draws")
        };
        // The legend has one.
        assert_eq!(point(vec![(5, 0.0)]).matches("<circle").count(), 2);
        assert_eq!(point(vec![]).matches("<circle").count(), 1);
    }
}

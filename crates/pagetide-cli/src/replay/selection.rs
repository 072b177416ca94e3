//! A policy's settings over time, above the hit ratio.
//!
//! ```text
//!   recency            #####
//!   loose      ########     ######
//!   tight  ####
//!          ~~~~~^^^^^^^^^^^~~~~~~~     hit ratio
//! ```

use super::explain::Explained;
use crate::failure::Failure;
use crate::report::page::Figure;
use crate::report::plots::{
    Area, DrawError, GREY, Marked, TEXT_PIXELS, colour, mesh, picture, svg,
};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

const CAPTION: &str = "The hit ratio, stretch by stretch of accesses, and above it the setting in \
                       charge: each bar is a stay. A setting takes charge when its miniature \
                       would have hit more often than that of the setting before, by more than \
                       chance and by more than the change costs.";
const SIZE: (u32, u32) = (900, 420);
/// A share of the plot's height.
const SETTINGS_SHARE: f64 = 0.32;

/// Includes the heading.
pub(super) fn figure(explained: &Explained) -> Result<(String, Figure), DrawError> {
    let title = title_of(explained);
    let plot = svg(SIZE, |area| draw(area, explained))?;
    let figure = Figure::new(plot, &title, CAPTION);
    Ok((title, figure))
}

fn title_of(Explained { policy, frames, .. }: &Explained) -> String {
    format!("Settings of {policy} with {frames} frames")
}

/// Draws a picture with `trace` in the title.
pub(super) fn alone(trace: &str, explained: &Explained) -> Result<String, Failure> {
    let title = format!("{}: {trace}", title_of(explained));
    let plot = picture((SIZE.0, SIZE.1 + 24), &title, |area| draw(area, explained));
    plot.map_err(|error| Failure::on("draw the settings", &*error))
}

fn draw(area: &Area<'_>, explained: &Explained) -> Result<(), DrawError> {
    let split = (f64::from(SIZE.1) * SETTINGS_SHARE) as u32;
    let (above, below) = area.split_vertically(split);
    bars(&above, explained)?;
    hits(&below, explained)
}

fn end_of(explained: &Explained) -> f64 {
    explained.course.points.last().map_or(1.0, |point| point.accesses as f64)
}

fn bars(area: &Area<'_>, explained: &Explained) -> Result<(), DrawError> {
    let mut settings: Vec<&str> = Vec::new();
    for stay in &explained.course.stays {
        if !settings.contains(&stay.setting) {
            settings.push(stay.setting);
        }
    }
    let nr_settings = settings.len() as f64;
    let mut chart = ChartBuilder::on(area)
        .margin_top(8)
        .margin_right(36)
        .set_label_area_size(LabelAreaPosition::Left, 74)
        .build_cartesian_2d(0.0..end_of(explained), 0.0..nr_settings)?;
    for stay in &explained.course.stays {
        let row = settings.iter().position(|setting| *setting == stay.setting).unwrap_or(0) as f64;
        let ends = (stay.since as f64, (stay.since + stay.accesses) as f64);
        let corners = [(ends.0, row + 0.2), (ends.1, row + 0.8)];
        chart.draw_series([Rectangle::new(corners, colour(stay.setting).filled())])?;
    }
    let style =
        ("sans-serif", TEXT_PIXELS).into_text_style(area).pos(Pos::new(HPos::Right, VPos::Center));
    for (setting, row) in settings.iter().zip((0..).map(f64::from)) {
        let at = chart.backend_coord(&(0.0, row + 0.5));
        let at = (at.0 - 8, at.1 - area.get_pixel_range().1.start);
        area.draw(&Text::new((*setting).to_owned(), at, style.clone()))?;
    }
    Ok(())
}

fn hits(area: &Area<'_>, explained: &Explained) -> Result<(), DrawError> {
    let mut chart = ChartBuilder::on(area)
        .margin_top(4)
        .margin_bottom(8)
        .margin_right(36)
        .x_label_area_size(44)
        .y_label_area_size(74)
        .build_cartesian_2d(Marked::round(0.0..end_of(explained)), Marked::round(0.0..1.03))?;
    mesh(&mut chart)
        .x_desc("accesses")
        .x_label_formatter(&|accesses| format!("{accesses:.0}"))
        .y_label_formatter(&|ratio| format!("{:.0} %", ratio * 100.0))
        .draw()?;
    let points = explained.course.points.iter();
    let line = points.map(|point| (point.accesses as f64, point.hit_ratio));
    chart.draw_series(LineSeries::new(line, GREY.stroke_width(2)))?;
    Ok(())
}

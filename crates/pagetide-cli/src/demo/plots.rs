//! The demo's plots, an `<svg>` per function.

use super::row::{Outcome, Row};
use crate::report::plots::{
    Axes, Bar, DrawError, Group, Line, SIZE, bars, colour, label_below, lines, mesh, svg, thousands,
};
use plotters::prelude::*;

pub(super) fn hit_timeline(outcomes: &[&Outcome]) -> Result<String, DrawError> {
    let ends = outcomes.iter().filter_map(|outcome| outcome.hit_timeline.last());
    let right = ends.map(|point| point.0).fold(0.1, f64::max);
    let line = |it: &&Outcome| Line::new(&it.row.subject, it.hit_timeline.clone());
    let all: Vec<Line> = outcomes.iter().map(line).collect();
    lines(&Axes::over_seconds(right, 1.0, &|ratio| format!("{:.0} %", ratio * 100.0)), &all)
}

/// Draws a logarithmic latency axis.
pub(super) fn latency(outcomes: &[&Outcome]) -> Result<String, DrawError> {
    let values = || outcomes.iter().flat_map(|outcome| &outcome.latency_curve).map(|point| point.1);
    let (low, high) =
        (values().fold(f64::MAX, f64::min).clamp(0.05, 1e6), values().fold(1.0, f64::max));
    let longest =
        outcomes.iter().map(|outcome| &outcome.latency_curve).max_by_key(|curve| curve.len());
    let names: Vec<String> =
        longest.map_or(Vec::new(), |curve| curve.iter().map(|point| percentile(point.0)).collect());
    let right = (names.len().max(2) - 1) as f64;
    svg(SIZE, |area| {
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

/// Draws a group per file and round.
pub(super) fn reads_until_cached(rows: &[&Row]) -> Result<String, DrawError> {
    let cap =
        rows.iter().filter_map(|row| row.detail.get("passes_max")?.as_f64()).fold(4.0, f64::max);
    let mut groups: Vec<Group> = Vec::new();
    for row in rows {
        for (round, files) in (1..).zip(row.reads_until_cached().unwrap_or_default()) {
            for (file, reads) in (1..).zip(files) {
                let title = format!("file {file} ({round})");
                let bar = Bar {
                    name: row.subject.clone(),
                    value: reads.map_or(cap, |reads| reads as f64),
                    label: if reads.is_none() { "x".to_owned() } else { String::new() },
                };
                match groups.iter_mut().find(|group| group.title == title) {
                    Some(group) => group.bars.push(bar),
                    None => groups.push(Group { title, bars: vec![bar] }),
                }
            }
        }
    }
    bars(&groups, 4.0, |reads| format!("{reads:.0}"))
}

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

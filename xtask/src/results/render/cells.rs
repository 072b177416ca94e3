//! The text of one cell.

use super::super::rows::ResultRow;

/// Returns the median with its range in brackets, if any.
pub(super) fn measured(row: &ResultRow) -> String {
    figure(row.median) + &range(Some(row.min), Some(row.max))
}

/// Returns the median with its ratio to the reference in brackets, unless the median is a ratio.
pub(super) fn short(row: &ResultRow) -> String {
    let ratio = row.ratio.filter(|_| !row.unit.starts_with('%'));
    figure(row.median) + &ratio.map_or(String::new(), |ratio| format!(" ({ratio:.2})"))
}

/// Returns the ratio to the reference with its range in brackets, or empty.
fn ratio(row: &ResultRow) -> String {
    let range = range(row.ratio_min, row.ratio_max);
    row.ratio.map_or(String::new(), |ratio| format!("{ratio:.2}{range}"))
}

/// Returns the reference with its median and the subject's lead, or `None`.
pub(super) fn against(row: &ResultRow) -> Option<String> {
    let median =
        row.reference_median.map_or(String::new(), |median| format!(" {}", figure(median)));
    row.reference.as_ref().map(|_| format!("{}{median}: {}", reference_of(row), ratio(row)))
}

pub(super) fn reference_of(row: &ResultRow) -> String {
    row.reference.clone().unwrap_or_default().replace('|', "/")
}

pub(super) fn distinct<T: PartialEq>(all: impl Iterator<Item = T>) -> Vec<T> {
    all.fold(Vec::new(), |mut found, one| {
        if !found.contains(&one) {
            found.push(one);
        }
        found
    })
}

fn range(low: Option<f64>, high: Option<f64>) -> String {
    let ends = low.zip(high).map(|(low, high)| (figure(low), figure(high)));
    let ends = ends.filter(|(low, high)| low != high);
    ends.map_or(String::new(), |(low, high)| format!(" ({low}-{high})"))
}

/// Returns a number with about three significant digits.
pub(super) fn figure(value: f64) -> String {
    match value.abs() {
        _ if value.fract() == 0.0 => format!("{value:.0}"),
        size if size >= 1000.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

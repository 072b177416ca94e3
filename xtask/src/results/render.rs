//! The document: what all rows have in common, then a table a section.

use super::plan::Section;
use super::rows::ResultRow;

/// What stands above the tables.
pub(super) fn head(commit: &str, machine: &str) -> String {
    format!(
        "# Results\n\n\
         Made by `cargo x results` of the rows in `results/*.jsonl`, which `cargo x measure` has \
         the commands\nwrite; edited by hand, it is not. All rows are of commit `{commit}`, on: \
         {machine}.\n\n\
         Figures are medians, with the range of the runs. In benches, subject and reference ran \
         by turns. A\nratio above 1 is ahead of the reference.\n"
    )
}

/// A section: its commands, and a line a row. Without rows, a sentence that says so.
pub(super) fn section(section: &Section, rows: &[ResultRow]) -> String {
    let title = format!("\n## {}\n\n{}\n\n", section.title, section.note);
    if rows.is_empty() {
        return format!("{title}Not measured.\n");
    }
    let mut commands: Vec<&str> = rows.iter().map(|row| row.command.as_str()).collect();
    commands.dedup();
    let commands: Vec<String> = commands.iter().map(|line| format!("`{line}`")).collect();
    let commands = commands.join(",\n") + ".\n";
    let cells: Vec<[String; 8]> = rows.iter().map(cells_of).collect();
    // What no row has a word for is left out.
    let shown: Vec<usize> =
        (0..HEADS.len()).filter(|&at| cells.iter().any(|row| !row[at].is_empty())).collect();
    let line = |row: &[String; 8]| -> String {
        shown.iter().map(|&at| format!("| {} ", row[at])).collect::<String>() + "|\n"
    };
    let rule = "|---".repeat(shown.len()) + "|\n";
    let table: String = cells.iter().map(line).collect();
    format!("{title}{commands}\n{}{rule}{table}", line(&HEADS.map(str::to_owned)))
}

const HEADS: [&str; 8] =
    ["case", "subject", "median", "range", "reference", "its median", "ratio", "range of it"];

fn cells_of(row: &ResultRow) -> [String; 8] {
    let range = |low: Option<f64>, high: Option<f64>| match low.zip(high) {
        Some((low, high)) if low != high => format!("{} to {}", figure(low), figure(high)),
        _ => String::new(),
    };
    [
        row.case.clone(),
        format!("`{}`", row.subject),
        format!("{} {}", figure(row.median), row.unit).trim_end().to_owned(),
        range(Some(row.min), Some(row.max)),
        row.reference.clone().unwrap_or_default().replace('|', "/"),
        row.reference_median.map_or(String::new(), figure),
        row.ratio.map_or(String::new(), |ratio| format!("{ratio:.2}")),
        range(row.ratio_min, row.ratio_max),
    ]
}

/// A number with about three digits that say something.
fn figure(value: f64) -> String {
    match value.abs() {
        _ if value.fract() == 0.0 => format!("{value:.0}"),
        size if size >= 1000.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

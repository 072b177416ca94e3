//! The document: what all rows have in common, then a table a section.
//!
//! Where subjects are many and the question is which is best, a subject is a column:
//!
//! ```text
//!   | case | unit | lru | mglru |      | case | subject | median | range | reference | ... |
//!   | oltp | % hits | 75 (1.11) | ...  | hit  | lru     | 504 ns | ...                     |
//! ```

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
    let table = if section.has_subjects_across { across(rows) } else { down(rows) };
    format!("{title}{commands}\n{table}")
}

/// A line a row.
fn down(rows: &[ResultRow]) -> String {
    let cells: Vec<[String; 8]> = rows.iter().map(cells_of).collect();
    // What no row has a word for is left out.
    let shown: Vec<usize> =
        (0..HEADS.len()).filter(|&at| cells.iter().any(|row| !row[at].is_empty())).collect();
    let pick = |row: &[String; 8]| shown.iter().map(|&at| row[at].clone()).collect();
    table(&pick(&HEADS.map(str::to_owned)), cells.iter().map(pick))
}

/// A line a case and unit, a column a subject, and what the source says, if it does.
fn across(rows: &[ResultRow]) -> String {
    let subjects = distinct(rows.iter().map(|row| row.subject.as_str()));
    let keys = distinct(rows.iter().map(|row| (row.case.as_str(), row.unit.as_str())));
    let of_key = |key: (&str, &str)| -> Vec<&ResultRow> {
        rows.iter().filter(|row| (row.case.as_str(), row.unit.as_str()) == key).collect()
    };
    let says = |row: &&ResultRow| row.reference.is_some() && row.reference_median.is_none();
    let has_saying = rows.iter().any(|row| says(&row));
    let lines = keys.iter().map(|&key| {
        let rows = of_key(key);
        let cell = |subject: &&str| {
            rows.iter().find(|row| row.subject == *subject).map_or(String::new(), |row| short(row))
        };
        let mut line = vec![key.0.to_owned(), key.1.to_owned()];
        line.extend(subjects.iter().map(cell));
        line.extend(has_saying.then(|| {
            let said = rows.iter().copied().filter(says);
            let said = said.map(|row| format!("{}: {}", row.subject, reference_of(row)));
            said.collect::<Vec<_>>().join("; ")
        }));
        line
    });
    let mut head = vec!["case".to_owned(), "unit".to_owned()];
    head.extend(subjects.iter().map(|subject| format!("`{subject}`")));
    head.extend(has_saying.then(|| "the source says".to_owned()));
    table(&head, lines)
}

fn table(head: &Vec<String>, lines: impl Iterator<Item = Vec<String>>) -> String {
    let line = |cells: &Vec<String>| {
        cells.iter().map(|cell| format!("| {cell} ")).collect::<String>() + "|\n"
    };
    let rule = "|---".repeat(head.len()) + "|\n";
    line(head) + &rule + &lines.map(|cells| line(&cells)).collect::<String>()
}

/// The median, and in brackets its ratio to the reference.
fn short(row: &ResultRow) -> String {
    let ratio = row.ratio.map_or(String::new(), |ratio| format!(" ({ratio:.2})"));
    figure(row.median) + &ratio
}

fn reference_of(row: &ResultRow) -> String {
    row.reference.clone().unwrap_or_default().replace('|', "/")
}

/// Each once, in the order in which they come.
fn distinct<T: PartialEq>(all: impl Iterator<Item = T>) -> Vec<T> {
    all.fold(Vec::new(), |mut found, one| {
        if !found.contains(&one) {
            found.push(one);
        }
        found
    })
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
        reference_of(row),
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

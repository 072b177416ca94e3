//! Tables of two dimensions.

use super::super::rows::ResultRow;
use super::cells::{distinct, figure, reference_of, short};

/// Renders subjects by cases: a line a subject if subjects are at least as many as cases.
pub(super) fn subjects(rows: &[&ResultRow]) -> String {
    let subjects = distinct(rows.iter().map(|row| row.subject.as_str()));
    let keys = distinct(rows.iter().map(|row| (row.case.as_str(), row.unit.as_str())));
    if subjects.len() < keys.len() {
        return across(rows, &subjects, &keys);
    }
    let of_key = |(case, unit): (&str, &str)| -> Vec<&ResultRow> {
        rows.iter().filter(|row| row.case == case && row.unit == unit).copied().collect()
    };
    let mut head = vec!["subject".to_owned()];
    let mut lines: Vec<Vec<String>> =
        subjects.iter().map(|subject| vec![format!("`{subject}`")]).collect();
    for key in keys {
        let of_key = of_key(key);
        let reference = of_key.iter().find(|row| row.ratio.is_some()).map(|row| reference_of(row));
        let against = reference.map_or(String::new(), |it| format!(" (against `{it}`)"));
        head.push(format!("{}, {}{against}", key.0, key.1));
        for (line, subject) in lines.iter_mut().zip(&subjects) {
            let row = of_key.iter().find(|row| row.subject == *subject);
            line.push(row.map_or(String::new(), |row| short(row)));
        }
    }
    table(&head, lines.into_iter())
}

/// Renders a line a case and unit, a column a subject, and the source's claim, if any.
fn across(rows: &[&ResultRow], subjects: &[&str], keys: &[(&str, &str)]) -> String {
    let says = |row: &&&ResultRow| row.reference.is_some() && row.reference_median.is_none();
    let has_saying = rows.iter().any(|row| says(&row));
    let lines = keys.iter().map(|&(case, unit)| {
        let rows: Vec<&&ResultRow> =
            rows.iter().filter(|row| row.case == case && row.unit == unit).collect();
        let cell = |subject: &&str| {
            rows.iter().find(|row| row.subject == *subject).map_or(String::new(), |row| short(row))
        };
        let name = if unit.is_empty() { case.to_owned() } else { format!("{case}, {unit}") };
        let mut line = vec![name];
        line.extend(subjects.iter().map(cell));
        let said: Vec<&ResultRow> = rows.iter().filter(|row| says(row)).map(|row| **row).collect();
        line.extend(has_saying.then(|| sayings(&said)));
        line
    });
    let mut head = vec!["case".to_owned()];
    head.extend(subjects.iter().map(|subject| format!("`{subject}`")));
    head.extend(has_saying.then(|| "the source says".to_owned()));
    table(&head, lines)
}

/// Returns the source's claims, each once with its subjects.
fn sayings(rows: &[&ResultRow]) -> String {
    let each = distinct(rows.iter().map(|row| reference_of(row))).into_iter().map(|saying| {
        let of = rows.iter().filter(|row| reference_of(row) == saying);
        let of: Vec<&str> = of.map(|row| row.subject.as_str()).collect();
        format!("{}: {saying}", of.join(", "))
    });
    each.collect::<Vec<_>>().join("; ")
}

/// Renders changes by subject. The last part of the case is the change. Changes without any effect
/// are listed below the table.
pub(super) fn changes(rows: &[&ResultRow]) -> String {
    let parts = |row: &ResultRow| {
        let (of, change) = row.case.rsplit_once(", ").unwrap_or(("", &row.case));
        (format!("{of}, `{}`", row.subject), change.to_owned())
    };
    let columns = distinct(rows.iter().map(|row| parts(row).0));
    let (some, none): (Vec<String>, Vec<String>) = distinct(rows.iter().map(|row| parts(row).1))
        .into_iter()
        .partition(|change| rows.iter().any(|row| parts(row).1 == *change && row.median != 0.0));
    let lines = some.into_iter().map(|change| {
        let cell = |column: &String| {
            let is_it = |row: &&&ResultRow| parts(row) == (column.clone(), change.clone());
            rows.iter().find(is_it).map_or(String::new(), |row| figure(row.median))
        };
        let cells: Vec<String> = columns.iter().map(cell).collect();
        [vec![change], cells].concat()
    });
    let mut head = vec![String::new()];
    head.extend(columns.iter().cloned());
    let none: Vec<String> = none.into_iter().filter(|change| change != UNCHANGED).collect();
    let below = format!("\nNo difference: {}.\n", none.join(", "));
    table(&head, lines) + if none.is_empty() { "" } else { &below }
}

const UNCHANGED: &str = "as it is";

pub(super) fn table(head: &[String], lines: impl Iterator<Item = Vec<String>>) -> String {
    let line = |cells: &[String]| {
        cells.iter().map(|cell| format!("| {cell} ")).collect::<String>() + "|\n"
    };
    let rule = "|---".repeat(head.len()) + "|\n";
    line(head) + &rule + &lines.map(|cells| line(&cells)).collect::<String>()
}

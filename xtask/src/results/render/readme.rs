//! The README's part: the demo's table of speeds, and its verdict.

use super::cells::distinct;
use super::grid::table;
use crate::results::rows::ResultRow;

/// The demo's workloads in table order: name, description, and true for a timed run.
const WORKLOADS: [(&str, &str, bool); 5] = [
    ("wschange", "three files of 0.75x memory, each read until it stays", false),
    ("wsprotect", "one file of 1.06x memory, streamed over and over", false),
    ("zipf-scan", "random reads (zipf 0.99), each followed by 64 KiB of a scan", true),
    ("uniform", "uniform random reads, 2.75x memory", true),
    ("oltp", "70/30 random reads and writes, syncs", true),
];

pub(in crate::results) fn part(rows: &[ResultRow]) -> String {
    let Some(first) = rows.first() else { return "Not measured.\n".to_owned() };
    let subjects = distinct(rows.iter().map(|row| row.subject.as_str()));
    let name = |subject: &&str| match *subject {
        "linux" => "kernel's page cache".to_owned(),
        other => format!("`{other}`"),
    };
    let speed = |case: &str, subject: &str| {
        let is_it =
            |row: &&ResultRow| row.unit == "ops/s" && row.case == case && row.subject == subject;
        rows.iter().find(is_it).map_or(String::new(), |row| thousands(row.median))
    };
    let lines = WORKLOADS.iter().map(|(case, words, is_timed)| {
        let mark = if *is_timed { "*" } else { "" };
        let cells = subjects.iter().map(|subject| speed(case, subject));
        std::iter::once(format!("`{case}`{mark}: {words}")).chain(cells).collect()
    });
    let head: Vec<String> = std::iter::once("operations a second".to_owned())
        .chain(subjects.iter().map(name))
        .collect();
    let verdicts: String = rows
        .iter()
        .filter_map(|row| row.verdict.as_ref())
        .map(|said| format!("- {said}\n"))
        .collect();
    let runs = match first.runs {
        1 => "one round".to_owned(),
        runs => format!("medians of {runs} rounds by turns"),
    };
    format!(
        "`{}` at {}, {runs}, on {}:\n\n{}\n\\* timed; the others run until their job is done.\n\
         {}{verdicts}",
        first.command,
        first.commit,
        first.machine,
        table(&head, lines),
        if verdicts.is_empty() { "" } else { "\n" },
    )
}

fn thousands(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (nth, digit) in digits.chars().enumerate() {
        if nth > 0 && (digits.len() - nth).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_have_commas() {
        let texts = [5.0, 70369.4, 1_234_567.0].map(thousands);
        assert_eq!(texts, ["5", "70,369", "1,234,567"]);
    }
}

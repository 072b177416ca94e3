//! The README's part: the demo's picture, its workloads, and its verdict.

use crate::results::rows::ResultRow;

/// The demo's workloads in table order.
pub(super) const WORKLOADS: [(&str, &str); 5] = [
    ("wschange", "three files of 0.75x memory, each read until it stays"),
    ("wsprotect", "one file of 1.06x memory, streamed over and over"),
    ("zipf-scan", "random reads (zipf 0.99), each followed by 64 KiB of a scan"),
    ("uniform", "uniform random reads, 2.75x memory"),
    ("oltp", "70/30 random reads and writes, syncs"),
];

pub(in crate::results) fn part(rows: &[ResultRow]) -> String {
    let Some(first) = rows.first() else { return "Not measured.\n".to_owned() };
    let verdicts: String = rows
        .iter()
        .filter_map(|row| row.verdict.as_ref())
        .map(|said| format!("- {said}\n"))
        .collect();
    let runs = match first.runs {
        1 => "one round".to_owned(),
        runs => format!("medians of {runs} rounds by turns"),
    };
    let workloads: String =
        WORKLOADS.iter().map(|(case, words)| format!("- `{case}`: {words}\n")).collect();
    format!(
        "![Speed of Pagetide beside the kernel's page cache, in five workloads](docs/demo.svg)\n\n\
         `{}` at {}, {runs}, on {}:\n\n{workloads}\nThe verdict of the command:\n\n{verdicts}",
        first.command, first.commit, first.machine,
    )
}

//! The rows as a table for a terminal.
//!
//! Plain text in columns, one workload after the other; a dash is "not measured", and what a
//! workload alone knows stands at the end of its line.

use super::row::Row;
use super::workload::Workload;
use crate::machine;
use serde_json::Value;
use std::fmt::Write;

/// Column heads, all but the first right-aligned.
const HEADS: [&str; 13] = [
    "subject",
    "ops/s",
    "hits",
    "p50 us",
    "p99 us",
    "max us",
    "dev reads",
    "dev writes",
    "refaults",
    "evictions",
    "ns/evict",
    "resident max",
    "",
];

/// What the heads do not say.
const NOTES: &str = "dev reads, dev writes: 4 KiB pages. ns/evict: CPU time in reclaim per page \
freed;
the kernel accounts it to no one. evictions of linux: what left its cgroup, in folios (a page or
more) with cgroup v1, in pages with v2.
";

/// The whole table, ending in a newline.
pub(crate) fn render(rows: &[&Row]) -> String {
    let mut text = String::new();
    for workload in Workload::ALL {
        let lines: Vec<&&Row> = rows.iter().filter(|row| row.workload == workload).collect();
        if lines.is_empty() {
            continue;
        }
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{workload}: {}", workload.summary());
        let cells: Vec<[String; 13]> = std::iter::once(HEADS.map(str::to_owned))
            .chain(lines.iter().map(|row| cells(row)))
            .collect();
        text.push_str(&columns(&cells));
        text.push('\n');
    }
    text.push_str(NOTES);
    text
}

fn cells(row: &Row) -> [String; 13] {
    if let Some(reason) = row.skipped() {
        let mut cells: [String; 13] = std::array::from_fn(|_| "-".to_owned());
        cells[0].clone_from(&row.subject);
        cells[12] = format!("skipped: {reason}");
        return cells;
    }
    [
        row.subject.clone(),
        number(row.ops_per_s, 0),
        row.hit_ratio.map_or("-".to_owned(), |ratio| format!("{:.1} %", ratio * 100.0)),
        number(row.p50_us, 1),
        number(row.p99_us, 1),
        number(row.max_us, 0),
        count(row.device_reads),
        count(row.device_writes),
        count(row.refaults),
        count(row.evictions),
        number(row.cpu_ns_per_evicted_page(), 0),
        row.resident_bytes_max.map_or("-".to_owned(), machine::rounded),
        remark(row),
    ]
}

/// What only this workload knows, in words.
pub(crate) fn remark(row: &Row) -> String {
    if let Some(rounds) = row.reads_until_cached() {
        let round = |reads: &Vec<Option<u64>>| {
            let reads = reads
                .iter()
                .map(|reads| reads.map_or("never".to_owned(), |reads| reads.to_string()));
            reads.collect::<Vec<_>>().join(" ")
        };
        let rounds: Vec<String> = rounds.iter().map(round).collect();
        return format!("reads until cached: {}", rounds.join(" | "));
    }
    if let Some(ratio) = row.protected_ratio() {
        return format!("protected: {:.1} %", ratio * 100.0);
    }
    if let Some(served) = row.served_by_tier() {
        let all = served.iter().sum::<u64>().max(1) as f64;
        let count = |name| row.detail.get(name).and_then(Value::as_u64).unwrap_or(0);
        return format!(
            "fast memory served {:.1} %; {} pages moved up, {} down",
            100.0 * served.first().copied().unwrap_or(0) as f64 / all,
            count("promoted_pages"),
            count("demoted_pages"),
        );
    }
    match row.detail.get("verified_pages") {
        Some(pages) => format!("verified: {pages} pages"),
        None => String::new(),
    }
}

fn number(value: Option<f64>, decimals: usize) -> String {
    value.map_or("-".to_owned(), |value| format!("{value:.decimals$}"))
}

fn count(value: Option<u64>) -> String {
    value.map_or("-".to_owned(), |value| value.to_string())
}

fn columns(lines: &[[String; 13]]) -> String {
    let width = |column: usize| lines.iter().map(|line| line[column].len()).max().unwrap_or(0);
    let mut text = String::new();
    for line in lines {
        let mut out = format!("  {:<width$}", line[0], width = width(0));
        for (column, cell) in line.iter().enumerate().take(12).skip(1) {
            let _ = write!(out, "  {cell:>width$}", width = width(column));
        }
        let _ = write!(out, "  {}", line[12]);
        text.push_str(out.trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo::row::Outcome;
    use serde_json::json;

    #[test]
    fn skipped_row_says_why() {
        let outcome = Outcome::skipped(Workload::Uniform, "linux".into(), "no memory cgroup");
        let text = render(&[&outcome.row]);
        assert!(text.contains("uniform: ") && text.contains("skipped: no memory cgroup"), "{text}");
    }

    #[test]
    fn reads_until_cached_are_told_by_round() {
        let mut row = Outcome::skipped(Workload::WsChange, "lru".into(), "").row;
        row.detail =
            [("reads_until_cached".to_owned(), json!([[2, 3], [null, 4]]))].into_iter().collect();
        assert_eq!(remark(&row), "reads until cached: 2 3 | never 4");
    }
}

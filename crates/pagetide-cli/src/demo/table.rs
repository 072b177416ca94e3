//! The rows as tables, for a terminal and for the report.
//!
//! A dash means "not measured". Workload-specific facts stand at the end of the line.

use super::plan::Workload;
use super::row::Row;
use crate::machine;
use crate::report::distinct;
use crate::table::{Table, left, number, percent, right};
use serde_json::Value;

const NOTES: &str = "ops/s: the median round. ns/evict: CPU time in reclaim per page freed;
the kernel accounts it to no one. evictions of linux: what left its cgroup, in folios (a page or
more) with cgroup v1, in pages with v2.
";

pub(crate) fn render(rows: &[&Row]) -> String {
    let mut text = String::new();
    for workload in Workload::ALL {
        let of_workload: Vec<&Row> =
            rows.iter().copied().filter(|row| row.workload == workload).collect();
        if !of_workload.is_empty() {
            let table = table(&of_workload).spaced("  ", "  ").to_text();
            text.push_str(&format!("{workload}: {}\n{table}\n", workload.summary()));
        }
    }
    text.push_str(NOTES);
    text
}

/// Formats the README's table: operations per second, a line per workload.
pub(super) fn speeds(rows: &[&Row]) -> String {
    let subjects = distinct(rows.iter().map(|row| row.subject.as_str()));
    let columns: Vec<_> = std::iter::once(left("operations a second", 0))
        .chain(subjects.iter().map(|subject| right(subject, 0)))
        .collect();
    let mut table = Table::new(&columns).spaced("", "  ");
    for workload in Workload::ALL {
        let speed_of = |subject: &str| {
            let is_it = |row: &&&Row| row.workload == workload && row.subject == subject;
            rows.iter().find(is_it).map(|row| number(row.ops_per_s, 0))
        };
        let speeds: Vec<Option<String>> = subjects.iter().map(|name| speed_of(name)).collect();
        if speeds.iter().any(Option::is_some) {
            let mark = if workload.is_timed() { "*" } else { "" };
            let speeds = speeds.into_iter().map(|speed| speed.unwrap_or_default());
            table.push(std::iter::once(format!("{workload}{mark}")).chain(speeds).collect());
        }
    }
    format!("\n{}* timed; the others run until their job is done.\n", table.to_text())
}

pub(super) fn table(rows: &[&Row]) -> Table<'static> {
    let columns = [
        left("subject", 0),
        right("ops/s", 0),
        right("hits", 0),
        right("p50 us", 0),
        right("p99 us", 0),
        right("max us", 0),
        right("read", 0),
        right("written", 0),
        right("refaults", 0),
        right("evictions", 0),
        right("ns/evict", 0),
        right("resident max", 0),
        left("", 0),
    ];
    Table::new(&columns).with_rows(rows.iter().map(|row| cells_of(row)))
}

fn cells_of(row: &Row) -> Vec<String> {
    let count = |value: Option<u64>| value.map_or("-".to_owned(), |value| value.to_string());
    let size = |bytes: Option<u64>| bytes.map_or("-".to_owned(), machine::rounded);
    let last = match row.skipped() {
        Some(reason) => format!("skipped: {reason}"),
        None => remark(row),
    };
    vec![
        row.subject.clone(),
        number(row.ops_per_s, 0),
        row.hit_ratio.map_or("-".to_owned(), |ratio| percent(ratio, 1)),
        number(row.p50_us, 1),
        number(row.p99_us, 1),
        number(row.max_us, 0),
        size(row.device_read_bytes),
        size(row.device_write_bytes),
        count(row.refaults),
        count(row.evictions),
        number(row.cpu_ns_per_eviction(), 0),
        size(row.resident_bytes_max),
        last,
    ]
}

fn remark(row: &Row) -> String {
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
    fn speeds_are_one_table_with_timed_rows_marked() {
        let mut row = Outcome::skipped(Workload::Uniform, "lru".into(), "").row;
        row.ops_per_s = Some(1234.5);
        let other = Outcome::skipped(Workload::WsChange, "linux".into(), "").row;
        let text = speeds(&[&other, &row]);
        for line in [
            "operations a second  linux   lru",
            "wschange                 -",
            "uniform*                    1234",
        ] {
            assert!(text.contains(line), "{line}:\n{text}");
        }
    }

    #[test]
    fn reads_until_cached_are_told_by_round() {
        let mut row = Outcome::skipped(Workload::WsChange, "lru".into(), "").row;
        row.detail =
            [("reads_until_cached".to_owned(), json!([[2, 3], [null, 4]]))].into_iter().collect();
        assert_eq!(remark(&row), "reads until cached: 2 3 | never 4");
    }
}

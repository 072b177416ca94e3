//! `--sensitivity`: the dependence of `refill`'s gain on each price.
//!
//! ```text
//!   workload x (as it is, list_hit / 2, list_hit x 2, acquire / 2, ...) x (fixed, refill) x seeds
//! ```
//!
//! A line has medians over the seeds. Ignored: prices that change together.

use super::{PcpCase, PcpRuns, prices_line, published_line};
use crate::failure::Failure;
use crate::report;
use crate::report::page::{Figure, Page, heading, paragraph, remark};
use crate::report::plots::{Bar, DrawError, Group, bars};
use crate::table::{Table, cells, escape, left, percent, right};
use pagetide_core::page_alloc::PcpTuning;
use pagetide_lab::machine::pcp::PcpWorkload;
use pagetide_lab::machine::{Costs, Nanos, Price};
use serde::Serialize;
use std::path::Path;

/// Field names are as in `--json`.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub(super) struct Row {
    workload: &'static str,
    /// The changed price, if any.
    cost: Option<&'static str>,
    cost_ns: Option<u64>,
    fixed_allocated_gb_per_s: f64,
    refill_allocated_gb_per_s: f64,
    /// `refill` / fixed.
    ratio: f64,
    /// Share of busy cycles.
    fixed_lock_wait_share: f64,
    /// Share of busy cycles.
    refill_lock_wait_share: f64,
}

type Change = Option<(&'static str, Nanos)>;

/// Groups with room for their names.
const GROUPS_A_PLOT: usize = 4;
const TUNINGS: [PcpTuning; 2] = [PcpTuning::Fixed, PcpTuning::Refill];

pub(super) fn rows(
    workloads: &[PcpWorkload],
    costs: Costs,
    run_all: impl Fn(&[PcpCase]) -> Result<Vec<PcpRuns>, Failure>,
) -> Result<Vec<Row>, Failure> {
    let lines: Vec<(PcpWorkload, Change)> = workloads
        .iter()
        .flat_map(|&workload| changes(&costs).into_iter().map(move |change| (workload, change)))
        .collect();
    let cases: Vec<PcpCase> = lines
        .iter()
        .flat_map(|&(workload, change)| {
            TUNINGS.map(|tuning| PcpCase { workload, tuning, costs: changed(costs, change) })
        })
        .collect();
    let runs = run_all(&cases)?;
    let pairs = lines.iter().zip(runs.chunks_exact(TUNINGS.len()));
    Ok(pairs.map(|(&(_, change), runs)| row(change, &runs[0], &runs[1])).collect())
}

fn row(change: Change, fixed: &PcpRuns, refill: &PcpRuns) -> Row {
    let (fixed, refill) = (fixed.median(), refill.median());
    Row {
        workload: fixed.workload,
        cost: change.map(|(name, _)| name),
        cost_ns: change.map(|(_, nanos)| nanos.0),
        fixed_allocated_gb_per_s: fixed.allocated_gb_per_s,
        refill_allocated_gb_per_s: refill.allocated_gb_per_s,
        ratio: refill.allocated_gb_per_s / fixed.allocated_gb_per_s,
        fixed_lock_wait_share: fixed.lock_wait_share,
        refill_lock_wait_share: refill.lock_wait_share,
    }
}

fn changes(costs: &Costs) -> Vec<Change> {
    let halved_and_doubled = costs
        .named()
        .into_iter()
        .flat_map(|(name, nanos)| [Some((name, Nanos(nanos.0 / 2))), Some((name, nanos * 2))]);
    std::iter::once(None).chain(halved_and_doubled).collect()
}

fn changed(costs: Costs, change: Change) -> Costs {
    let Some((name, nanos)) = change else { return costs };
    let price: Price = format!("{name}={}", nanos.0).parse().expect("a price has a name");
    costs.with(&price).expect("a price of this table")
}

pub(super) fn write(path: &Path, rows: &[Row], costs: &Costs) -> Result<(), Failure> {
    report::write(path, render(rows, costs))
}

fn render(rows: &[Row], costs: &Costs) -> Result<String, DrawError> {
    let said = "What refill gains over the fixed limit in virtual time, with the prices as they \
                are and with one of them halved or doubled.";
    let mut page = Page::new("Pagetide per-CPU lists: prices", said, &["halved", "doubled"]);
    for rows in rows.chunk_by(|one, other| one.workload == other.workload) {
        let usual = rows[0].ratio;
        let published = rows[0].workload.parse().ok().and_then(published_line).unwrap_or_default();
        let words = heading(rows[0].workload)
            + &paragraph(&format!("With the prices as they are: {usual:.2}."))
            + &remark(&published);
        let mut figures = Vec::new();
        for groups in groups(rows).chunks(GROUPS_A_PLOT) {
            let plot = bars(groups, usual, |ratio| format!("{ratio:.1}"))?;
            let title = format!("{} to {}", groups[0].title, groups[groups.len() - 1].title);
            let caption = "Throughput of refill over that of fixed, with that price another.";
            figures.push(Figure::new(plot, &title, caption));
        }
        page.section(&words, &figures, Some(&table(rows)));
    }
    Ok(page.finish("How this was run", &escape(&prices_line(costs))))
}

/// Makes a pair of bars per price, after the unchanged row.
fn groups(rows: &[Row]) -> Vec<Group> {
    let bar = |(row, name): (&Row, &str)| Bar {
        name: name.to_owned(),
        value: row.ratio,
        label: format!("{:.2}", row.ratio),
    };
    let group = |pair: &[Row]| Group {
        title: pair[0].cost.unwrap_or_default().to_owned(),
        bars: pair.iter().zip(["halved", "doubled"]).map(bar).collect(),
    };
    rows[1..].chunks_exact(2).map(group).collect()
}

pub(super) fn text(rows: &[Row], costs: &Costs) -> String {
    let blocks: String = rows
        .chunk_by(|one, other| one.workload == other.workload)
        .map(|rows| format!("{}\n{}\n", rows[0].workload, table(rows).to_text()))
        .collect();
    format!("{blocks}{}\n", prices_line(costs))
}

fn table(rows: &[Row]) -> Table<'static> {
    let columns = [
        left("price, ns", 23),
        right("fixed GB/s", 10),
        right("refill GB/s", 12),
        right("ratio", 7),
        right("wait of fixed", 13),
        right("of refill", 13),
    ];
    let cells_of = |row: &Row| {
        let price = match (row.cost, row.cost_ns) {
            (Some(name), Some(ns)) => format!("{name} {ns}"),
            _ => "as they are".to_owned(),
        };
        let decimals = |value: f64| format!("{value:.2}");
        cells![
            price,
            decimals(row.fixed_allocated_gb_per_s),
            decimals(row.refill_allocated_gb_per_s),
            decimals(row.ratio),
            percent(row.fixed_lock_wait_share, 2),
            percent(row.refill_lock_wait_share, 2),
        ]
    };
    Table::new(&columns).spaced("  ", " ").with_rows(rows.iter().map(cells_of))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagetide_lab::machine::pcp;

    #[test]
    fn each_price_is_halved_and_doubled_alone() {
        let costs = Costs::HOST;
        let changes = changes(&costs);
        assert_eq!(changes.len(), 1 + 2 * costs.named().len());
        assert_eq!(changed(costs, changes[0]), costs);
        for change in &changes[1..] {
            let (name, nanos) = change.expect("a price is another");
            let before = costs.named();
            let after = changed(costs, *change).named();
            for ((name_before, was), (_, is)) in before.into_iter().zip(after) {
                let is_it = name_before == name;
                assert_eq!(is, if is_it { nanos } else { was }, "{name}");
                assert!(!is_it || is == Nanos(was.0 / 2) || is == was * 2, "{name}");
            }
        }
    }

    #[test]
    fn a_line_has_both_tunings_and_the_table_all_prices() {
        let run_all = |cases: &[PcpCase]| {
            let runs = |case: &PcpCase| {
                let outcome = pcp::PcpOutcome {
                    row: pcp::PcpRow {
                        workload: case.workload.as_str(),
                        tuning: case.tuning.as_str(),
                        cpus: 56,
                        allocated_gb_per_s: if case.tuning == PcpTuning::Fixed {
                            10.0
                        } else {
                            25.0
                        },
                        lock_wait_share: case.costs.named()[0].1.0 as f64 / 1e3,
                        alloc_p99_ns: 1,
                        free_p99_ns: 2,
                        zone_pages: 3,
                        idle_pages: 4,
                    },
                    samples: Vec::new(),
                    nr_failed: 0,
                    batch: 63,
                };
                let outcomes = vec![outcome];
                PcpRuns { workload: case.workload, tuning: case.tuning, outcomes }
            };
            Ok(cases.iter().map(runs).collect())
        };
        let workloads = [PcpWorkload::PageFault1, PcpWorkload::Netperf];
        let rows = rows(&workloads, Costs::HOST, run_all).expect("nothing fails");
        assert_eq!(rows.len(), 2 * (1 + 2 * Costs::HOST.named().len()));
        assert!(rows.iter().all(|row| row.ratio == 2.5));
        let value = serde_json::to_value(rows[1]).expect("it serializes");
        assert_eq!((&value["cost"], &value["cost_ns"]), (&"list_hit".into(), &6.into()));
        assert_eq!(value["fixed_lock_wait_share"], 0.006);
        let page = render(&rows, &Costs::HOST).expect("it draws");
        assert_eq!(page.matches("<svg").count(), 2 * Costs::HOST.named().len() / GROUPS_A_PLOT);
        report::assert_stands_alone(&page);
        let text = text(&rows, &Costs::HOST);
        assert_eq!(text.matches("as they are").count(), 2, "{text}");
        assert!(text.contains("zone_lines 2276") && text.contains("Prices in ns"), "{text}");
    }
}

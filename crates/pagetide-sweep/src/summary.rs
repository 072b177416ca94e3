//! The summary of a sweep: each policy's standing among the policies, per group of traces.
//!
//! A policy wins if no policy missed less, and ties are wins of all. Its regret is the difference
//! of its miss ratio and the best, for the same trace and memory. Belady's bound is not a policy,
//! so it neither wins nor counts as best.

use crate::table::TableRow;
use serde::Serialize;
use std::collections::BTreeMap;

/// One policy's standing in one group.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Standing {
    /// The folder of the traces, `None` for all traces.
    pub group: Option<String>,
    /// The policy's name.
    pub policy: &'static str,
    /// Traces by sizes in the comparison.
    pub nr_cells: u64,
    /// The share of won cells, 0 to 1.
    pub win_rate: f64,
    /// The mean regret, as a difference of miss ratios.
    pub regret_mean: f64,
    /// The largest regret.
    pub regret_max: f64,
    /// The trace of the largest regret.
    pub worst_trace: String,
    /// The size of the largest regret.
    pub worst_size: String,
}

#[derive(Default)]
struct Sum<'a> {
    nr_cells: u64,
    nr_wins: u64,
    regret: f64,
    worst: Option<(f64, &'a TableRow)>,
}

/// Returns the standings of each group (if several), then of all traces, each by ascending regret.
pub fn summarize(rows: &[TableRow]) -> Vec<Standing> {
    let mut of_cell: BTreeMap<(&str, &str), Vec<(&TableRow, f64)>> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.policy != "opt") {
        if let Some(numbers) = &row.numbers {
            of_cell.entry((&row.trace, &row.size)).or_default().push((row, numbers.miss_ratio()));
        }
    }
    let mut sums: BTreeMap<(Option<&str>, &'static str), Sum<'_>> = BTreeMap::new();
    for compared in of_cell.values() {
        let best = compared.iter().map(|(_, ratio)| *ratio).fold(f64::MAX, f64::min);
        for (row, ratio) in compared {
            for group in [Some(row.group.as_str()), None] {
                let sum = sums.entry((group, row.policy)).or_default();
                let regret = ratio - best;
                sum.nr_cells += 1;
                sum.nr_wins += u64::from(regret == 0.0);
                sum.regret += regret;
                if sum.worst.is_none_or(|(worst, _)| regret > worst) {
                    sum.worst = Some((regret, row));
                }
            }
        }
    }
    let nr_groups = sums
        .keys()
        .filter_map(|(group, _)| *group)
        .collect::<std::collections::BTreeSet<_>>()
        .len();
    let mut standings: Vec<Standing> = sums
        .into_iter()
        .filter(|((group, _), _)| group.is_none() || nr_groups > 1)
        .filter_map(|((group, policy), sum)| standing(group, policy, &sum))
        .collect();
    // All traces come last, whatever the groups' names.
    standings.sort_by(|a, b| {
        let by_group = (a.group.is_none(), &a.group).cmp(&(b.group.is_none(), &b.group));
        by_group.then(a.regret_mean.total_cmp(&b.regret_mean)).then(a.policy.cmp(b.policy))
    });
    standings
}

fn standing(group: Option<&str>, policy: &'static str, sum: &Sum<'_>) -> Option<Standing> {
    let (regret_max, worst) = sum.worst?;
    let nr_cells = sum.nr_cells as f64;
    Some(Standing {
        group: group.map(str::to_owned),
        policy,
        nr_cells: sum.nr_cells,
        win_rate: sum.nr_wins as f64 / nr_cells,
        regret_mean: sum.regret / nr_cells,
        regret_max,
        worst_trace: worst.trace.clone(),
        worst_size: worst.size.clone(),
    })
}

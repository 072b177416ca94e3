//! The table of policies by regret over many traces and memories.
//!
//! The regret of a policy on a row is its miss ratio minus the best published policy's, in points.
//! Our own policy and the optimum do not count as published.

use super::grid::table;
use serde::Deserialize;
use std::collections::BTreeMap;

/// Miss ratios of the policies on a row, as `pagetide-tune --policies` writes them.
#[derive(Debug, Deserialize)]
struct RegretRow {
    row: String,
    commit: String,
    seeds: u32,
    miss_ratios: BTreeMap<String, f64>,
}

const OUR_OWN: &str = "pagetide";
/// Distance from the best, in points, that counts as equal.
const NEAR: f64 = 1.0;

/// Returns the table and its description.
///
/// # Errors
/// Fails if a line is no row, or the tree had changes.
pub(in crate::results) fn part(rows: &str) -> Result<String, String> {
    let parse = |line| serde_json::from_str(line).map_err(|error| format!("a row: {error}"));
    let rows: Vec<RegretRow> = rows.lines().map(parse).collect::<Result<_, String>>()?;
    let Some(first) = rows.first() else { return Ok("Not measured.\n".to_owned()) };
    if rows.iter().any(|row| row.commit != first.commit || row.commit.ends_with("-dirty")) {
        return Err("the rows of regret are of several commits, or of none".to_owned());
    }
    let mut lines: Vec<(f64, Vec<String>)> =
        first.miss_ratios.keys().map(|policy| line(policy, &rows)).collect();
    lines.sort_by(|one, other| one.0.total_cmp(&other.0));
    let head = ["policy", "mean", "90th percentile", "worst, on", "within a point, %"];
    Ok(format!(
        "`pagetide-tune --policies --seeds {}` at {}, {} rows:\n\n{}",
        first.seeds,
        first.commit,
        rows.len(),
        table(&head.map(str::to_owned), lines.into_iter().map(|(_, cells)| cells))
    ))
}

fn line(policy: &str, rows: &[RegretRow]) -> (f64, Vec<String>) {
    let regret = |row: &RegretRow| {
        let published = row.miss_ratios.iter().filter(|(name, _)| *name != OUR_OWN);
        let best = published.map(|(_, ratio)| *ratio).fold(f64::INFINITY, f64::min);
        100.0 * (row.miss_ratios[policy] - best)
    };
    let mut regrets: Vec<(f64, &str)> =
        rows.iter().map(|row| (regret(row), row.row.as_str())).collect();
    regrets.sort_by(|one, other| one.0.total_cmp(&other.0));
    let count = regrets.len();
    let mean = regrets.iter().map(|it| it.0).sum::<f64>() / count as f64;
    let (worst, on) = regrets[count - 1];
    let nr_near = regrets.iter().filter(|it| it.0 <= NEAR).count();
    let cells = vec![
        format!("`{policy}`"),
        format!("{mean:.2}"),
        format!("{:.2}", regrets[(count * 9).div_ceil(10) - 1].0),
        format!("{worst:.2}, {on}"),
        format!("{}", (100 * nr_near + count / 2) / count),
    ];
    (mean, cells)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_is_compared_with_the_best_published_one_row_by_row() {
        let row = |name: &str, ours: f64, lru: f64| {
            format!(
                "{{\"row\":\"{name}\",\"commit\":\"abc\",\"seeds\":8,\"miss_ratios\":\
                 {{\"pagetide\":{ours},\"lru\":{lru},\"arc\":0.5}}}}\n"
            )
        };
        let rows = row("a@1", 0.50, 0.52) + &row("b@2", 0.41, 0.40);
        let text = part(&rows).expect("rows");
        for line in [
            "at abc, 2 rows:\n\n| policy | mean |",
            "| `pagetide` | 0.50 | 1.00 | 1.00, b@2 | 100 |\n",
            "| `lru` | 1.00 | 2.00 | 2.00, a@1 | 50 |\n",
            "| `arc` | 5.00 | 10.00 | 10.00, b@2 | 50 |\n",
        ] {
            assert!(text.contains(line), "{line} is missing: {text}");
        }
        let refused = part(&rows.replacen("abc", "abc-dirty", 1));
        assert!(refused.is_err() && part("{}\n").is_err());
    }
}

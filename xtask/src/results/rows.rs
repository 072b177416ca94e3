//! Reads the rows in `results/*.jsonl`, and refuses inconsistent ones.

use serde::Deserialize;

/// A measured row, as `pagetide ... --results` appends it.
#[derive(Clone, PartialEq, Debug, Deserialize)]
pub(super) struct ResultRow {
    pub(super) command: String,
    pub(super) commit: String,
    pub(super) machine: String,
    pub(super) case: String,
    pub(super) subject: String,
    pub(super) unit: String,
    pub(super) runs: u32,
    pub(super) median: f64,
    pub(super) min: f64,
    pub(super) max: f64,
    pub(super) reference: Option<String>,
    pub(super) reference_median: Option<f64>,
    pub(super) ratio: Option<f64>,
    pub(super) ratio_min: Option<f64>,
    pub(super) ratio_max: Option<f64>,
    pub(super) verdict: Option<String>,
}

/// Returns the rows of one file.
///
/// # Errors
/// Names the first line that is no row.
pub(super) fn parse(path: &str, text: &str) -> Result<Vec<ResultRow>, String> {
    let row = |(line, text): (usize, &str)| {
        serde_json::from_str(text).map_err(|error| format!("{path}:{}: {error}", line + 1))
    };
    text.lines().enumerate().map(row).collect()
}

/// Checks that the rows of a section have one commit and one machine.
///
/// # Errors
/// Returns a sentence if they have several, none, or a commit with uncommitted changes.
pub(super) fn check_origin(rows: &[ResultRow]) -> Result<(), String> {
    let commit = only("commits", rows.iter().map(|row| row.commit.as_str()))?;
    if commit.ends_with("-dirty") || commit == "unknown" {
        return Err(format!("the rows are of {commit}: commit first, then measure again"));
    }
    only("machines", rows.iter().map(|row| row.machine.as_str())).map(drop)
}

fn only<'a>(what: &str, names: impl Iterator<Item = &'a str>) -> Result<&'a str, String> {
    let mut distinct: Vec<&str> = names.collect();
    distinct.sort_unstable();
    distinct.dedup();
    match distinct[..] {
        [one] => Ok(one),
        [] => Err("there are no rows: `cargo x measure` makes them".to_owned()),
        _ => Err(format!("the rows are of several {what}: {}", distinct.join("; "))),
    }
}

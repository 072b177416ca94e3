//! `--policies`: the miss ratios of every policy on each row, one JSON object per line.
//!
//! ```text
//!   {"row": "OLTP@1000", "commit": "6e75936da915", "seeds": 8, "miss_ratios": {"lru": 0.6717,...
//! ```
//!
//! `cargo x results` makes the table in docs/policies.md of these lines. Earlier forms of the
//! kernel's policies are left out.

use crate::replays;
use crate::rows::Row;
use pagetide_core::lru::PolicyName;
use pagetide_core::lru::own::Tuning;
use pagetide_lab::replay::{self, Contender};
use pagetide_lab::trace::DenseTrace;
use rayon::prelude::*;
use serde::Serialize;
use std::collections::BTreeMap;
use std::process::Command;

const LEFT_OUT: [PolicyName; 4] = [
    PolicyName::Mglru61,
    PolicyName::ActiveInactive315,
    PolicyName::ActiveInactive2013,
    PolicyName::ActiveInactiveVanilla,
];

#[derive(Debug, Serialize)]
struct Line<'a> {
    row: &'a str,
    commit: &'a str,
    /// Samples of the policy called pagetide. The median ratio counts.
    seeds: u64,
    miss_ratios: BTreeMap<&'static str, f64>,
}

/// Returns a row's line, with the median of `seeds` samples for the policy called pagetide.
pub(crate) fn line(row: &Row, trace: &DenseTrace, seeds: u64) -> String {
    let of_seed =
        |seed| replays::miss_ratio(trace, row.frames, Tuning { seed, ..Tuning::default() });
    let miss_ratio = |policy: PolicyName| match policy {
        PolicyName::Pagetide => {
            let ratios: Vec<f64> = (0..seeds).into_par_iter().map(of_seed).collect();
            replays::median(ratios)
        }
        other => replay::run(Contender::Policy(other), trace, row.frames).miss_ratio(),
    };
    let shown = PolicyName::ALL.par_iter().filter(|policy| !LEFT_OUT.contains(policy));
    let miss_ratios = shown.map(|&policy| (policy.as_str(), miss_ratio(policy))).collect();
    let line = Line { row: row.name, commit: &commit(), seeds, miss_ratios };
    serde_json::to_string(&line).expect("numbers and names")
}

/// Returns the commit of this tree, with `-dirty` for changes, or `unknown` without git.
fn commit() -> String {
    let words = ["describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"];
    let said = Command::new("git").args(words).output().map(|output| output.stdout);
    let said = said.ok().and_then(|text| String::from_utf8(text).ok()).unwrap_or_default();
    if said.trim().is_empty() { "unknown".to_owned() } else { said.trim().to_owned() }
}

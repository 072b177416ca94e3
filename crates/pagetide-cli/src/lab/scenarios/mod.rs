//! Scenarios over several seeds, each metric with its range and the published claim.
//!
//! ```text
//!   NAME... --> scenarios --+--> x subjects x seeds --> rows --+--> table or JSON
//!   --policy --> subjects --+    (all cores)                   +--> report
//! ```
//!
//! Ignored: durations. Virtual memory has no speed.

mod plays;
mod report;

use super::play_args::PlayArgs;
use crate::document::Document;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::results::Measured;
use pagetide_core::lru::PolicyName;
use pagetide_lab::scenario::{PolicyVariant, Scenario, SummaryRow, summarize};
use plays::Played;
use std::fmt::Write;

const SEEDS: u64 = 10;

pub(super) fn run(args: &PlayArgs, interrupt: &Interrupt) -> Result<(), Failure> {
    let mut cases: Vec<(&'static Scenario, PolicyVariant)> = Vec::new();
    for scenario in scenarios(&args.names)? {
        cases.extend(subjects(&args.policy)?.into_iter().map(|subject| (scenario, subject)));
    }
    let played = plays::run(&cases, &args.seeds(SEEDS), args.output.jobs, interrupt)?;
    let rows: Vec<SummaryRow> =
        played.iter().flat_map(|it| summarize(it.scenario, it.subject, &it.plays)).collect();
    if let Some(path) = &args.output.report {
        report::write(path, &played, &rows)?;
    }
    args.output.results.append(|| rows.iter().map(to_result).collect())?;
    let document = Document::new("pagetide.lab.scenarios/1", &rows);
    args.output.json.print(&document, || text(&played, &rows))
}

/// Takes the source's claim as reference.
fn to_result(row: &SummaryRow) -> Measured {
    Measured {
        reference: (!row.claim.is_empty()).then(|| row.claim.to_owned()),
        median: row.median,
        min: row.low,
        max: row.high,
        runs: row.seeds as u32,
        ..Measured::once(format!("{}: {}", row.scenario, row.metric), &row.policy, "", row.median)
    }
}

fn scenarios(names: &[String]) -> Result<Vec<&'static Scenario>, Failure> {
    if names == ["all"] {
        return Ok(Scenario::ALL.iter().collect());
    }
    let named = |name: &String| {
        let refused = |unknown| format!("{name}: {unknown}; `pagetide lab list` has workloads too");
        Scenario::named(name).map_err(|unknown| Failure::Usage(refused(unknown)))
    };
    names.iter().map(named).collect()
}

fn subjects(names: &[String]) -> Result<Vec<PolicyVariant>, Failure> {
    if names == ["all"] {
        return Ok(PolicyName::ALL.iter().copied().map(PolicyVariant::from).collect());
    }
    if names.is_empty() {
        let usual = PolicyName::ALL.iter().copied().filter(|policy| is_usual(policy.as_str()));
        return Ok(usual.map(PolicyVariant::from).collect());
    }
    let named = |name: &String| {
        name.parse().map_err(|error| Failure::Usage(format!("--policy {name}: {error}")))
    };
    names.iter().map(named).collect()
}

/// Returns true for the kernel's designs, Pagetide's, and LRU.
fn is_usual(policy: &str) -> bool {
    let families = ["mglru", "active-inactive", "pagetide"];
    policy == "lru" || families.iter().any(|family| policy.starts_with(family))
}

fn text(played: &[Played], rows: &[SummaryRow]) -> String {
    let mut text = String::new();
    for (at, it) in played.iter().enumerate() {
        let scenario = it.scenario;
        if at > 0 && played[at - 1].scenario.name == scenario.name {
            continue;
        }
        let _ = writeln!(text, "{}: {} Seeds: {}.", scenario.name, scenario.story, it.plays.len());
        for metric in scenario.metrics {
            let _ = writeln!(text, "  {}: {}", metric.name, metric.meaning);
            let of_metric = rows
                .iter()
                .filter(|row| row.scenario == scenario.name && row.metric == metric.name);
            for row in of_metric {
                let range = format!("[{}, {}]", number(row.low), number(row.high));
                let said = if row.claim.is_empty() { "" } else { "  claim: " };
                let line = format!(
                    "    {:<34} {:>10} {:>18}{said}{}",
                    row.policy,
                    number(row.median),
                    range,
                    row.claim
                );
                let _ = writeln!(text, "{}", line.trim_end());
            }
        }
        text.push('\n');
    }
    text
}

fn number(value: f64) -> String {
    if value.fract() == 0.0 { format!("{value:.0}") } else { format!("{value:.2}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parallel::JobsArgs;

    fn names(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn an_unknown_scenario_is_a_usage_error_that_lists_them() {
        let failure = scenarios(&names(&["wschang"])).expect_err("no such name");
        assert_eq!(failure.exit_code(), 2);
        let sentence = failure.to_string();
        assert!(
            sentence.starts_with("wschang: unknown scenario; there are wschange"),
            "{sentence}"
        );
        assert!(!sentence.contains('\n'));
    }

    #[test]
    fn all_means_all_and_none_means_the_usual() {
        assert_eq!(scenarios(&names(&["all"])).expect("all").len(), Scenario::ALL.len());
        let all = subjects(&names(&["all"])).expect("all");
        assert_eq!(all.len(), PolicyName::ALL.len());
        let usual = subjects(&[]).expect("the usual");
        assert!(usual.contains(&PolicyName::Mglru.into()) && usual.len() < all.len());
        let failure = subjects(&names(&["lru~tiers"])).expect_err("lru has no tiers");
        assert_eq!(
            (failure.exit_code(), failure.to_string().as_str()),
            (2, "--policy lru~tiers: lru has no mechanism tiers")
        );
    }

    #[test]
    fn the_table_has_a_line_for_each_metric_and_subject_with_its_claim() {
        let scenario = Scenario::named("wsprotect").expect("it exists");
        let cases = subjects(&names(&["mglru", "lru"])).expect("subjects");
        let cases: Vec<_> = cases.into_iter().map(|subject| (scenario, subject)).collect();
        let played = plays::run(&cases, &[1, 2], JobsArgs::default(), &Interrupt::default())
            .expect("it plays");
        let rows: Vec<SummaryRow> =
            played.iter().flat_map(|it| summarize(it.scenario, it.subject, &it.plays)).collect();
        assert_eq!(rows.len(), 2 * scenario.metrics.len());
        let text = text(&played, &rows);
        assert_eq!(text.matches("\n    mglru ").count(), scenario.metrics.len(), "{text}");
        assert!(text.contains("claim: 6.18 in 5 boots: 100"), "{text}");
    }
}

//! `pagetide lab list`: the scenarios with their metrics.

use crate::document::Document;
use crate::failure::Failure;
use crate::terminal::JsonArgs;
use pagetide_lab::machine::pcp::PcpWorkload;
use pagetide_lab::scenario::Scenario;
use pagetide_lab::tiers::programs::TierWorkload;
use serde::Serialize;

const EXAMPLES: &str = "Examples:
  pagetide lab list
  pagetide lab list --json";

const WORKLOADS_SOURCE: &str = "Y. Huang, mm: PCP high auto-tuning, RFC of July 2023";
/// The JSON fields of `lab run pcp-...`.
const WORKLOAD_METRICS: [(&str, &str); 6] = [
    ("allocated_gb_per_s", "pages taken and freed again, GB (10^9 bytes) a second"),
    ("lock_wait_share", "waiting for the zone's lock, of the time not idle, 0 to 1"),
    ("alloc_p99_ns", "99th percentile of allocating a page"),
    ("free_p99_ns", "99th percentile of freeing a page"),
    ("zone_pages", "pages that entered or left the zone's lists"),
    ("idle_pages", "pages on all per-CPU lists, the mean"),
];

const TIERS_SOURCE: &str = "Huang Ying, memory tiering: hot page selection, version 4, June 2022";
/// The JSON fields of `lab run pmbench`.
const TIER_METRICS: [(&str, &str); 8] = [
    ("accesses_per_s", "accesses a second"),
    ("promotion_mb_per_s", "moved to fast memory, MB (2^20 bytes) a second"),
    ("demotion_mb_per_s", "moved to slow memory"),
    ("hint_faults", "faults on armed pages"),
    ("fast_share", "accesses that fast memory served, 0 to 1"),
    ("precision", "promotions that earned back what they cost, 0 to 1"),
    ("recall", "accesses of the oracle's hot pages that fast memory served, 0 to 1"),
    ("ping_pong", "promotions demoted within a minute, 0 to 1"),
];

/// List the scenarios, and the workloads of the per-CPU lists and of fast and slow memory.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    json: JsonArgs,
}

#[derive(Serialize)]
struct Listed {
    name: &'static str,
    story: &'static str,
    source: &'static str,
    metrics: Vec<ListedMetric>,
}

#[derive(Serialize)]
struct ListedMetric {
    name: &'static str,
    meaning: &'static str,
}

pub(crate) fn run(args: &ListArgs) -> Result<(), Failure> {
    args.json.print(&Document::new("pagetide.lab.list/1", all()), text)
}

fn text() -> String {
    let mut text = String::new();
    for scenario in Scenario::ALL {
        text.push_str(&format!("{}\n  {}\n", scenario.name, scenario.story));
        text.push_str(&format!("  Source: {}.\n", scenario.source));
        for metric in scenario.metrics {
            text.push_str(&format!("    {:<36} {}\n", metric.name, metric.meaning));
        }
    }
    for workload in PcpWorkload::ALL {
        text.push_str(&format!("{workload}\n  {}\n", workload.summary()));
    }
    for workload in TierWorkload::ALL {
        text.push_str(&format!("{workload}\n  {}\n", workload.summary()));
    }
    text
}

fn all() -> Vec<Listed> {
    let lists = PcpWorkload::ALL
        .map(|it| listed_workload(it.as_str(), it.summary(), WORKLOADS_SOURCE, &WORKLOAD_METRICS));
    let tiers = TierWorkload::ALL
        .map(|it| listed_workload(it.as_str(), it.summary(), TIERS_SOURCE, &TIER_METRICS));
    Scenario::ALL.iter().map(listed).chain(lists).chain(tiers).collect()
}

fn listed_workload(
    name: &'static str,
    story: &'static str,
    source: &'static str,
    metrics: &[(&'static str, &'static str)],
) -> Listed {
    let metrics = metrics.iter().map(|&(name, meaning)| ListedMetric { name, meaning }).collect();
    Listed { name, story, source, metrics }
}

fn listed(scenario: &Scenario) -> Listed {
    let metrics = scenario.metrics.iter();
    Listed {
        name: scenario.name,
        story: scenario.story,
        source: scenario.source,
        metrics: metrics
            .map(|metric| ListedMetric { name: metric.name, meaning: metric.meaning })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagetide_core::page_alloc::PcpTuning;
    use pagetide_lab::machine::pcp::PcpRow;

    #[test]
    fn everything_that_runs_is_listed_with_the_fields_its_row_has() {
        let all = all();
        let names: Vec<&str> = all.iter().map(|it| it.name).collect();
        assert!(PcpWorkload::ALL.iter().all(|it| names.contains(&it.as_str())), "{names:?}");
        assert!(Scenario::ALL.iter().all(|it| names.contains(&it.name)), "{names:?}");
        let row = PcpRow {
            workload: "",
            tuning: PcpTuning::Fixed.as_str(),
            cpus: 1,
            allocated_gb_per_s: 0.0,
            lock_wait_share: 0.0,
            alloc_p99_ns: 0,
            free_p99_ns: 0,
            zone_pages: 0,
            idle_pages: 0,
        };
        let row = serde_json::to_value(row).expect("it serializes");
        assert!(WORKLOAD_METRICS.iter().all(|(name, _)| row.get(name).is_some()));
        assert!(TierWorkload::ALL.iter().all(|it| names.contains(&it.as_str())), "{names:?}");
    }
}

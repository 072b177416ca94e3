//! `pagetide lab list`: which scenarios there are, and what each one measures.

use crate::failure::Failure;
use crate::terminal;
use pagetide_lab::machine::pcp::PcpWorkload;
use pagetide_lab::scenario::Scenario;
use serde::Serialize;

const EXAMPLES: &str = "Examples:
  pagetide lab list
  pagetide lab list --json";

/// List the scenarios.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ListArgs {
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
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

/// Runs the command.
///
/// # Errors
/// Where stdout cannot take the list.
pub(crate) fn run(args: &ListArgs) -> Result<(), Failure> {
    if args.json {
        return terminal::print_json(&Scenario::ALL.iter().map(listed).collect::<Vec<_>>());
    }
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
    terminal::print(&text)
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

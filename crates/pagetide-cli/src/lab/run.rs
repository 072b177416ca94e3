//! `pagetide lab run`: scenarios over several seeds, each metric with its range and the claim.
//!
//! Problem: one run of one policy proves little, and a number without what others said of it proves
//! less. Idea: every subject plays every seed; a row is a metric's median, its two ends, and what
//! the scenario's source says.
//!
//! ```text
//!   NAME... --> scenarios --+--> x subjects x seeds --> rows --+--> table or JSON
//!   --policy --> subjects --+    (all cores)                   +--> report
//! ```
//!
//! Ignored: how long anything took; virtual memory has no speed.

use super::pcp;
use super::plays::{self, Played};
use super::tiers;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::{output, report, terminal};
use pagetide_core::lru::PolicyName;
use pagetide_lab::scenario::{PolicyVariant, Scenario, SummaryRow, summarize};
use std::fmt::Write;
use std::num::{NonZeroU64, NonZeroUsize};
use std::path::PathBuf;

const EXAMPLES: &str = "Examples:
  pagetide lab run wschange
  pagetide lab run wsprotect --policy mglru,mglru~tiers,lru
  pagetide lab run get-scan fio-randread --policy all --seeds 30 --json
  pagetide lab run all --report scenarios.html
  pagetide lab run wschange wsprotect --causes           why kernels differ from boot to boot
  pagetide lab run wschange --first-seed 7 --seeds 1     one seed again

A subject is a policy, as `pagetide policies` lists them, with ~MECHANISM for each mechanism to be
turned the other way (mglru~tiers is mglru without tiers), and @stale-statistics,
@readahead-in-flight or @background-reclaim for what a real machine does to it; @booted is all of
that at the size of the machine that was booted, and @booted-fresh the same with live statistics.";

/// Play scenarios over several seeds, in virtual memory.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RunArgs {
    /// Scenarios or workloads, as `pagetide lab list` names them; or all, pcp-all, tier-all.
    #[arg(required = true, value_name = "NAME")]
    pub(super) names: Vec<String>,
    /// Who plays: policies, with ~MECHANISM to flip one; or all. Without: ours, the kernel's and
    /// lru.
    #[arg(long, value_delimiter = ',', value_name = "SUBJECT")]
    pub(super) policy: Vec<String>,
    /// Play the suspected causes of why real kernels differ from boot to boot, one subject each
    /// beside the design as it is; of wschange and wsprotect.
    #[arg(long, conflicts_with = "policy")]
    causes: bool,
    /// How many seeds: 10 without, and 1 for pcp-..., pmbench and tier-... .
    #[arg(long)]
    pub(super) seeds: Option<NonZeroU64>,
    /// The first of them.
    #[arg(long, default_value_t = 1)]
    pub(super) first_seed: u64,
    /// Plays under way at a time; as many as there are cores without.
    #[arg(long)]
    pub(super) jobs: Option<NonZeroUsize>,
    /// Write a report with plots, one self-contained HTML file.
    #[arg(long)]
    pub(super) report: Option<PathBuf>,
    /// Print the rows as one JSON document.
    #[arg(long)]
    pub(super) json: bool,
    #[command(flatten)]
    pub(super) pcp: pcp::PcpArgs,
    #[command(flatten)]
    pub(super) tiers: tiers::TierArgs,
}

const SEEDS: u64 = 10;

/// Runs the command.
///
/// # Errors
/// A scenario or subject nobody knows (usage), a report that cannot be written, an interrupt.
pub(crate) fn run(args: &RunArgs, interrupt: &Interrupt) -> Result<(), Failure> {
    output::check("the report", &args.report)?;
    if is_about_tiers(args)? {
        return tiers::run(args, interrupt);
    }
    if is_about_lists(args)? {
        return pcp::run(args, interrupt);
    }
    let scenarios = scenarios(&args.names)?;
    let mut casts: Vec<(&'static Scenario, PolicyVariant)> = Vec::new();
    for scenario in scenarios {
        let subjects = if args.causes { causes(scenario)? } else { subjects(&args.policy)? };
        casts.extend(subjects.into_iter().map(|subject| (scenario, subject)));
    }
    let last_seed = args.first_seed.saturating_add(args.seeds.map_or(SEEDS, NonZeroU64::get) - 1);
    let played = plays::run(&casts, args.first_seed..=last_seed, args.jobs, interrupt)?;
    let rows: Vec<SummaryRow> =
        played.iter().flat_map(|it| summarize(it.scenario, it.subject, &it.plays)).collect();
    if let Some(path) = &args.report {
        report::write_scenarios(path, &played, &rows)?;
    }
    if args.json { terminal::print_json(&rows) } else { terminal::print(&table(&played, &rows)) }
}

/// Whether the names are workloads of fast and slow memory: all of them, or none.
fn is_about_tiers(args: &RunArgs) -> Result<bool, Failure> {
    let nr_of_tiers = args.names.iter().filter(|name| tiers::is_named(name)).count();
    let refused = |sentence: &str| Err(Failure::Usage(sentence.to_owned()));
    match nr_of_tiers {
        0 if args.tiers.is_given() => {
            refused("--off, --ratio, --scale, --rate-limit and --grid are for pmbench and tier-...")
        }
        0 => Ok(false),
        all if all < args.names.len() => refused("pmbench and tier-... run apart from the others"),
        _ if args.causes || args.pcp.is_about_lists() => {
            refused("pmbench and tier-... have stages, not causes or tunings of lists")
        }
        _ => Ok(true),
    }
}

/// Whether the names are the per-CPU lists' workloads: all of them, or none.
fn is_about_lists(args: &RunArgs) -> Result<bool, Failure> {
    let nr_of_lists = args.names.iter().filter(|name| name.starts_with(pcp::PREFIX)).count();
    let refused = |sentence: &str| Err(Failure::Usage(sentence.to_owned()));
    match nr_of_lists {
        0 if args.pcp.is_given() => refused(
            "--tuning and --sensitivity are for pcp-... workloads, --cost for those and tier-...",
        ),
        0 => Ok(false),
        all if all < args.names.len() => refused("pcp-... workloads and scenarios run apart"),
        _ if args.causes || !args.policy.is_empty() => {
            refused("pcp-... workloads have tunings, not policies")
        }
        _ => Ok(true),
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

fn causes(scenario: &Scenario) -> Result<Vec<PolicyVariant>, Failure> {
    if scenario.causes.is_empty() {
        let name = scenario.name;
        return Err(Failure::Usage(format!(
            "--causes is for wschange and wsprotect: of {name} no kernel was seen to differ"
        )));
    }
    subjects(&scenario.causes.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())
}

/// The kernel's designs, what we make of them, and the plainest policy to compare with.
fn is_usual(policy: &str) -> bool {
    let families = ["mglru", "active-inactive", "pagetide"];
    policy == "lru" || families.iter().any(|family| policy.starts_with(family))
}

/// A block a scenario: a line for each metric and subject.
fn table(played: &[Played], rows: &[SummaryRow]) -> String {
    let mut text = String::new();
    for (at, it) in played.iter().enumerate() {
        let scenario = it.scenario;
        if at > 0 && played[at - 1].scenario.name == scenario.name {
            continue;
        }
        // Writing to a string cannot fail.
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

/// A value without decimals that say nothing.
pub(super) fn number(value: f64) -> String {
    if value.fract() == 0.0 { format!("{value:.0}") } else { format!("{value:.2}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn an_unknown_scenario_is_a_usage_error_that_lists_them() {
        let failure = scenarios(&names(&["wschang"])).expect_err("nobody's name");
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
    fn causes_are_subjects_of_two_scenarios() {
        for scenario in Scenario::ALL {
            match causes(scenario) {
                Ok(subjects) => assert_eq!(subjects.len(), 9, "{}", scenario.name),
                Err(failure) => assert_eq!(failure.exit_code(), 2, "{}", scenario.name),
            }
        }
        assert!(causes(&Scenario::ALL[0]).is_ok());
    }

    #[test]
    fn the_table_has_a_line_for_each_metric_and_subject_with_its_claim() {
        let scenario = Scenario::named("wsprotect").expect("it exists");
        let casts = subjects(&names(&["mglru", "lru"])).expect("subjects");
        let casts: Vec<_> = casts.into_iter().map(|subject| (scenario, subject)).collect();
        let played = plays::run(&casts, 1..=2, None, &Interrupt::default()).expect("it plays");
        let rows: Vec<SummaryRow> =
            played.iter().flat_map(|it| summarize(it.scenario, it.subject, &it.plays)).collect();
        assert_eq!(rows.len(), 2 * scenario.metrics.len());
        let text = table(&played, &rows);
        assert_eq!(text.matches("\n    mglru ").count(), scenario.metrics.len(), "{text}");
        assert!(text.contains("claim: 6.18 in 5 boots: 100"), "{text}");
    }
}

//! `pagetide lab run pmbench`, `tier-...`: fast and slow memory under each promotion stage.
//!
//! Runs the published stages on a model of the published machine, beside all-fast, all-slow and
//! oracle placement and the published figures.
//!
//! ```text
//!   NAME... x --ratio x (judges, stages, --off) x --seeds --> machines --> table, JSON, report
//! ```

mod report;

use super::play_args::{PlayArgs, workloads};
use crate::document::Document;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::results::{Measured, range_of};
use crate::table::{Table, cells, left, percent, right};
use crate::tier::machines::{self, MachineRun};
use crate::tier::prices_with;
use pagetide_core::lru::PolicyName;
use pagetide_core::tiering::{Stage, TieringSwitches};
use pagetide_lab::tiers::programs::TierWorkload;
use pagetide_lab::tiers::{
    Placer, PublishedScore, Ratio, SCALE_MAX, TierOutcome, TierRow, TierSetup, change,
};
use serde::Serialize;
use std::fmt::Write;
use std::num::NonZeroU64;

/// The arguments of these workloads beyond those of every play.
#[derive(Debug, clap::Args)]
pub(super) struct TierArgs {
    /// For pmbench and tier-... only: one more row, everything on but these: hot-selection,
    /// rate-limit, auto-threshold.
    #[arg(long, value_delimiter = ',', value_name = "MECHANISM")]
    off: Vec<OffMechanism>,
    /// For pmbench and tier-... only: fast to slow memory, as in 1:1,1:4,1:16. 1:4 without.
    #[arg(long, value_delimiter = ',')]
    ratio: Vec<Ratio>,
    /// For pmbench and tier-... only: how many times 80 MiB the machine has.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=i64::from(SCALE_MAX)))]
    scale: Option<u32>,
    /// For pmbench and tier-... only: promotions a second at most, in MB, where they are limited.
    #[arg(long, value_name = "MB")]
    rate_limit: Option<NonZeroU64>,
}

/// A mechanism that `--off` takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum OffMechanism {
    HotSelection,
    RateLimit,
    AutoThreshold,
}

impl TierArgs {
    pub(super) fn is_given(&self) -> bool {
        let has_numbers = self.scale.is_some() || self.rate_limit.is_some();
        has_numbers || !(self.off.is_empty() && self.ratio.is_empty())
    }

    /// Returns the placer of `--off`.
    fn without(&self) -> Option<Placer> {
        let has = |mechanism| !self.off.contains(&mechanism);
        let switches = TieringSwitches {
            hot_selection: has(OffMechanism::HotSelection),
            rate_limit: has(OffMechanism::RateLimit),
            auto_threshold: has(OffMechanism::AutoThreshold),
            auto: false,
        };
        let name = match [switches.hot_selection, switches.rate_limit, switches.auto_threshold] {
            [true, true, true] => return None,
            [true, true, false] => "all~auto-threshold",
            [true, false, true] => "all~rate-limit",
            [true, false, false] => "all~rate-limit~auto-threshold",
            [false, true, true] => "all~hot-selection",
            [false, true, false] => "all~hot-selection~auto-threshold",
            [false, false, true] => "all~hot-selection~rate-limit",
            [false, false, false] => "all~all",
        };
        Some(Placer::Core { switches, name })
    }
}

pub(super) fn is_named(name: &str) -> bool {
    name == TierWorkload::Pmbench.as_str() || name.starts_with("tier-")
}

#[derive(Debug)]
struct TierRuns {
    workload: TierWorkload,
    ratio: Ratio,
    subject: Placer,
    /// Outcomes by seed, not empty.
    outcomes: Vec<TierOutcome>,
}

impl TierRuns {
    fn median(&self) -> TierRow {
        let median = |of: fn(&TierRow) -> f64| {
            let [_, median, _] = range_of(self.outcomes.iter().map(|it| of(&it.row)));
            median
        };
        TierRow {
            accesses_per_s: median(|row| row.accesses_per_s),
            promotion_mb_per_s: median(|row| row.promotion_mb_per_s),
            demotion_mb_per_s: median(|row| row.demotion_mb_per_s),
            hint_faults: median(|row| row.hint_faults as f64) as u64,
            fast_share: median(|row| row.fast_share),
            precision: median(|row| row.precision),
            recall: median(|row| row.recall),
            ping_pong: median(|row| row.ping_pong),
            ..self.outcomes[0].row
        }
    }
}

#[derive(Serialize)]
struct Line {
    #[serde(flatten)]
    row: TierRow,
    #[serde(skip_serializing_if = "Option::is_none")]
    fast_to_slow: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<u64>,
}

pub(super) fn run(plays: &PlayArgs, args: &TierArgs, interrupt: &Interrupt) -> Result<(), Failure> {
    let workloads = workloads(&plays.names, "tier-all", &TierWorkload::ALL)?;
    let setup = setup(plays, args)?;
    let ratios: &[Ratio] = if args.ratio.is_empty() { &[Ratio(4)] } else { &args.ratio };
    let seeds = plays.seeds(1);
    let mut cases = Vec::new();
    for &workload in &workloads {
        for &ratio in ratios {
            cases.extend(subjects(args).into_iter().map(|subject| (workload, ratio, subject)));
        }
    }
    let runs = run_all(cases, &seeds, setup, plays, interrupt)?;
    if let Some(path) = &plays.output.report {
        report::write(path, &runs, &setup.prices)?;
    }
    plays.output.results.append(|| blocks(&runs).flat_map(to_results).collect())?;
    let lines = lines(&runs, &seeds, ratios.len() > 1);
    plays.output.json.print(&Document::new("pagetide.lab.tiers/1", lines), || text(&runs, &setup))
}

fn subjects(args: &TierArgs) -> Vec<Placer> {
    let stages = Stage::ALL.into_iter().map(Placer::stage);
    Placer::JUDGES.into_iter().chain(stages).chain(args.without()).collect()
}

fn setup(plays: &PlayArgs, args: &TierArgs) -> Result<TierSetup, Failure> {
    let mut setup = args.scale.map_or_else(TierSetup::published, TierSetup::scaled);
    setup.prices = prices_with(&plays.cost)?;
    if let Some(rate) = args.rate_limit {
        setup = setup.with_rate_limit(rate.get());
    }
    match &plays.policy[..] {
        [] => {}
        [name] => {
            let refused = |error| Failure::Usage(format!("--policy {name}: {error}"));
            setup.policy = name.parse::<PolicyName>().map_err(refused)?;
        }
        _ => {
            let sentence = "pmbench and tier-... demote by one policy at a time";
            return Err(Failure::Usage(sentence.to_owned()));
        }
    }
    setup.topology().map_err(|error| Failure::Usage(error.to_string()))?;
    Ok(setup)
}

fn run_all(
    cases: Vec<(TierWorkload, Ratio, Placer)>,
    seeds: &[u64],
    setup: TierSetup,
    plays: &PlayArgs,
    interrupt: &Interrupt,
) -> Result<Vec<TierRuns>, Failure> {
    let mut to_run = Vec::new();
    for &(workload, ratio, subject) in &cases {
        let setup = setup.with_ratio(ratio);
        to_run.extend(seeds.iter().map(|&seed| MachineRun {
            setup,
            workload: workload.as_str(),
            program: Box::new(move || workload.program(setup.nr_pages, seed)),
            subject,
        }));
    }
    let mut outcomes = machines::run(&to_run, plays.output.jobs, interrupt)?.into_iter();
    let runs = |(workload, ratio, subject)| TierRuns {
        workload,
        ratio,
        subject,
        outcomes: outcomes.by_ref().take(seeds.len()).collect(),
    };
    Ok(cases.into_iter().map(runs).collect())
}

fn lines(runs: &[TierRuns], seeds: &[u64], has_ratios: bool) -> Vec<Line> {
    let mut lines = Vec::new();
    for it in runs {
        for (outcome, seed) in it.outcomes.iter().zip(seeds) {
            lines.push(Line {
                row: outcome.row,
                fast_to_slow: has_ratios.then(|| it.ratio.to_string()),
                seed: (seeds.len() > 1).then_some(*seed),
            });
        }
    }
    lines
}

fn text(runs: &[TierRuns], setup: &TierSetup) -> String {
    let mut text = String::new();
    for block in blocks(runs) {
        let (workload, ratio, nr_seeds) =
            (block[0].workload, block[0].ratio, block[0].outcomes.len());
        let summary = workload.summary();
        let _ = writeln!(text, "{workload}, fast to slow {ratio}: {summary}. Seeds: {nr_seeds}.");
        text.push_str(&table(block).spaced("  ", " ").to_text());
        text.push('\n');
    }
    let _ = writeln!(
        text,
        "Changes are against the line above; rates in MB a second, on a machine of {} GiB. \
         Where promotions are\nlimited: {:.0} MB a second. Prices, in ns where no unit is said: \
         {}.",
        (u64::from(setup.nr_frames[0] + setup.nr_frames[1]) * u64::from(setup.scale)) >> 18,
        setup.rate_limit_mb_per_s(),
        setup.prices
    );
    text
}

fn blocks(runs: &[TierRuns]) -> impl Iterator<Item = &[TierRuns]> {
    runs.chunk_by(|one, other| (one.workload, one.ratio) == (other.workload, other.ratio))
}

/// Takes all-fast memory as reference.
fn to_results(block: &[TierRuns]) -> Vec<Measured> {
    let is_all_fast = |it: &&TierRuns| matches!(it.subject, Placer::AllFast);
    let all_fast = block.iter().find(is_all_fast).map(|it| it.median().accesses_per_s / 1e6);
    let measured = |it: &TierRuns| {
        let scores: Vec<f64> =
            it.outcomes.iter().map(|outcome| outcome.row.accesses_per_s / 1e6).collect();
        let case = format!("{}, {}", it.workload, it.ratio);
        let row = Measured::over(case, it.subject.as_str(), "M accesses/s", &scores);
        match all_fast {
            Some(score) if !is_all_fast(&it) => row.against("all-fast", score),
            _ => row,
        }
    };
    block.iter().map(measured).collect()
}

/// Compares each stage with its predecessor.
fn table(block: &[TierRuns]) -> Table<'static> {
    let columns = [
        left("stage", 34),
        right("Maccess/s", 9),
        right("change", 8),
        right("promote", 10),
        right("change", 8),
        right("fast", 7),
        right("recall", 7),
        right("paid", 7),
        right("ping-pong", 9),
        right("demote", 10),
        left(" published", 0),
    ];
    let mut table = Table::new(&columns);
    let mut before: Option<TierRow> = None;
    for it in block {
        let row = it.median();
        table.push(cells_of(&row, before.as_ref(), it.workload));
        before = matches!(it.subject, Placer::Core { .. }).then_some(row);
    }
    table
}

fn cells_of(row: &TierRow, before: Option<&TierRow>, workload: TierWorkload) -> Vec<String> {
    let changed = |of: fn(&TierRow) -> f64| match before {
        Some(before) if of(before) > 0.0 => format!("{:+.1} %", change(of(before), of(row))),
        _ => String::new(),
    };
    cells![
        row.stage,
        format!("{:.1}", row.accesses_per_s / 1e6),
        changed(|row| row.accesses_per_s),
        format!("{:.1}", row.promotion_mb_per_s),
        changed(|row| row.promotion_mb_per_s),
        percent(row.fast_share, 1),
        percent(row.recall, 1),
        percent(row.precision, 1),
        percent(row.ping_pong, 1),
        format!("{:.1}", row.demotion_mb_per_s),
        format!(" {}", published(row.stage, workload)),
    ]
}

fn published(stage: &str, workload: TierWorkload) -> String {
    let Some(figures) = PublishedScore::named(stage).filter(|_| workload == TierWorkload::Pmbench)
    else {
        return String::new();
    };
    let mut text = format!("{:.1} M, {} MB/s", figures.score / 1e6, figures.promotion_mb_per_s);
    let at = PublishedScore::PMBENCH.iter().position(|line| *line == figures).unwrap_or(0);
    if let Some(before) = at.checked_sub(1).map(|at| PublishedScore::PMBENCH[at]) {
        let score = change(before.score, figures.score);
        let rate = change(before.promotion_mb_per_s, figures.promotion_mb_per_s);
        let _ = write!(text, " ({score:+.1} %, {rate:+.1} %)");
    }
    text
}

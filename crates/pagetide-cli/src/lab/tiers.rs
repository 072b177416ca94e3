//! `pagetide lab run pmbench`, `tier-...`: fast and slow memory, stage after stage.
//!
//! Problem: what each mechanism of promotion is worth was published for one machine. Idea: the same
//! stages on a model of it, beside memory that is all fast, all slow or placed by an oracle, and
//! beside what was published.
//!
//! ```text
//!   NAME... x --ratio x (judges, stages, --off) x --seeds --> machines --> table, JSON, report
//!   NAME... --grid                          thresholds x rates x periods --> table, JSON
//! ```
//!
//! Ignored: the scenarios of reclaim, and the per-CPU lists' workloads, which run apart.

use super::run::RunArgs;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::tier::plays::{self, Play};
use crate::{report, terminal};
use pagetide_core::lru::PolicyName;
use pagetide_core::tiering::{Stage, TieringSwitches};
use pagetide_lab::machine::Price;
use pagetide_lab::tiers::prices::TierPrices;
use pagetide_lab::tiers::programs::TierWorkload;
use pagetide_lab::tiers::{
    Grid, GridResult, Placer, PublishedScore, Ratio, SCALE_MAX, TierOutcome, TierRow, TierSetup,
    best_while, change,
};
use serde::Serialize;
use std::fmt::Write;
use std::num::NonZeroU64;

/// What these workloads can be told beyond seeds, a policy, prices and a report.
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
    /// For pmbench and tier-... only: search thresholds, rates and scan periods for the best score.
    #[arg(long)]
    grid: bool,
}

/// A mechanism that `--off` takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum OffMechanism {
    HotSelection,
    RateLimit,
    AutoThreshold,
}

impl TierArgs {
    /// Whether anything was said.
    pub(super) fn is_given(&self) -> bool {
        let has_numbers = self.scale.is_some() || self.rate_limit.is_some();
        has_numbers || self.grid || !(self.off.is_empty() && self.ratio.is_empty())
    }

    /// The row that `--off` asks for.
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

/// Whether a name is one of these workloads.
pub(super) fn is_named(name: &str) -> bool {
    name == TierWorkload::Pmbench.as_str() || name.starts_with("tier-")
}

/// One workload at one ratio, placed by one subject, over the seeds.
#[derive(Debug)]
pub(crate) struct TierRuns {
    pub(crate) workload: TierWorkload,
    pub(crate) ratio: Ratio,
    pub(crate) subject: Placer,
    /// In the order of seeds; not empty.
    pub(crate) outcomes: Vec<TierOutcome>,
}

impl TierRuns {
    /// The medians over the seeds, number by number.
    pub(crate) fn median(&self) -> TierRow {
        let median = |of: fn(&TierRow) -> f64| {
            let mut values: Vec<f64> = self.outcomes.iter().map(|it| of(&it.row)).collect();
            values.sort_by(f64::total_cmp);
            values[values.len() / 2]
        };
        TierRow {
            score: median(|row| row.score),
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

/// A row as `--json` prints it.
#[derive(Serialize)]
struct Line {
    #[serde(flatten)]
    row: TierRow,
    #[serde(skip_serializing_if = "Option::is_none")]
    ratio: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<u64>,
}

/// Runs the workloads of these names.
///
/// # Errors
/// A name, policy or price that is none (usage), an unwritable report, an interrupt.
pub(super) fn run(args: &RunArgs, interrupt: &Interrupt) -> Result<(), Failure> {
    let workloads = workloads(&args.names)?;
    let setup = setup(args)?;
    let ratios: &[Ratio] =
        if args.tiers.ratio.is_empty() { &[Ratio(4)] } else { &args.tiers.ratio };
    let nr_seeds = args.seeds.map_or(1, NonZeroU64::get);
    let seeds: Vec<u64> = (0..nr_seeds).map(|at| args.first_seed.wrapping_add(at)).collect();
    if args.tiers.grid {
        return search(&workloads, ratios, &seeds, setup, args.json, interrupt);
    }
    let runs = run_all(&workloads, ratios, &seeds, setup, args, interrupt)?;
    if let Some(path) = &args.report {
        report::write_tiers(path, &runs, &setup.prices)?;
    }
    if args.json {
        return terminal::print_json(&lines(&runs, &seeds, ratios.len() > 1));
    }
    terminal::print(&table(&runs, &setup))
}

fn workloads(names: &[String]) -> Result<Vec<TierWorkload>, Failure> {
    if names == ["tier-all"] {
        return Ok(TierWorkload::ALL.to_vec());
    }
    let named = |name: &String| {
        let refused = |error| Failure::Usage(format!("{name}: {error}; or tier-all"));
        name.parse().map_err(refused)
    };
    names.iter().map(named).collect()
}

/// The machine, as far as something was said about it.
fn setup(args: &RunArgs) -> Result<TierSetup, Failure> {
    let mut setup = args.tiers.scale.map_or_else(TierSetup::published, TierSetup::scaled);
    setup.prices = prices(&args.pcp.cost)?;
    if let Some(rate) = args.tiers.rate_limit {
        setup = setup.with_rate_limit(rate.get());
    }
    match &args.policy[..] {
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

/// The usual prices, but for those that were typed.
pub(crate) fn prices(typed: &[Price]) -> Result<TierPrices, Failure> {
    let prices = typed.iter().try_fold(TierPrices::OPTANE, TierPrices::with);
    let prices = prices.map_err(|error| Failure::Usage(format!("--cost {error}")))?;
    prices.check().map_err(|error| Failure::Usage(error.to_string()))
}

fn run_all(
    workloads: &[TierWorkload],
    ratios: &[Ratio],
    seeds: &[u64],
    setup: TierSetup,
    args: &RunArgs,
    interrupt: &Interrupt,
) -> Result<Vec<TierRuns>, Failure> {
    let stages = Stage::ALL.into_iter().map(Placer::stage);
    let subjects: Vec<Placer> =
        Placer::JUDGES.into_iter().chain(stages).chain(args.tiers.without()).collect();
    let mut casts = Vec::new();
    for &workload in workloads {
        for &ratio in ratios {
            casts.extend(subjects.iter().map(|subject| (workload, ratio, *subject)));
        }
    }
    let mut machines = Vec::new();
    for &(workload, ratio, subject) in &casts {
        let setup = setup.with_ratio(ratio);
        machines.extend(seeds.iter().map(|&seed| Play {
            setup,
            workload: workload.as_str(),
            program: Box::new(move || workload.program(setup.nr_pages, seed)),
            subject,
        }));
    }
    let mut outcomes = plays::run(&machines, args.jobs, interrupt)?.into_iter();
    let runs = |(workload, ratio, subject)| TierRuns {
        workload,
        ratio,
        subject,
        outcomes: outcomes.by_ref().take(seeds.len()).collect(),
    };
    Ok(casts.into_iter().map(runs).collect())
}

fn lines(runs: &[TierRuns], seeds: &[u64], has_ratios: bool) -> Vec<Line> {
    let mut lines = Vec::new();
    for it in runs {
        for (outcome, seed) in it.outcomes.iter().zip(seeds) {
            lines.push(Line {
                row: outcome.row,
                ratio: has_ratios.then(|| it.ratio.to_string()),
                seed: (seeds.len() > 1).then_some(*seed),
            });
        }
    }
    lines
}

/// A block a workload and ratio, a line a subject; the prices at the end.
fn table(runs: &[TierRuns], setup: &TierSetup) -> String {
    let mut text = String::new();
    let mut before: Option<TierRow> = None;
    for (at, it) in runs.iter().enumerate() {
        let is_first =
            at == 0 || (runs[at - 1].workload, runs[at - 1].ratio) != (it.workload, it.ratio);
        // Writing to a string cannot fail.
        if is_first {
            let (summary, nr_seeds) = (it.workload.summary(), it.outcomes.len());
            let gap = if at == 0 { "" } else { "\n" };
            let _ = writeln!(
                text,
                "{gap}{}, fast to slow {}: {summary}. Seeds: {nr_seeds}.\n  {:<34}{:>10} {:>8} \
                 {:>10} {:>8} {:>7} {:>7} {:>7} {:>9} {:>10}  published",
                it.workload,
                it.ratio,
                "stage",
                "Maccess/s",
                "change",
                "promote",
                "change",
                "fast",
                "recall",
                "paid",
                "ping-pong",
                "demote"
            );
            before = None;
        }
        let row = it.median();
        let _ = writeln!(text, "  {}", line(&row, before.as_ref(), it.workload));
        let is_stage = matches!(it.subject, Placer::Core { .. });
        before = if is_stage { Some(row) } else { None };
    }
    let _ = writeln!(
        text,
        "\nChanges are against the line above; rates in MB a second, on a machine of {} GiB. \
         Where promotions are\nlimited: {:.0} MB a second. Prices, in ns where no unit is said: \
         {}.",
        (u64::from(setup.nr_frames[0] + setup.nr_frames[1]) * u64::from(setup.scale)) >> 18,
        setup.rate_limit_mb_per_s(),
        setup.prices
    );
    text
}

fn line(row: &TierRow, before: Option<&TierRow>, workload: TierWorkload) -> String {
    let changed = |of: fn(&TierRow) -> f64| match before {
        Some(before) if of(before) > 0.0 => format!("{:+.1} %", change(of(before), of(row))),
        _ => String::new(),
    };
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    let line = format!(
        "{:<34}{:>10.1} {:>8} {:>10.1} {:>8} {:>7} {:>7} {:>7} {:>9} {:>10.1}  {}",
        row.stage,
        row.score / 1e6,
        changed(|row| row.score),
        row.promotion_mb_per_s,
        changed(|row| row.promotion_mb_per_s),
        percent(row.fast_share),
        percent(row.recall),
        percent(row.precision),
        percent(row.ping_pong),
        row.demotion_mb_per_s,
        published(row.stage, workload),
    );
    line.trim_end().to_owned()
}

/// What was published of the stage.
fn published(stage: &str, workload: TierWorkload) -> String {
    let Some(said) = PublishedScore::named(stage).filter(|_| workload == TierWorkload::Pmbench)
    else {
        return String::new();
    };
    let mut text = format!("{:.1} M, {} MB/s", said.score / 1e6, said.promotion_mb_per_s);
    let at = PublishedScore::PMBENCH.iter().position(|line| *line == said).unwrap_or(0);
    if let Some(before) = at.checked_sub(1).map(|at| PublishedScore::PMBENCH[at]) {
        let score = change(before.score, said.score);
        let rate = change(before.promotion_mb_per_s, said.promotion_mb_per_s);
        let _ = write!(text, " ({score:+.1} %, {rate:+.1} %)");
    }
    text
}

/// A setting as `--json` prints it.
#[derive(Serialize)]
struct GridLine {
    workload: &'static str,
    ratio: String,
    threshold_ms: u64,
    rate_mb_per_s: u64,
    scan_period_ms: u64,
    score: f64,
    promotion_mb_per_s: f64,
    is_best: bool,
}

fn search(
    workloads: &[TierWorkload],
    ratios: &[Ratio],
    seeds: &[u64],
    setup: TierSetup,
    is_json: bool,
    interrupt: &Interrupt,
) -> Result<(), Failure> {
    let grid = Grid { setup, ..Grid::default() };
    let mut lines = Vec::new();
    for &workload in workloads {
        for &ratio in ratios {
            let found = best_while(workload, ratio, seeds, &grid, || !interrupt.is_set());
            lines.extend(grid_lines(workload, ratio, &found.ok_or(Failure::Interrupted)?));
        }
    }
    if is_json {
        return terminal::print_json(&lines);
    }
    let mut text = format!(
        "{:<11}{:>6} {:>13} {:>10} {:>13} {:>10} {:>10}\n",
        "workload", "ratio", "threshold ms", "rate MB/s", "period ms", "Maccess/s", "promote"
    );
    for line in &lines {
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{:<11}{:>6} {:>13} {:>10} {:>13} {:>10.1} {:>10.1}{}",
            line.workload,
            line.ratio,
            line.threshold_ms,
            line.rate_mb_per_s,
            line.scan_period_ms,
            line.score / 1e6,
            line.promotion_mb_per_s,
            if line.is_best { "  best" } else { "" }
        );
    }
    terminal::print(&text)
}

fn grid_lines(workload: TierWorkload, ratio: Ratio, found: &GridResult) -> Vec<GridLine> {
    let best = *found.best();
    let line = |point: &pagetide_lab::tiers::GridPoint| GridLine {
        workload: workload.as_str(),
        ratio: ratio.to_string(),
        threshold_ms: point.threshold_ms,
        rate_mb_per_s: point.rate_mb_per_s,
        scan_period_ms: point.scan_period_ms,
        score: point.score,
        promotion_mb_per_s: point.promotion_mb_per_s,
        is_best: *point == best,
    };
    found.points.iter().map(line).collect()
}

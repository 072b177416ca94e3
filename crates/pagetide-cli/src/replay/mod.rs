//! `pagetide replay`: replays a recorded run at other sizes and under other policies.
//!
//! ```text
//!   FILE --> trace --> DenseTrace --+--> policy x frames --> row --+--> table or JSON
//!                                   +--> ... (all cores)           +--> report
//! ```
//!
//! `--recorded` takes sizes, tiers and reclaim settings from the record, so that the same policy
//! decides the same. `--fold` and `--fold-every` average seven replays at seven phases of the
//! period. `--explain` replays policies with several settings once more and reports the choices.
//! `seconds` is the replay's duration.

mod explain;
mod recorded;
mod report;
mod selection;

use crate::cells::Answer;
use crate::document::Document;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::readahead::{self, ReadaheadArgs};
use crate::results::Measured;
use crate::rows::RowsArgs;
use crate::setup::{SetupArgs, parse_period};
use crate::sizes::SizeArgs;
use crate::source::SourceArgs;
use crate::table::{Table, cells, left, percent, right};
use crate::{cells, machine, output};
use pagetide_core::lru::PolicyName;
use pagetide_core::units::Millis;
use pagetide_lab::replay::{Cell, Contender, NR_PHASES, Phases, ReplayRow};
use std::path::PathBuf;

const EXAMPLES: &str = "Examples:
  pagetide replay run.trace --memory 64M
  pagetide replay run.trace --memory 64M,128M,256M --policy mglru,lru,opt
  pagetide replay run.trace --memory 64M,128M,256M,512M --report replay.html
  pagetide replay run.trace --memory 64M --policy mglru --off tiers
  pagetide replay run.ptt --recorded --off hot-selection
  pagetide replay run.trace --memory 64M --policy pagetide --explain --report settings.html
  pagetide replay run.trace --memory 64M --policy active-inactive --fold 2s
  pagetide replay OLTP.lis --format arc-lis --frames 1000,5000 --json
  pagetide replay OLTP.lis --format arc-lis --frames 5000 --reclaim kernel-group --fold 2s";

/// Replay a recorded run through the policies, in virtual time.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ReplayArgs {
    #[command(flatten)]
    source: SourceArgs,
    #[command(flatten)]
    sizes: SizeArgs,
    /// Policies: the names that `pagetide policies` lists, and opt (Belady's bound) [default:
    /// pagetide,mglru,lru; with --recorded the run's].
    #[arg(long, value_delimiter = ',')]
    policy: Vec<Contender>,
    /// Repeat a recorded run in the memory that it had, fast and slow: watermarks, per-CPU lists,
    /// locks, ticks and all.
    #[arg(long, conflicts_with_all = ["memory", "frames", "reclaim", "clock", "swap", "fold"])]
    #[arg(conflicts_with_all = ["fold_every", "explain", "report", "readahead", "results"])]
    recorded: bool,
    #[command(flatten)]
    readahead: ReadaheadArgs,
    #[command(flatten)]
    setup: SetupArgs,
    /// Let the policy's statistics be summed up only so often, as the kernel does every 2s; a row
    /// is the mean over 7 phases of the period.
    #[arg(long, value_parser = parse_period)]
    fold: Option<Millis>,
    /// The same every so many reads, as of a program that itself reads memory.stat after so many.
    #[arg(long, conflicts_with = "fold", value_name = "READS")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    fold_every: Option<u64>,
    /// Say which setting of a policy that has some was in charge when, and what it was chosen by.
    #[arg(long)]
    explain: bool,
    /// Draw the settings over time of the first that has some, and its hit ratio, into this file.
    #[arg(long, requires = "explain")]
    svg: Option<PathBuf>,
    #[command(flatten)]
    output: RowsArgs,
}

pub(crate) fn run(args: &ReplayArgs, interrupt: &Interrupt) -> Result<(), Failure> {
    if args.recorded {
        return recorded::run(args, interrupt);
    }
    output::check("the picture", &args.svg)?;
    args.output.check()?;
    let sizes = args.sizes.frames()?;
    let usual = [PolicyName::default(), PolicyName::Mglru, PolicyName::Lru].map(Contender::Policy);
    let policies = if args.policy.is_empty() { &usual[..] } else { &args.policy };
    args.setup.check(policies, &sizes)?;
    let (mut trace, facts) = args.source.read_dense(interrupt)?;
    let readahead_use = args.readahead.apply(&mut trace);
    let cell = |frames, contender| {
        Cell::new(contender, frames, |policy, frames| args.setup.setup(policy, frames, &facts))
    };
    let cells: Vec<Cell> = sizes
        .iter()
        .flat_map(|&frames| policies.iter().map(move |&contender| cell(frames, contender)))
        .flat_map(|cell| phases_of(cell, args))
        .collect();
    let courses = if args.explain { explain::courses(&trace, &cells, interrupt)? } else { vec![] };
    let answers = cells::run(&trace, &cells, args.output.jobs, interrupt)?;
    let rows = rows(&answers, args.fold.is_some() || args.fold_every.is_some());
    if let (Some(path), Some(first)) = (&args.svg, courses.first()) {
        output::write("the picture", path, &selection::alone(&args.source.name(), first)?)?;
    }
    if let Some(path) = &args.output.report {
        report::write(path, &args.source.file, &trace, readahead_use, &rows, &courses)?;
    }
    args.output.results.append(|| rows.iter().flat_map(|row| to_results(args, row)).collect())?;
    let described = explain::described(&rows, readahead_use, &courses);
    args.output.json.print(&Document::new("pagetide.replay/1", described), || {
        format!(
            "{}\n{}{}",
            readahead::describe(readahead_use),
            table(&rows).to_text(),
            explain::text(&courses)
        )
    })
}

fn phases_of(cell: Cell, args: &ReplayArgs) -> Vec<Cell> {
    let with = |setup| Cell { setup: Some(setup), ..cell };
    match (cell.setup, args.fold, args.fold_every) {
        (Some(setup), Some(period), _) => setup.phases(period).map(with).collect(),
        (Some(setup), _, Some(reads)) => setup.phases_of_reads(reads).map(with).collect(),
        _ => vec![cell],
    }
}

/// Averages phases.
fn rows(answers: &[Answer], is_folded: bool) -> Vec<ReplayRow> {
    let mut rows = Vec::new();
    let mut left = answers;
    while let Some(first) = left.first() {
        let Cell { contender, frames, setup } = first.cell;
        if !is_folded || setup.is_none() {
            rows.push(first.outcome.to_row(contender, frames, first.seconds));
            left = &left[1..];
            continue;
        }
        let (phases, others) = left.split_at(NR_PHASES as usize);
        let seconds = phases.iter().map(|answer| answer.seconds).sum();
        let outcomes = phases.iter().map(|answer| answer.outcome).collect();
        rows.push(Phases(outcomes).to_row(contender, frames, seconds));
        left = others;
    }
    rows
}

fn table(rows: &[ReplayRow]) -> Table<'static> {
    let columns = [
        left("policy", 16),
        right("frames", 10),
        right("accesses", 12),
        right("misses", 12),
        right("missed", 8),
        right("read", 10),
        right("evictions", 12),
        right("refaults", 12),
        right("activations", 12),
        right("seconds", 8),
        left("", 0),
    ];
    let cells_of = |row: &ReplayRow| {
        cells![
            row.policy,
            row.frames,
            row.accesses,
            row.misses,
            percent(row.miss_ratio, 2),
            machine::rounded(row.device_read_bytes),
            row.evictions,
            row.refaults,
            row.activations,
            format!("{:.3}", row.seconds),
            phases_line(row),
        ]
    };
    Table::new(&columns).with_rows(rows.iter().map(cells_of))
}

fn to_results(args: &ReplayArgs, row: &ReplayRow) -> [Measured; 2] {
    let case = || format!("{}, {} frames", args.source.name(), row.frames);
    let ns = row.seconds * 1e9 / row.accesses.max(1) as f64;
    [
        Measured::once(case(), row.policy, "% misses", 100.0 * row.miss_ratio),
        Measured::once(case(), row.policy, "ns an access", ns),
    ]
}

/// Formats the range over phases.
fn phases_line(row: &ReplayRow) -> String {
    match (row.miss_ratio_min, row.miss_ratio_max) {
        (Some(low), Some(high)) => {
            format!(" missed {:.2} to {}, by phase", low * 100.0, percent(high, 2))
        }
        _ => String::new(),
    }
}

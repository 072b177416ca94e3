//! `pagetide tier`: predicts a program's slowdown with slow memory from a trace.
//!
//! Idea: play the trace on a model of a two-tier machine, at several ratios and promotion stages,
//! and compare with all-fast memory.
//!
//! ```text
//!   FILE --> touches, repeated --> shares of fast memory x (judges, stages)
//!                              --> slowdown --> table, JSON, report
//! ```
//!
//! The model is the machine of `lab run pmbench`: 608 GiB and 48 threads. Each trace page stands
//! for an equal share of the program's pages. The trace repeats for ten minutes of warm-up and ten
//! measured minutes. Each access misses the CPU caches.
//!
//! Ignored: evictions (all pages fit), the trace's times, and the sharing of file pages.

pub(crate) mod machines;
pub(crate) mod report;

use crate::document::Document;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::machine::rounded;
use crate::results::Measured;
use crate::rows::RowsArgs;
use crate::source::SourceArgs;
use crate::table::{Table, cells, left, percent, right};
use machines::MachineRun;
use pagetide_core::lru::PolicyName;
use pagetide_core::tiering::Stage;
use pagetide_core::units::PAGE_BYTES;
use pagetide_lab::machine::{Nanos, Price};
use pagetide_lab::tiers::prices::{Item, TierPrices};
use pagetide_lab::tiers::programs::{AccessStream, PAGES_MIN, Recorded};
use pagetide_lab::tiers::{Placer, Ratio, SCALE_MAX, TierOutcome, TierRow, TierSetup};
use serde::Serialize;

const EXAMPLES: &str = "Examples:
  pagetide tier run.trace
  pagetide tier run.trace --fast 25%,10% --slow latency=250ns,bandwidth=40GB --report tier.html
  pagetide tier run.trace --ratio 1:4 --cost move_page=5000 --json

Prices, by name, are those of `pagetide lab run pmbench`; its table ends with all.";

/// What a slow tier would cost a program, from its trace.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct TierArgs {
    #[command(flatten)]
    source: SourceArgs,
    /// Shares of memory that are fast, at most half, as in 25%.
    #[arg(long, value_delimiter = ',', value_parser = parse_share, conflicts_with = "ratio")]
    fast: Vec<Share>,
    /// Fast to slow memory, as in 1:4; 1:1 to 1:16 without.
    #[arg(long, value_delimiter = ',')]
    ratio: Vec<Ratio>,
    /// How slow memory performs: latency=305ns, bandwidth=78GB (to read), write-bandwidth=27GB.
    #[arg(long, value_delimiter = ',', value_name = "WHAT=NUMBER", value_parser = parse_speed)]
    slow: Vec<(Item, u64)>,
    /// Any other price, as in move_page=5000.
    #[arg(long, value_name = "NAME=NUMBER")]
    cost: Vec<Price>,
    /// Which replacement policy says what is demoted.
    #[arg(long, default_value = "active-inactive")]
    policy: PolicyName,
    /// How long the program runs before it is measured, and how long it is.
    #[arg(long, default_value_t = 600, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: u64,
    #[command(flatten)]
    output: RowsArgs,
}

/// A share above 0 and below 1.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Share(f64);

/// Field names are as in `--json`.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Cost {
    /// The fast share of memory, 0 to 1.
    pub(crate) fast: f64,
    /// Run time relative to all-fast memory.
    pub(crate) slowdown: f64,
    #[serde(flatten)]
    pub(crate) row: TierRow,
}

fn parse_share(text: &str) -> Result<Share, String> {
    let percent = text.strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
    let share = percent.filter(|percent| *percent > 0.0 && *percent <= 50.0);
    share.map(|percent| Share(percent / 100.0)).ok_or_else(|| {
        "a share of memory that is fast is above 0% and at most 50%, as in 25%".to_owned()
    })
}

fn parse_speed(text: &str) -> Result<(Item, u64), String> {
    let said = || {
        "slow memory has latency=305ns, write-latency=62ns, bandwidth=78GB or write-bandwidth=27GB"
            .to_owned()
    };
    let (what, number) = text.split_once('=').ok_or_else(said)?;
    let (item, units): (Item, &[(&str, u64)]) = match what {
        "latency" => (Item::SlowRead, &[("ns", 1), ("us", 1000)]),
        "write-latency" => (Item::SlowWrite, &[("ns", 1), ("us", 1000)]),
        "bandwidth" => (Item::SlowReadMb, &[("GB", 1000), ("MB", 1)]),
        "write-bandwidth" => (Item::SlowWriteMb, &[("GB", 1000), ("MB", 1)]),
        _ => return Err(said()),
    };
    let value = units.iter().find_map(|(unit, factor)| {
        let number: u64 = number.strip_suffix(unit)?.trim().parse().ok()?;
        number.checked_mul(*factor).filter(|number| *number <= 1_000_000_000)
    });
    value.map(|value| (item, value)).ok_or_else(said)
}

pub(crate) fn run(args: &TierArgs, interrupt: &Interrupt) -> Result<(), Failure> {
    let prices = prices(args)?;
    let shares = shares(args);
    args.output.check()?;
    // Refuse impossible machines before the trace is read.
    for share in &shares {
        let setup = setup_of(args, prices, *share, 1 << 20);
        setup.topology().map_err(|error| Failure::Usage(error.to_string()))?;
    }
    let (trace, _) = args.source.read_dense(interrupt)?;
    let program = Recorded::new(&trace).filter(|_| trace.nr_pages() >= PAGES_MIN as usize);
    let Some(program) = program else {
        return Err(Failure::Refused(format!(
            "{} pages are too few to divide: {PAGES_MIN} are needed, and fewer than 67 million",
            trace.nr_pages()
        )));
    };
    let nr_pages = program.nr_pages();
    let costs = play(args, prices, &shares, &program, interrupt)?;
    let model = describe_model(&program, nr_pages, args.seconds);
    if let Some(path) = &args.output.report {
        report::write(path, &model, &costs, &prices)?;
    }
    args.output.results.append(|| costs.iter().map(|cost| to_result(args, cost)).collect())?;
    args.output.json.print(&Document::new("pagetide.tier/1", &costs), || {
        let table = table(&costs).spaced("  ", " ").to_text();
        format!("{model}\n{table}Prices, in ns where no unit is said: {prices}.\n")
    })
}

pub(crate) fn prices_with(typed: &[Price]) -> Result<TierPrices, Failure> {
    let prices = typed.iter().try_fold(TierPrices::OPTANE, TierPrices::with);
    let prices = prices.map_err(|error| Failure::Usage(format!("--cost {error}")))?;
    prices.check().map_err(|error| Failure::Usage(error.to_string()))
}

fn prices(args: &TierArgs) -> Result<TierPrices, Failure> {
    let prices = prices_with(&args.cost)?;
    let prices = args.slow.iter().fold(prices, |prices, (item, number)| prices.set(*item, *number));
    prices.check().map_err(|error| Failure::Usage(error.to_string()))
}

fn shares(args: &TierArgs) -> Vec<Share> {
    if !args.fast.is_empty() {
        return args.fast.clone();
    }
    let ratios = if args.ratio.is_empty() { &Ratio::ALL[..] } else { &args.ratio };
    ratios.iter().map(|ratio| Share(1.0 / f64::from(1 + ratio.0))).collect()
}

/// Scales the model so that the trace's pages fill the program.
fn machine_of(nr_pages: u32) -> TierSetup {
    let published = TierSetup::published();
    let pages = u64::from(published.nr_pages) * u64::from(published.scale);
    let scale = u32::try_from(pages / u64::from(nr_pages.max(1))).unwrap_or(SCALE_MAX);
    TierSetup::scaled(scale.clamp(1, SCALE_MAX))
}

fn setup_of(args: &TierArgs, prices: TierPrices, share: Share, nr_pages: u32) -> TierSetup {
    // Room for the watermarks of both nodes.
    let all = nr_pages + nr_pages / 8 + 64;
    let fast = ((f64::from(all) * share.0) as u32).clamp(16, all - 16);
    let time = Nanos::from_secs(args.seconds);
    TierSetup {
        nr_frames: [fast, all - fast],
        nr_pages,
        prices,
        policy: args.policy,
        warm_up: time,
        measured: time,
        ..machine_of(nr_pages)
    }
}

fn play(
    args: &TierArgs,
    prices: TierPrices,
    shares: &[Share],
    program: &Recorded,
    interrupt: &Interrupt,
) -> Result<Vec<Cost>, Failure> {
    let subjects: Vec<Placer> = [Placer::AllSlow, Placer::FirstTouch, Placer::Oracle]
        .into_iter()
        .chain(Stage::ALL.into_iter().map(Placer::stage))
        .collect();
    let one = |share, subject| MachineRun {
        setup: setup_of(args, prices, share, program.nr_pages()),
        workload: "trace",
        program: Box::new(|| Box::new(program.clone())),
        subject,
    };
    let mut machines = vec![one(shares[0], Placer::AllFast)];
    for &share in shares {
        machines.extend(subjects.iter().map(|subject| one(share, *subject)));
    }
    let mut outcomes = machines::run(&machines, args.output.jobs, interrupt)?.into_iter();
    let all_fast = outcomes.next().map_or(0.0, |outcome| outcome.row.accesses_per_s);
    let cost = |(outcome, at): (TierOutcome, usize)| Cost {
        fast: shares[at / subjects.len()].0,
        slowdown: all_fast / outcome.row.accesses_per_s.max(1e-9),
        row: outcome.row,
    };
    Ok(outcomes.zip(0..).map(cost).collect())
}

fn describe_model(program: &Recorded, nr_pages: u32, seconds: u64) -> String {
    let machine = machine_of(nr_pages);
    let bytes = u64::from(nr_pages) * u64::from(machine.scale) * PAGE_BYTES as u64;
    format!(
        "{} accesses of {nr_pages} pages, each taken for {} of a program of {} and {} threads; \
         played over and over, {seconds} s to warm up and {seconds} s measured.",
        program.len(),
        machine.scale,
        rounded(bytes),
        machine.threads
    )
}

fn to_result(args: &TierArgs, cost: &Cost) -> Measured {
    let case = format!("{}, {:.0} % fast", args.source.name(), 100.0 * cost.fast);
    Measured::once(case, cost.row.stage, "times all-fast", cost.slowdown)
}

fn table(costs: &[Cost]) -> Table<'static> {
    let columns = [
        right("fast", 6),
        left(" stage", 17),
        right("slowdown", 8),
        right("served", 8),
        right("recall", 8),
        right("promote MB/s", 13),
        right("paid", 8),
        right("ping-pong", 10),
    ];
    let cells_of = |Cost { fast, slowdown, row }: &Cost| {
        cells![
            percent(*fast, 0),
            format!(" {}", row.stage),
            format!("{slowdown:.3}x"),
            percent(row.fast_share, 1),
            percent(row.recall, 1),
            format!("{:.1}", row.promotion_mb_per_s),
            percent(row.precision, 1),
            percent(row.ping_pong, 1),
        ]
    };
    Table::new(&columns).with_rows(costs.iter().map(cells_of))
}

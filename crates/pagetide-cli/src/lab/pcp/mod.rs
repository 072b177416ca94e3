//! `pagetide lab run pcp-...`: the per-CPU lists' tunings, on virtual machines of many CPUs.
//!
//! Problem: how long a CPU's list of frames should be is argued over with 56 and 224 CPUs, which
//! hardly anyone has. Idea: the workloads of that argument in virtual time, over the allocator as
//! it ships, with each tuning; the published figures beside ours, and all prices below.
//!
//! ```text
//!   NAME... x --tuning x --seeds --> machines, on all cores --+--> table or JSON (medians)
//!                                                             +--> report (limit and list,
//!                                                             |    over time)
//!                 --sensitivity: each price halved, doubled --+--> ratios (sensitivity.rs)
//! ```
//!
//! Ignored: the scenarios of reclaim, which have policies where these have tunings.

use super::run::RunArgs;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::terminal::Progress;
use crate::{machine, report, terminal};
use pagetide_core::page_alloc::PcpTuning;
use pagetide_core::units::Bytes;
use pagetide_lab::machine::pcp::{self, PcpOutcome, PcpRow, PcpWorkload};
use pagetide_lab::machine::{Costs, Price};
use rayon::prelude::*;
use std::fmt::Write;
use std::num::{NonZeroU64, NonZeroUsize};
use std::sync::atomic::{AtomicU64, Ordering};

mod sensitivity;

/// What all names of these workloads begin with.
pub(super) const PREFIX: &str = "pcp-";
/// Parts that a run's progress is counted in.
const PARTS: f64 = 1000.0;

/// What these workloads can be told beyond seeds and a report.
#[derive(Debug, clap::Args)]
pub(super) struct PcpArgs {
    /// For pcp-... only: tunings of the per-CPU lists: fixed, depth, refill, adaptive. All,
    /// without.
    #[arg(long, value_delimiter = ',', value_name = "TUNING")]
    tuning: Vec<PcpTuning>,
    /// For pcp-... only: instead of the table, what refill makes of fixed with each price halved
    /// and doubled.
    #[arg(long, conflicts_with_all = ["tuning", "report"])]
    sensitivity: bool,
    /// For pcp-..., pmbench and tier-... only: a price, in nanoseconds where it is a time, as in
    /// zone_page=60. The table ends with all.
    #[arg(long, value_name = "NAME=NUMBER")]
    pub(super) cost: Vec<Price>,
}

impl PcpArgs {
    /// Whether anything was said that only lists have.
    pub(super) fn is_about_lists(&self) -> bool {
        self.sensitivity || !self.tuning.is_empty()
    }

    /// Whether anything was said.
    pub(super) fn is_given(&self) -> bool {
        self.sensitivity || !(self.tuning.is_empty() && self.cost.is_empty())
    }
}

/// What is run once a seed.
#[derive(Clone, Copy, Debug)]
struct Cast {
    workload: PcpWorkload,
    tuning: PcpTuning,
    costs: Costs,
}

/// A workload with a tuning, run once a seed.
#[derive(Debug)]
pub(crate) struct PcpRuns {
    pub(crate) workload: PcpWorkload,
    pub(crate) tuning: PcpTuning,
    /// In the order of seeds; not empty.
    pub(crate) outcomes: Vec<PcpOutcome>,
}

impl PcpRuns {
    /// The medians over the seeds, number by number.
    pub(crate) fn median(&self) -> PcpRow {
        let share = |of: fn(&PcpRow) -> f64| self.range(of).1;
        let count = |of: fn(&PcpRow) -> u64| {
            let mut values: Vec<u64> = self.outcomes.iter().map(|it| of(&it.row)).collect();
            values.sort_unstable();
            values[values.len() / 2]
        };
        PcpRow {
            throughput: share(|row| row.throughput),
            lock_wait_share: share(|row| row.lock_wait_share),
            alloc_p99_ns: count(|row| row.alloc_p99_ns),
            free_p99_ns: count(|row| row.free_p99_ns),
            zone_pages: count(|row| row.zone_pages),
            idle_pages: count(|row| row.idle_pages),
            ..self.outcomes[0].row
        }
    }

    /// Lowest, median and highest.
    fn range(&self, of: fn(&PcpRow) -> f64) -> (f64, f64, f64) {
        let mut values: Vec<f64> = self.outcomes.iter().map(|it| of(&it.row)).collect();
        values.sort_by(f64::total_cmp);
        (values[0], values[values.len() / 2], values[values.len() - 1])
    }
}

/// Runs the workloads of these names.
///
/// # Errors
/// A name that is none (usage), too little memory for a machine, an unwritable report, an
/// interrupt.
pub(super) fn run(args: &RunArgs, interrupt: &Interrupt) -> Result<(), Failure> {
    let workloads = workloads(&args.names)?;
    let tunings: &[PcpTuning] =
        if args.pcp.tuning.is_empty() { &PcpTuning::ALL } else { &args.pcp.tuning };
    let costs = args.pcp.cost.iter().try_fold(Costs::HOST, Costs::with);
    let costs = costs.map_err(|error| Failure::Usage(format!("--cost {error}")))?;
    let nr_seeds = args.seeds.map_or(1, NonZeroU64::get);
    let seeds: Vec<u64> = (0..nr_seeds).map(|at| args.first_seed.wrapping_add(at)).collect();
    if args.pcp.sensitivity {
        let run_all = |casts: &[Cast]| run_all(casts, &seeds, args.jobs, interrupt);
        let rows = sensitivity::rows(&workloads, costs, run_all)?;
        return match args.json {
            true => terminal::print_json(&rows),
            false => terminal::print(&sensitivity::table(&rows, &costs)),
        };
    }
    let cast = |workload| move |&tuning| Cast { workload, tuning, costs };
    let casts: Vec<Cast> =
        workloads.iter().flat_map(|&workload| tunings.iter().map(cast(workload))).collect();
    let runs = run_all(&casts, &seeds, args.jobs, interrupt)?;
    if let Some(path) = &args.report {
        report::write_pcp(path, &runs, &costs)?;
    }
    if args.json {
        return terminal::print_json(&runs.iter().map(PcpRuns::median).collect::<Vec<_>>());
    }
    terminal::print(&table(&runs, &costs))
}

fn workloads(names: &[String]) -> Result<Vec<PcpWorkload>, Failure> {
    if names == ["pcp-all"] {
        return Ok(PcpWorkload::ALL.to_vec());
    }
    let named = |name: &String| {
        let refused = |error| Failure::Usage(format!("{name}: {error}; or pcp-all"));
        name.parse().map_err(refused)
    };
    names.iter().map(named).collect()
}

fn run_all(
    casts: &[Cast],
    seeds: &[u64],
    jobs: Option<NonZeroUsize>,
    interrupt: &Interrupt,
) -> Result<Vec<PcpRuns>, Failure> {
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(nr_threads(casts, jobs)?)
        .build()
        .map_err(|error| Failure::on("start threads", &error))?;
    let nr_runs = casts.len() * seeds.len();
    let progress = Progress::new(format!("running {nr_runs} machines"));
    let nr_parts = AtomicU64::new(0);
    let run_one = |at: usize| {
        interrupt.check()?;
        let Cast { workload, tuning, costs } = casts[at / seeds.len()];
        let mut told = 0;
        let keep_on = |share: f64| {
            let part = (share * PARTS) as u64;
            let sum = nr_parts.fetch_add(part - told, Ordering::Relaxed) + part - told;
            told = part;
            progress.set(sum as f64 / (PARTS * nr_runs as f64));
            !interrupt.is_set()
        };
        pcp::run_while(workload, tuning, costs, seeds[at % seeds.len()], keep_on)
            .map_err(|error| Failure::on("build the virtual machine", &error))?
            .ok_or(Failure::Interrupted)
    };
    let outcomes: Vec<PcpOutcome> = pool.install(|| {
        (0..nr_runs).into_par_iter().with_max_len(1).map(run_one).collect::<Result<_, _>>()
    })?;
    let mut outcomes = outcomes.into_iter();
    let runs = |&Cast { workload, tuning, .. }: &Cast| PcpRuns {
        workload,
        tuning,
        outcomes: outcomes.by_ref().take(seeds.len()).collect(),
    };
    Ok(casts.iter().map(runs).collect())
}

/// As many threads as asked for, as there are cores, and as memory holds of the largest machine.
fn nr_threads(casts: &[Cast], jobs: Option<NonZeroUsize>) -> Result<usize, Failure> {
    let largest = casts.iter().map(|cast| cast.workload.bytes_needed()).max().unwrap_or(1);
    machine::check_memory(Bytes(largest))?;
    let held = machine::read_memory_available().map_or(u64::MAX, |free| free.0 / 2 / largest);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let wanted = jobs.map_or(cores, usize::from);
    Ok(wanted.min(usize::try_from(held).unwrap_or(usize::MAX)).max(1))
}

/// A block a workload, a line a tuning, then the published figures; the prices at the end.
fn table(runs: &[PcpRuns], costs: &Costs) -> String {
    let mut text = String::new();
    for (at, it) in runs.iter().enumerate() {
        let is_first = at == 0 || runs[at - 1].workload != it.workload;
        // Writing to a string cannot fail.
        if is_first {
            let (summary, nr_seeds) = (it.workload.summary(), it.outcomes.len());
            let _ = writeln!(text, "{}: {summary}. Seeds: {nr_seeds}.", it.workload);
            let _ = writeln!(
                text,
                "  {:<9}{:>8} {:>18} {:>10} {:>10} {:>9} {:>11} {:>11} {:>7}",
                "tuning",
                "GB/s",
                "range",
                "lock wait",
                "alloc p99",
                "free p99",
                "zone pages",
                "idle pages",
                "failed"
            );
        }
        let row = it.median();
        let (low, _, high) = it.range(|row| row.throughput);
        let _ = writeln!(
            text,
            "  {:<9}{:>8.2} {:>18} {:>8.2} % {:>7} ns {:>6} ns {:>11} {:>11} {:>7}",
            row.tuning,
            row.throughput,
            format!("[{low:.2}, {high:.2}]"),
            row.lock_wait_share * 100.0,
            row.alloc_p99_ns,
            row.free_p99_ns,
            row.zone_pages,
            row.idle_pages,
            it.outcomes.iter().map(|outcome| outcome.nr_failed).max().unwrap_or(0)
        );
        if runs.get(at + 1).is_none_or(|next| next.workload != it.workload) {
            if let Some(said) = published_line(it.workload) {
                let _ = writeln!(text, "  {said}");
            }
            text.push('\n');
        }
    }
    let _ = writeln!(text, "{}", prices_line(costs));
    text
}

/// What was published about the workload, if anything.
pub(crate) fn published_line(workload: PcpWorkload) -> Option<String> {
    let said = pcp::published(workload)?;
    let (before, after) = said.score;
    let mut text = format!("published: {before} -> {after} {}", said.unit);
    if let Some((before, after)) = said.lock_wait_share {
        let _ = write!(text, ", lock wait {:.1} % -> {:.1} %", before * 100.0, after * 100.0);
    }
    let _ = write!(text, " ({})", said.note);
    Some(text)
}

/// All prices.
pub(crate) fn prices_line(costs: &Costs) -> String {
    let prices = costs.named().map(|(name, nanos)| format!("{name} {}", nanos.0));
    format!("Prices in ns: {}.", prices.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(tuning: PcpTuning, throughput: f64, zone_pages: u64) -> PcpOutcome {
        let row = PcpRow {
            workload: PcpWorkload::Kbuild.as_str(),
            tuning: tuning.as_str(),
            cpus: 224,
            throughput,
            lock_wait_share: 0.25,
            alloc_p99_ns: 10,
            free_p99_ns: 20,
            zone_pages,
            idle_pages: 3,
        };
        PcpOutcome { row, samples: Vec::new(), nr_failed: 0, batch: 63 }
    }

    fn runs() -> Vec<PcpRuns> {
        PcpTuning::ALL
            .map(|tuning| PcpRuns {
                workload: PcpWorkload::Kbuild,
                tuning,
                outcomes: [3.0, 1.0, 2.0]
                    .map(|value| outcome(tuning, value, value as u64 * 100))
                    .to_vec(),
            })
            .into()
    }

    #[test]
    fn a_row_is_the_median_and_the_table_has_the_range_the_claim_and_the_prices() {
        let row = runs()[0].median();
        assert_eq!((row.throughput, row.zone_pages, row.cpus), (2.0, 200, 224));
        let text = table(&runs(), &Costs::HOST);
        assert_eq!(text.matches("[1.00, 3.00]").count(), 4, "{text}");
        assert_eq!(text.matches("25.00 %").count(), 4, "{text}");
        for part in ["published: 162.67 -> 162.67 s", "lock wait 17.0 % -> 12.3 %", "zone_page 20"]
        {
            assert!(text.contains(part), "{part} is missing: {text}");
        }
    }

    #[test]
    fn unknown_names_are_usage_errors_and_all_is_all() {
        let names = |name: &str| vec![name.to_owned()];
        let failure = workloads(&names("pcp-nothing")).expect_err("nobody's name");
        assert_eq!(failure.exit_code(), 2);
        assert!(failure.to_string().contains("pcp-page-fault1"), "{failure}");
        assert_eq!(workloads(&names("pcp-all")).expect("all"), PcpWorkload::ALL);
    }

    #[test]
    fn an_interrupt_ends_all_runs_without_an_answer() {
        let (workload, tuning) = (PcpWorkload::PatternA, PcpTuning::Fixed);
        let casts = [Cast { workload, tuning, costs: Costs::HOST }];
        let stopped = run_all(&casts, &[1, 2], None, &Interrupt::already_set());
        assert!(matches!(stopped, Err(Failure::Interrupted)));
    }
}

//! `pagetide lab run pcp-...`: tunings of the per-CPU lists on virtual machines of many CPUs.
//!
//! Runs the published workloads in virtual time over the real allocator, because machines of 56 and
//! 224 CPUs are rare.
//!
//! ```text
//!   NAME... x --tuning x --seeds --> machines, on all cores --+--> table or JSON (medians)
//!                                                             +--> report (limit and list,
//!                                                             |    over time)
//!                 --sensitivity: each price halved, doubled --+--> ratios (sensitivity.rs)
//! ```

mod report;
mod sensitivity;

use super::play_args::{PlayArgs, workloads};
use crate::document::Document;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::parallel::JobsArgs;
use crate::results::{Measured, range_of};
use crate::table::{Table, cells, left, percent, right};
use crate::terminal::JointProgress;
use pagetide_core::page_alloc::PcpTuning;
use pagetide_core::units::Bytes;
use pagetide_lab::machine::Costs;
use pagetide_lab::machine::pcp::{self, PcpOutcome, PcpRow, PcpWorkload};
use std::fmt::Write;

pub(super) const PREFIX: &str = "pcp-";

/// The arguments of these workloads beyond those of every play.
#[derive(Debug, clap::Args)]
pub(super) struct PcpArgs {
    /// For pcp-... only: tunings of the per-CPU lists: fixed, depth, refill. All, without.
    #[arg(long, value_delimiter = ',', value_name = "TUNING")]
    tuning: Vec<PcpTuning>,
    /// For pcp-... only: instead of the table, what refill makes of fixed with each price halved
    /// and doubled.
    #[arg(long, conflicts_with_all = ["tuning", "results"])]
    sensitivity: bool,
}

impl PcpArgs {
    pub(super) fn is_given(&self) -> bool {
        self.sensitivity || !self.tuning.is_empty()
    }
}

#[derive(Clone, Copy, Debug)]
struct PcpCase {
    workload: PcpWorkload,
    tuning: PcpTuning,
    costs: Costs,
}

#[derive(Debug)]
struct PcpRuns {
    workload: PcpWorkload,
    tuning: PcpTuning,
    /// Outcomes by seed, not empty.
    outcomes: Vec<PcpOutcome>,
}

impl PcpRuns {
    fn median(&self) -> PcpRow {
        let share = |of: fn(&PcpRow) -> f64| self.range(of)[1];
        let count = |of: fn(&PcpRow) -> u64| {
            let mut values: Vec<u64> = self.outcomes.iter().map(|it| of(&it.row)).collect();
            values.sort_unstable();
            values[values.len() / 2]
        };
        PcpRow {
            allocated_gb_per_s: share(|row| row.allocated_gb_per_s),
            lock_wait_share: share(|row| row.lock_wait_share),
            alloc_p99_ns: count(|row| row.alloc_p99_ns),
            free_p99_ns: count(|row| row.free_p99_ns),
            zone_pages: count(|row| row.zone_pages),
            idle_pages: count(|row| row.idle_pages),
            ..self.outcomes[0].row
        }
    }

    /// Takes the fixed tuning in `all` as reference.
    fn to_result(&self, all: &[PcpRuns]) -> Measured {
        let values: Vec<f64> = self.outcomes.iter().map(|it| it.row.allocated_gb_per_s).collect();
        let case = self.workload.to_string();
        let row = Measured::over(case, self.tuning.as_str(), "GB/s", &values);
        let is_fixed =
            |it: &&PcpRuns| it.workload == self.workload && it.tuning == PcpTuning::Fixed;
        match all.iter().find(is_fixed) {
            Some(fixed) if self.tuning != PcpTuning::Fixed => {
                row.against("fixed", fixed.median().allocated_gb_per_s)
            }
            _ => row,
        }
    }

    /// Returns minimum, median and maximum.
    fn range(&self, of: fn(&PcpRow) -> f64) -> [f64; 3] {
        range_of(self.outcomes.iter().map(|it| of(&it.row)))
    }
}

pub(super) fn run(plays: &PlayArgs, args: &PcpArgs, interrupt: &Interrupt) -> Result<(), Failure> {
    let workloads = workloads(&plays.names, "pcp-all", &PcpWorkload::ALL)?;
    let tunings: &[PcpTuning] = if args.tuning.is_empty() { &PcpTuning::ALL } else { &args.tuning };
    let costs = plays.cost.iter().try_fold(Costs::HOST, Costs::with);
    let costs = costs.map_err(|error| Failure::Usage(format!("--cost {error}")))?;
    let seeds = plays.seeds(1);
    if args.sensitivity {
        let run_all = |cases: &[PcpCase]| run_all(cases, &seeds, plays.output.jobs, interrupt);
        let rows = sensitivity::rows(&workloads, costs, run_all)?;
        if let Some(path) = &plays.output.report {
            sensitivity::write(path, &rows, &costs)?;
        }
        let document = Document::new("pagetide.lab.pcp-sensitivity/1", &rows);
        return plays.output.json.print(&document, || sensitivity::text(&rows, &costs));
    }
    let case = |workload| move |&tuning| PcpCase { workload, tuning, costs };
    let cases: Vec<PcpCase> =
        workloads.iter().flat_map(|&workload| tunings.iter().map(case(workload))).collect();
    let runs = run_all(&cases, &seeds, plays.output.jobs, interrupt)?;
    if let Some(path) = &plays.output.report {
        report::write(path, &runs, &costs)?;
    }
    let rows: Vec<PcpRow> = runs.iter().map(PcpRuns::median).collect();
    plays.output.results.append(|| runs.iter().map(|it| it.to_result(&runs)).collect())?;
    plays.output.json.print(&Document::new("pagetide.lab.pcp/1", &rows), || text(&runs, &costs))
}

fn run_all(
    cases: &[PcpCase],
    seeds: &[u64],
    jobs: JobsArgs,
    interrupt: &Interrupt,
) -> Result<Vec<PcpRuns>, Failure> {
    let machines: Vec<(PcpCase, u64)> =
        cases.iter().flat_map(|case| seeds.iter().map(|&seed| (*case, seed))).collect();
    let bytes_each = cases.iter().map(|case| case.workload.bytes_needed()).max().unwrap_or(1);
    let nr_machines = machines.len();
    let progress = JointProgress::new(format!("running {nr_machines} machines"), nr_machines);
    let run_one = |&(PcpCase { workload, tuning, costs }, seed): &(PcpCase, u64)| {
        let mut set_done = progress.of_run();
        let keep_on = |share: f64| {
            set_done(share);
            !interrupt.is_set()
        };
        pcp::run_while(workload, tuning, costs, seed, keep_on)
            .map_err(|error| Failure::on("build the virtual machine", &error))?
            .ok_or(Failure::Interrupted)
    };
    let mut outcomes = jobs.run_all(&machines, Bytes(bytes_each), interrupt, run_one)?.into_iter();
    let runs = |&PcpCase { workload, tuning, .. }: &PcpCase| PcpRuns {
        workload,
        tuning,
        outcomes: outcomes.by_ref().take(seeds.len()).collect(),
    };
    Ok(cases.iter().map(runs).collect())
}

fn text(runs: &[PcpRuns], costs: &Costs) -> String {
    let mut text = String::new();
    for of_workload in runs.chunk_by(|one, other| one.workload == other.workload) {
        let (workload, nr_seeds) = (of_workload[0].workload, of_workload[0].outcomes.len());
        let _ = writeln!(text, "{workload}: {}. Seeds: {nr_seeds}.", workload.summary());
        text.push_str(&table(of_workload).spaced("  ", " ").to_text());
        if let Some(figures) = published_line(workload) {
            let _ = writeln!(text, "  {figures}");
        }
        text.push('\n');
    }
    let _ = writeln!(text, "{}", prices_line(costs));
    text
}

fn table(runs: &[PcpRuns]) -> Table<'static> {
    let columns = [
        left("tuning", 9),
        right("GB/s", 7),
        right("range", 18),
        right("lock wait", 10),
        right("alloc p99", 10),
        right("free p99", 9),
        right("zone pages", 11),
        right("idle pages", 11),
        right("failed", 7),
    ];
    let cells_of = |it: &PcpRuns| {
        let (row, [low, _, high]) = (it.median(), it.range(|row| row.allocated_gb_per_s));
        cells![
            row.tuning,
            format!("{:.2}", row.allocated_gb_per_s),
            format!("[{low:.2}, {high:.2}]"),
            percent(row.lock_wait_share, 2),
            format!("{} ns", row.alloc_p99_ns),
            format!("{} ns", row.free_p99_ns),
            row.zone_pages,
            row.idle_pages,
            it.outcomes.iter().map(|outcome| outcome.nr_failed).max().unwrap_or(0),
        ]
    };
    Table::new(&columns).with_rows(runs.iter().map(cells_of))
}

fn published_line(workload: PcpWorkload) -> Option<String> {
    let said = pcp::published(workload)?;
    let (before, after) = said.score;
    let mut text = format!("published: {before} -> {after} {}", said.unit);
    if let Some((before, after)) = said.lock_wait_share {
        let _ = write!(text, ", lock wait {:.1} % -> {:.1} %", before * 100.0, after * 100.0);
    }
    let _ = write!(text, " ({})", said.note);
    Some(text)
}

fn prices_line(costs: &Costs) -> String {
    let prices = costs.named().map(|(name, nanos)| format!("{name} {}", nanos.0));
    format!("Prices in ns: {}.", prices.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(tuning: PcpTuning, allocated_gb_per_s: f64, zone_pages: u64) -> PcpOutcome {
        let row = PcpRow {
            workload: PcpWorkload::Kbuild.as_str(),
            tuning: tuning.as_str(),
            cpus: 224,
            allocated_gb_per_s,
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
        assert_eq!((row.allocated_gb_per_s, row.zone_pages, row.cpus), (2.0, 200, 224));
        let text = text(&runs(), &Costs::HOST);
        assert_eq!(text.matches("[1.00, 3.00]").count(), 3, "{text}");
        assert_eq!(text.matches("25.00 %").count(), 3, "{text}");
        for part in ["published: 162.67 -> 162.67 s", "lock wait 17.0 % -> 12.3 %", "zone_page 20"]
        {
            assert!(text.contains(part), "{part} is missing: {text}");
        }
    }

    #[test]
    fn unknown_names_are_usage_errors_and_all_is_all() {
        let names = |name: &str| vec![name.to_owned()];
        let of = |name: &str| workloads(&names(name), "pcp-all", &PcpWorkload::ALL);
        let failure = of("pcp-nothing").expect_err("no such name");
        assert_eq!(failure.exit_code(), 2);
        assert!(failure.to_string().contains("pcp-page-fault1"), "{failure}");
        assert_eq!(of("pcp-all").expect("all"), PcpWorkload::ALL);
    }

    #[test]
    fn an_interrupt_ends_all_runs_without_an_answer() {
        let (workload, tuning) = (PcpWorkload::PatternA, PcpTuning::Fixed);
        let cases = [PcpCase { workload, tuning, costs: Costs::HOST }];
        let stopped = run_all(&cases, &[1, 2], JobsArgs::default(), &Interrupt::already_set());
        assert!(matches!(stopped, Err(Failure::Interrupted)));
    }
}

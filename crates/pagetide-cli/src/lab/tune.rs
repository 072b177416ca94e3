//! `pagetide lab tune`: what the constants of the policy called pagetide are worth.
//!
//! Problem: constants were chosen by somebody, and whoever doubts one should be able to look. Idea:
//! each row of the lab's table, with each variant and each sampling seed, on all cores; per variant
//! the median over seeds of each row's regret, and of these the worst and the median.
//!
//! ```text
//!   trace by trace:  rows x variants x seeds --> regrets --> table or JSON
//! ```
//!
//! Ignored: time.

use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::terminal;
use pagetide_core::lru::pagetide::Tuning;
use pagetide_lab::trace::DenseTrace;
use pagetide_lab::tune::{self, Row, Variant};
use rayon::prelude::*;
use serde::Serialize;
use std::env;
use std::fmt::Write;
use std::num::NonZeroU64;
use std::path::PathBuf;

const EXAMPLES: &str = "Examples:
  pagetide lab tune --traces DIR                          every row with the constants as they are
  pagetide lab tune --traces DIR --change all             and with each constant changed alone
  pagetide lab tune --rows zipf,loop15 --change horizon   rows and constants by a part of their name
  pagetide lab tune --rows shift4 --peers                 the best of the published ones, run anew
  pagetide lab tune --rows unseen                         rows that no constant was chosen by
  pagetide lab tune --rows tenths                         what recency wins, at nine sizes";

/// Rows of these are shown only where somebody asks for them.
const GROUPS: [&str; 2] = ["unseen", "tenths"];

/// Compare the constants of the policy pagetide over many traces.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct TuneArgs {
    /// The folder with the traces, PAGETIDE_TRACES or this one without; rows whose trace is not
    /// there are left out, and named.
    #[arg(long)]
    traces: Option<PathBuf>,
    /// Only rows with one of these in their name; with unseen, unseen1/NAME and the like, rows that
    /// the constants were not chosen by, and with tenths what recency wins.
    #[arg(long, value_delimiter = ',')]
    rows: Vec<String>,
    /// Also with each of these constants changed alone, by a part of their name; or all.
    #[arg(long, value_delimiter = ',')]
    change: Vec<String>,
    /// How many sampling seeds.
    #[arg(long, default_value = "8")]
    seeds: NonZeroU64,
    /// Run the published policies too, instead of taking their best from the table.
    #[arg(long)]
    peers: bool,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
}

/// A row under a variant.
#[derive(Debug, Serialize)]
struct Cell {
    variant: String,
    row: &'static str,
    best_policy: &'static str,
    best_miss_ratio: f64,
    /// By seed.
    miss_ratios: Vec<f64>,
    /// In points, the median over seeds.
    regret: f64,
}

/// Runs the command.
///
/// # Errors
/// A trace that is not sound, no rows at all, an interrupt.
pub(crate) fn run(args: &TuneArgs, interrupt: &Interrupt) -> Result<(), Failure> {
    let is_named = |parts: &[String], name: &str| parts.iter().any(|part| name.contains(part));
    let rows: Vec<&Row> = tune::all_rows().filter(|row| is_wanted(row, &args.rows)).collect();
    let variants: Vec<Variant> = Variant::all()
        .into_iter()
        .enumerate()
        .filter(|(at, it)| *at == 0 || args.change == ["all"] || is_named(&args.change, &it.name))
        .map(|(_, it)| it)
        .collect();
    let folder = args.traces.clone().or_else(|| env::var_os("PAGETIDE_TRACES").map(PathBuf::from));
    let folder = folder.unwrap_or_else(|| PathBuf::from("."));
    if rows.is_empty() {
        let names = tune::all_rows().map(|row| row.name).collect::<Vec<_>>().join(" ");
        return Err(Failure::Usage(format!("no row has that in its name; there are {names}")));
    }
    let mut cells = Vec::new();
    for same_trace in rows.chunk_by(|one, other| one.source == other.source) {
        let trace = match same_trace[0].source.load(&folder) {
            Ok(trace) => trace,
            Err(error) => {
                let row = same_trace[0].name;
                let file = same_trace[0].source.file().unwrap_or_default();
                let act = format!("read {}", folder.join(file).display());
                terminal::note(&format!("left out {row}: {}", Failure::on(&act, &error)));
                continue;
            }
        };
        for row in same_trace {
            cells.extend(play(args, row, &variants, &trace, interrupt)?);
        }
    }
    if cells.is_empty() {
        let said = "none of the traces could be read: --traces names their folder";
        return Err(Failure::Refused(said.to_owned()));
    }
    if args.json {
        terminal::print_json(&cells)
    } else {
        terminal::print(&table(&cells, &variants))
    }
}

/// Whether a row has one of these in its name; one of a group, the group's name before it.
fn is_wanted(row: &Row, parts: &[String]) -> bool {
    let is_apart = row.name.contains('/');
    let is_asked = |part: &String| {
        row.name.contains(part) && (!is_apart || GROUPS.iter().any(|group| part.starts_with(group)))
    };
    parts.is_empty() && !is_apart || parts.iter().any(is_asked)
}

/// One row, with all variants and seeds.
fn play(
    args: &TuneArgs,
    row: &Row,
    variants: &[Variant],
    trace: &DenseTrace,
    interrupt: &Interrupt,
) -> Result<Vec<Cell>, Failure> {
    let (policy, best) = if args.peers {
        tune::best_of_peers(trace, row.frames)
    } else {
        (row.best.policy, row.best.miss_ratio)
    };
    let cell = |variant: &Variant| {
        let ratio = |seed| {
            let tuning = Tuning { seed, ..variant.tuning };
            tune::miss_ratio(trace, row.frames, tuning, |_| !interrupt.is_set())
                .ok_or(Failure::Interrupted)
        };
        let ratios = (0..args.seeds.get()).into_par_iter().map(ratio);
        let miss_ratios = ratios.collect::<Result<Vec<f64>, Failure>>()?;
        let regret = 100.0 * (tune::median(miss_ratios.iter().copied()) - best);
        Ok(Cell {
            variant: variant.name.clone(),
            row: row.name,
            best_policy: policy.as_str(),
            best_miss_ratio: best,
            miss_ratios,
            regret,
        })
    };
    variants.par_iter().map(cell).collect()
}

/// The rows with the constants as they are, then a line for each variant.
fn table(cells: &[Cell], variants: &[Variant]) -> String {
    let mut text = String::new();
    let range = |cell: &Cell, best: f64| {
        let ends = cell.miss_ratios.iter().map(|ratio| 100.0 * (ratio - best));
        (ends.clone().fold(f64::INFINITY, f64::min), ends.fold(f64::NEG_INFINITY, f64::max))
    };
    // Writing to a string cannot fail.
    let _ =
        writeln!(text, "{:<24} {:>10} {:>8} {:>8} {:>16}", "row", "best", "", "regret", "seeds");
    for cell in cells.iter().filter(|cell| cell.variant == variants[0].name) {
        let (low, high) = range(cell, cell.best_miss_ratio);
        let _ = writeln!(
            text,
            "{:<24} {:>10} {:>8.4} {:>+8.2} [{low:>+6.2}, {high:>+6.2}]",
            cell.row, cell.best_policy, cell.best_miss_ratio, cell.regret,
        );
    }
    let _ = writeln!(text, "\n{:<28} {:>7} {:>7}  worst row", "constants", "median", "worst");
    for variant in variants {
        let of_variant = cells.iter().filter(|cell| cell.variant == variant.name);
        let worst = of_variant.clone().max_by(|one, other| one.regret.total_cmp(&other.regret));
        let Some(worst) = worst else { continue };
        let median = tune::median(of_variant.map(|cell| cell.regret));
        let _ = writeln!(
            text,
            "{:<28} {median:>+7.2} {:>+7.2}  {}",
            variant.name, worst.regret, worst.row
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(rows: &str) -> TuneArgs {
        TuneArgs {
            traces: Some(PathBuf::from("/nowhere")),
            rows: vec![rows.to_owned()],
            change: Vec::new(),
            seeds: NonZeroU64::new(2).expect("two"),
            peers: false,
            json: false,
        }
    }

    #[test]
    fn a_row_of_no_name_is_a_usage_error_and_no_trace_a_failure() {
        for (rows, code, said) in [("nobody's", 2, "OLTP@1000"), ("OLTP", 1, "--traces")] {
            let failure = run(&args(rows), &Interrupt::default()).expect_err("no row");
            assert_eq!(failure.exit_code(), code);
            assert!(failure.to_string().contains(said), "{failure}");
        }
    }

    #[test]
    fn rows_of_a_group_are_shown_where_it_is_named() {
        let nr_wanted = |parts: &[&str]| {
            let parts: Vec<String> = parts.iter().map(|part| (*part).to_owned()).collect();
            tune::all_rows().filter(|row| is_wanted(row, &parts)).count()
        };
        assert_eq!(nr_wanted(&[]), tune::ROWS.len());
        assert_eq!((nr_wanted(&["slide"]), nr_wanted(&["tenths/slide"])), (1, 9));
        assert_eq!(nr_wanted(&["tenths", "slide"]), 28);
        assert_eq!(nr_wanted(&["unseen1", "unseen2", "unseen3", "unseen4"]), tune::UNSEEN.len());
    }

    #[test]
    fn the_table_names_the_worst_row_of_each_variant() {
        let cell = |row, regret| Cell {
            variant: "as it is".to_owned(),
            row,
            best_policy: "lru",
            best_miss_ratio: 0.5,
            miss_ratios: vec![0.5 + regret / 100.0],
            regret,
        };
        let variants = Variant::all();
        let text = table(&[cell("one", 1.5), cell("two", -1.0)], &variants);
        assert!(text.contains("+0.25   +1.50  one"), "{text}");
        assert_eq!(text.lines().count(), 6, "{text}");
    }
}

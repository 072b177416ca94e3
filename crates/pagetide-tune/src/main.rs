//! Tuning: the value of each constant of the policy called pagetide.
//!
//! **Problem.** A policy without knobs has constants that were chosen once. A change must be judged
//! on all traces at once: a gain of a point here that loses ten elsewhere tunes the policy to a
//! trace.
//!
//! **Idea.**
//!
//! ```text
//!   rows (trace, frames, best of the online policies)
//!     x variants (unchanged constants, then each changed alone)
//!     x sampling seeds                                               --> regret, in points
//!                                                                        worst row, median row
//! ```
//!
//! A row's regret is its miss ratio less the best of nine published online policies. The median
//! over seeds counts. Rows have no weights: the worst row judges.
//!
//! **Data and invariants.** Deterministic: the same row, variant and seed give the same misses.
//!
//! **Ignored.** Time. The constants were chosen by the usual rows. Unseen rows are separate, and
//! `tenths` has the value of recency at more memory sizes.
#![forbid(unsafe_code)]

#[cfg(test)]
mod bounds;
mod policies;
mod replays;
mod report;
mod rows;
mod traces;
mod variants;

use clap::Parser;
use pagetide_core::lru::own::Tuning;
use pagetide_lab::trace::DenseTrace;
use rayon::prelude::*;
use report::{Cell, table};
use rows::{Row, all_rows};
use std::env;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use variants::Variant;

const EXAMPLES: &str = "Examples:
  pagetide-tune --traces DIR                          every row with the constants as they are
  pagetide-tune --traces DIR --change all             and with each constant changed alone
  pagetide-tune --rows zipf,loop15 --change horizon   rows and constants by a part of their name
  pagetide-tune --rows shift4 --peers                 the best of the published ones, run anew
  pagetide-tune --rows unseen                         rows that no constant was chosen by
  pagetide-tune --rows tenths                         what recency wins, at nine sizes
  pagetide-tune --policies > results/regret.jsonl     every policy, for docs/policies.md";

/// Groups of rows that are shown only on request.
const GROUPS: [&str; 2] = ["unseen", "tenths"];

/// Compare the constants of the policy pagetide over many traces.
#[derive(Debug, Parser)]
#[command(name = "pagetide-tune", after_help = EXAMPLES)]
struct TuneArgs {
    /// The folder with the traces, by default PAGETIDE_TRACES or the current folder. Rows without a
    /// trace are left out, and named.
    #[arg(long)]
    traces: Option<PathBuf>,
    /// Only rows with one of these in the name. unseen selects unseen1/NAME and so on, which the
    /// constants were not chosen by, and tenths the value of recency.
    #[arg(long, value_delimiter = ',')]
    rows: Vec<String>,
    /// Also with each of these constants changed alone, by a part of their name, or all.
    #[arg(long, value_delimiter = ',')]
    change: Vec<String>,
    /// The number of sampling seeds.
    #[arg(long, default_value = "8")]
    seeds: NonZeroU64,
    /// Run the published policies too, instead of taking the best from the table.
    #[arg(long)]
    peers: bool,
    /// Print the miss ratio of every policy instead, one JSON object per row.
    #[arg(long, conflicts_with_all = ["change", "peers", "json"])]
    policies: bool,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
}

fn main() -> ExitCode {
    let args = TuneArgs::parse();
    let cells = || {
        let variants = wanted_variants(&args);
        each_row(&args, |row, trace| play(&args, row, &variants, trace))
    };
    let printed = if args.policies {
        let line = |row, trace: &_| vec![policies::line(row, trace, args.seeds.get())];
        each_row(&args, line).map(|lines| lines.join("\n"))
    } else if args.json {
        cells().and_then(|it| serde_json::to_string_pretty(&it).map_err(|error| error.to_string()))
    } else {
        cells().map(|it| table(&it, &wanted_variants(&args)))
    };
    match printed {
        Ok(text) => {
            println!("{}", text.trim_end());
            ExitCode::SUCCESS
        }
        Err(said) => {
            eprintln!("pagetide-tune: {said}");
            ExitCode::FAILURE
        }
    }
}

/// Plays all selected rows, or returns the reason why there are none.
fn each_row<T>(
    args: &TuneArgs,
    mut play: impl FnMut(&'static Row, &DenseTrace) -> Vec<T>,
) -> Result<Vec<T>, String> {
    let rows: Vec<&'static Row> = all_rows().filter(|row| is_wanted(row, &args.rows)).collect();
    if rows.is_empty() {
        let names = all_rows().map(|row| row.name).collect::<Vec<_>>().join(" ");
        return Err(format!("no row has that in its name; there are {names}"));
    }
    let folder = args.traces.clone().or_else(|| env::var_os("PAGETIDE_TRACES").map(PathBuf::from));
    let folder = folder.unwrap_or_else(|| PathBuf::from("."));
    let mut played = Vec::new();
    for same_trace in rows.chunk_by(|one, other| one.source == other.source) {
        let Some(trace) = load(same_trace[0], &folder) else { continue };
        for row in same_trace {
            played.extend(play(row, &trace));
        }
    }
    if played.is_empty() {
        return Err("none of the traces could be read: --traces names their folder".to_owned());
    }
    Ok(played)
}

/// Loads a row's trace. `None` after printing why the row is left out.
fn load(row: &Row, folder: &Path) -> Option<DenseTrace> {
    let loaded = row.source.load(folder);
    loaded
        .inspect_err(|error| {
            let path = folder.join(row.source.file().unwrap_or_default());
            eprintln!("left out {}: {}: {error}", row.name, path.display());
        })
        .ok()
}

/// Returns the unchanged constants, and the requested changes.
fn wanted_variants(args: &TuneArgs) -> Vec<Variant> {
    let is_named = |name: &str| args.change.iter().any(|part| name.contains(part));
    Variant::all()
        .into_iter()
        .enumerate()
        .filter(|(at, it)| *at == 0 || args.change == ["all"] || is_named(&it.name))
        .map(|(_, it)| it)
        .collect()
}

/// Returns true if the row has one of these in the name. A group's rows need the group's name
/// first.
fn is_wanted(row: &Row, parts: &[String]) -> bool {
    let is_apart = row.name.contains('/');
    let is_asked = |part: &String| {
        row.name.contains(part) && (!is_apart || GROUPS.iter().any(|group| part.starts_with(group)))
    };
    parts.is_empty() && !is_apart || parts.iter().any(is_asked)
}

/// Plays one row, with all variants and seeds.
fn play(args: &TuneArgs, row: &'static Row, variants: &[Variant], trace: &DenseTrace) -> Vec<Cell> {
    let (policy, best) = if args.peers {
        replays::best_of_peers(trace, row.frames)
    } else {
        (row.best.policy, row.best.miss_ratio)
    };
    let cell = |variant: &Variant| {
        let seeds = (0..args.seeds.get()).into_par_iter();
        let ratio =
            |seed| replays::miss_ratio(trace, row.frames, Tuning { seed, ..variant.tuning });
        let miss_ratios: Vec<f64> = seeds.map(ratio).collect();
        Cell {
            variant: variant.name.clone(),
            row: row.name,
            best_policy: policy.as_str(),
            best_miss_ratio: best,
            regret: 100.0 * (replays::median(miss_ratios.iter().copied()) - best),
            miss_ratios,
        }
    };
    variants.par_iter().map(cell).collect()
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
            policies: false,
            json: false,
        }
    }

    #[test]
    fn a_row_of_no_name_and_no_trace_are_failures() {
        for (rows, said) in [("another's", "OLTP@1000"), ("OLTP", "--traces")] {
            let failure = each_row(&args(rows), |_, _| vec![()]).expect_err("no row");
            assert!(failure.contains(said), "{failure}");
        }
    }

    #[test]
    fn rows_of_a_group_are_shown_where_it_is_named() {
        let nr_wanted = |parts: &[&str]| {
            let parts: Vec<String> = parts.iter().map(|part| (*part).to_owned()).collect();
            all_rows().filter(|row| is_wanted(row, &parts)).count()
        };
        assert_eq!(nr_wanted(&[]), rows::ROWS.len());
        assert_eq!((nr_wanted(&["slide"]), nr_wanted(&["tenths/slide"])), (1, 9));
        assert_eq!(nr_wanted(&["tenths", "slide"]), 28);
        assert_eq!(nr_wanted(&["unseen1", "unseen2", "unseen3", "unseen4"]), rows::UNSEEN.len());
    }
}

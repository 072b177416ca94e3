//! `pagetide replay`: a recorded run through the same decisions, at other sizes and policies.
//!
//! Problem: "would half the memory do, and under which policy" should cost seconds, not a rollout.
//! Idea: the lab runs the decision code over the record, in virtual time; this command only opens
//! the file, asks for each policy at each size, and prints.
//!
//! ```text
//!   FILE --> trace --> DenseTrace --+--> policy x frames --> row --+--> table or JSON
//!                                   +--> ... (all cores)           +--> report
//! ```
//!
//! Ignored: times in the record; the lab has no clock. `seconds` is how long the replay took.

use crate::cells::Cell;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::source::SourceArgs;
use crate::{cells, report, terminal};
use pagetide_core::units::Bytes;
use pagetide_lab::replay::{Contender, Row};
use std::num::NonZeroUsize;
use std::path::PathBuf;

const EXAMPLES: &str = "Examples:
  pagetide replay run.trace --memory 64M
  pagetide replay run.trace --memory 64M,128M,256M --policy mglru,lru,opt
  pagetide replay run.trace --memory 64M,128M,256M,512M --report replay.html
  pagetide replay OLTP.lis --format arc-lis --frames 1000,5000 --json";

/// Replay a recorded run through the policies, in virtual time.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ReplayArgs {
    #[command(flatten)]
    source: SourceArgs,
    /// Memory sizes, as in 64M,128M.
    #[arg(long, value_delimiter = ',', value_parser = terminal::parse_size)]
    #[arg(required_unless_present = "frames")]
    memory: Vec<Bytes>,
    /// Memory sizes in frames of 4 KiB, as in 1000,5000.
    #[arg(long, value_delimiter = ',', conflicts_with = "memory")]
    frames: Vec<u32>,
    /// Policies: the names that `pagetide policies` lists, and opt (Belady's bound).
    #[arg(long, value_delimiter = ',', default_value = "mglru,lru")]
    policy: Vec<Contender>,
    /// Replays under way at a time; as many as there are cores, and memory for, without.
    #[arg(long)]
    jobs: Option<NonZeroUsize>,
    /// Write a report with a plot of miss ratio by size, one self-contained HTML file.
    #[arg(long)]
    report: Option<PathBuf>,
    /// Print the rows as one JSON document.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
///
/// # Errors
/// Sizes of no frame (usage), a file that cannot be read or understood, an interrupt.
pub(crate) fn run(args: &ReplayArgs, interrupt: &Interrupt) -> Result<(), Failure> {
    let sizes = sizes(args)?;
    let trace = args.source.read_dense(interrupt)?;
    let cells: Vec<Cell> = sizes
        .iter()
        .flat_map(|&frames| args.policy.iter().map(move |&contender| Cell { contender, frames }))
        .collect();
    let answers = cells::run(&trace, &cells, args.jobs, interrupt)?;
    let rows: Vec<Row> = answers
        .iter()
        .map(|it| it.outcome.to_row(it.cell.contender, it.cell.frames, it.seconds))
        .collect();
    if let Some(path) = &args.report {
        report::write_replay(path, &args.source.file, &trace, &rows)?;
    }
    if args.json { terminal::print_json(&rows) } else { terminal::print(&table(&rows)) }
}

/// The sizes asked for, in frames.
fn sizes(args: &ReplayArgs) -> Result<Vec<u32>, Failure> {
    let of_memory = args.memory.iter().map(|memory| {
        u32::try_from(memory.whole_pages()).map_err(|_| {
            Failure::Usage(format!(
                "--memory {memory} is too large: a replay has at most 2^32 - 1 frames of 4 KiB"
            ))
        })
    });
    let sizes =
        of_memory.chain(args.frames.iter().copied().map(Ok)).collect::<Result<Vec<u32>, _>>()?;
    if sizes.contains(&0) {
        return Err(Failure::Usage(
            "a memory of no frame holds nothing: use at least 4K, or --frames 1".to_owned(),
        ));
    }
    Ok(sizes)
}

fn table(rows: &[Row]) -> String {
    let mut text = format!(
        "{:<16} {:>10} {:>12} {:>12} {:>8} {:>12} {:>12} {:>12} {:>8}\n",
        "policy",
        "frames",
        "accesses",
        "misses",
        "missed",
        "evictions",
        "refaults",
        "activations",
        "seconds"
    );
    for row in rows {
        text.push_str(&format!(
            "{:<16} {:>10} {:>12} {:>12} {:>6.2} % {:>12} {:>12} {:>12} {:>8.3}\n",
            row.policy,
            row.frames,
            row.accesses,
            row.misses,
            row.miss_ratio * 100.0,
            row.evictions,
            row.refaults,
            row.activations,
            row.seconds
        ));
    }
    text
}

//! `pagetide replay`: a recorded run through the same decisions, at other sizes and policies.
//!
//! Problem: "would half the memory do, and under which policy" should cost seconds, not a rollout.
//! Idea: the lab runs the decision code over the record, in virtual time; this command only opens
//! the file, asks for each policy at each size, and prints.
//!
//! ```text
//!   FILE --> trace --> DenseTrace --+--> policy x frames --> row
//!                                   +--> ...
//! ```
//!
//! Ignored: times in the record; the lab has no clock. `seconds` is how long the replay took.

use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::terminal::{self, Progress};
use pagetide_core::units::Bytes;
use pagetide_lab::replay::{self, Contender, Row};
use pagetide_lab::trace::{DenseTrace, Format, Trace};
use std::path::PathBuf;
use std::time::Instant;

/// Accesses read between looks for Ctrl-C.
const CHECK_EVERY: usize = 1 << 16;

const EXAMPLES: &str = "Examples:
  pagetide replay run.trace --memory 64M
  pagetide replay run.trace --memory 64M,128M,256M --policy mglru,lru,opt
  pagetide replay OLTP.lis --format arc-lis --frames 1000,5000 --json";

/// Replay a recorded run through the policies, in virtual time.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ReplayArgs {
    /// The record, or a trace in another known format (zstd-compressed ones too).
    file: PathBuf,
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
    /// The trace's format, where neither its name nor its first bytes tell.
    #[arg(long)]
    format: Option<Format>,
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
    let trace = read_trace(args, interrupt)?;
    let nr_runs = sizes.len() * args.policy.len();
    let progress = Progress::new(format!("replaying {} accesses", trace.nr_accesses()));
    let mut rows: Vec<Row> = Vec::with_capacity(nr_runs);
    for &frames in &sizes {
        for &contender in &args.policy {
            interrupt.check()?;
            let start = Instant::now();
            let outcome = replay::run(contender, &trace, frames);
            rows.push(outcome.to_row(contender, frames, start.elapsed().as_secs_f64()));
            progress.set(rows.len() as f64 / nr_runs as f64);
        }
    }
    drop(progress);
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

fn read_trace(args: &ReplayArgs, interrupt: &Interrupt) -> Result<DenseTrace, Failure> {
    let act = format!("read the trace {}", args.file.display());
    let refuse = |error| Failure::on(&act, &error);
    let mut dense = DenseTrace::default();
    for (nr_read, access) in Trace::open(&args.file, args.format).map_err(refuse)?.enumerate() {
        dense.push(access.map_err(refuse)?);
        if nr_read % CHECK_EVERY == 0 {
            interrupt.check()?;
        }
    }
    if dense.nr_accesses() == 0 {
        return Err(Failure::Refused(format!("the trace {} has no accesses", args.file.display())));
    }
    Ok(dense)
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

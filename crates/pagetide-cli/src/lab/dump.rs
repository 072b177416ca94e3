//! `pagetide lab dump`: stops a replay anywhere and prints the generations in Linux's format.
//!
//! Commands (aging, eviction on request) run before the dump.
//!
//! ```text
//!   FILE --> the first N accesses --> replay --> commands --> lru_gen text
//! ```

use crate::document::Document;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::sizes::SizeArgs;
use crate::source::SourceArgs;
use crate::terminal::{self, JsonArgs};
use pagetide_core::ids::PageType;
use pagetide_core::lru::kernel::multigen::MultigenSummary;
use pagetide_core::lru::lru_gen::Detail;
use pagetide_core::lru::{GenCommandError, PolicyName};
use pagetide_lab::replay::{Setup, World};
use serde::Serialize;

const EXAMPLES: &str = "Examples:
  pagetide lab dump run.trace --memory 64M
  pagetide lab dump run.trace --memory 64M --at 100000 --full
  pagetide lab dump run.trace --memory 64M --command '+ 0 0 3' --command '- 0 0 2'";

/// Replay a trace up to an access, and print the generations as Linux's lru_gen does.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct DumpArgs {
    #[command(flatten)]
    source: SourceArgs,
    #[command(flatten)]
    sizes: SizeArgs,
    /// A policy with generations.
    #[arg(long, default_value = "mglru")]
    policy: PolicyName,
    /// Stop after so many accesses; at the end of the trace without.
    #[arg(long)]
    at: Option<u64>,
    /// Add tiers, refaults and what table walks counted (lru_gen_full).
    #[arg(long)]
    full: bool,
    /// A command to carry out first, as in '+ 0 0 3' (start a generation) or '- 0 0 1' (evict).
    #[arg(long, allow_hyphen_values = true)]
    command: Vec<String>,
    #[command(flatten)]
    json: JsonArgs,
}

#[derive(Serialize)]
struct GenerationRow {
    seq: u64,
    /// Start by the replay's clock.
    started_at_ms: u64,
    anon_pages: u64,
    file_pages: u64,
}

fn rows(summary: &MultigenSummary) -> Vec<GenerationRow> {
    let [anon, file] = [PageType::Anon, PageType::File].map(PageType::index);
    let rows = summary.generations.iter().map(|generation| GenerationRow {
        seq: generation.seq,
        started_at_ms: generation.birth.0,
        anon_pages: generation.nr_folios[anon],
        file_pages: generation.nr_folios[file],
    });
    rows.collect()
}

pub(crate) fn run(args: &DumpArgs, interrupt: &Interrupt) -> Result<(), Failure> {
    let nr_frames = args.sizes.only_frames()?;
    let (mut trace, _) = args.source.read_dense(interrupt)?;
    if let Some(at) = args.at {
        trace.truncate(at);
    }
    let mut world = World::new(Setup::new(args.policy, nr_frames), &trace, |_| {});
    if world.lruvec().multigen_summary().is_none() {
        let policy = args.policy;
        return Err(Failure::Usage(format!("{policy} has no generations: use mglru")));
    }
    if !world.play(|_| !interrupt.is_set()) {
        return Err(Failure::Interrupted);
    }
    for command in &args.command {
        let evicted = world.command_lru_gen(command).map_err(|error| refusal(command, error))?;
        terminal::note(&format!("{command}: {evicted} pages evicted"));
    }
    let detail = if args.full { Detail::Full } else { Detail::Sizes };
    // This call first processes pending access logs.
    let text = world.describe_lru_gen(detail);
    let generations = world.lruvec().multigen_summary().map(|summary| rows(&summary));
    args.json.print(&Document::new("pagetide.lab.dump/1", generations), || text)
}

fn refusal(command: &str, error: GenCommandError) -> Failure {
    let said = format!("cannot carry out '{command}': {error}");
    match error {
        GenCommandError::Syntax => Failure::Usage(said),
        _ => Failure::Refused(said),
    }
}

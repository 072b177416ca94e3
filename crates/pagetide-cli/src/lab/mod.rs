//! `pagetide lab`: experiments in virtual memory, independent of the machine.
//!
//! ```text
//!   run    scenarios x subjects x seeds, on all cores --> table, JSON or report
//!   list   the scenarios with their metrics
//!   dump   a trace, stopped anywhere: the generations as text, and commands to them
//!   make   a synthetic trace file
//!   why    one page of a trace: its hits, misses and evictions
//!   seeds  verdicts on the claims of Pagetide's source documents
//! ```

mod dump;
mod list;
mod make;
mod pcp;
mod play_args;
mod run;
mod scenarios;
mod seeds;
mod tiers;
mod why;

use crate::failure::Failure;
use crate::interrupt::Interrupt;

const EXAMPLES: &str = "Examples:
  pagetide lab list
  pagetide lab run wschange
  pagetide lab run wschange wsprotect --policy mglru,active-inactive,lru --seeds 20
  pagetide lab run all --report scenarios.html
  pagetide lab run pcp-page-fault1 --report lists.html     56 virtual CPUs and one zone lock
  pagetide lab run pmbench --seeds 3                       fast and slow memory";

/// Play scenarios and virtual machines; look into replays; make traces.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct LabArgs {
    #[command(subcommand)]
    command: LabCommand,
}

#[derive(Debug, clap::Subcommand)]
enum LabCommand {
    Run(run::RunArgs),
    List(list::ListArgs),
    Dump(dump::DumpArgs),
    Make(make::MakeArgs),
    Why(why::WhyArgs),
    Seeds(seeds::SeedsArgs),
}

pub(crate) fn run(args: &LabArgs, interrupt: &Interrupt) -> Result<(), Failure> {
    match &args.command {
        LabCommand::Run(args) => run::run(args, interrupt),
        LabCommand::List(args) => list::run(args),
        LabCommand::Dump(args) => dump::run(args, interrupt),
        LabCommand::Make(args) => make::run(args, interrupt),
        LabCommand::Why(args) => why::run(args, interrupt),
        LabCommand::Seeds(args) => seeds::run(args),
    }
}

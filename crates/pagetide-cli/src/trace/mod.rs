//! `pagetide trace`: describes traces and converts them to the compact format.

mod convert;
mod info;

use crate::failure::Failure;
use crate::interrupt::Interrupt;

const EXAMPLES: &str = "Examples:
  pagetide trace info OLTP.lis.zst
  pagetide trace info pages.bin --format u64le --json
  pagetide trace convert twitter.csv.zst twitter.ptt
  pagetide trace convert twitter.csv.zst twitter.ptt.zst";

/// Look into a trace, or convert it to the compact format.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct TraceArgs {
    #[command(subcommand)]
    command: TraceCommand,
}

#[derive(Debug, clap::Subcommand)]
enum TraceCommand {
    Info(info::InfoArgs),
    Convert(convert::ConvertArgs),
}

pub(crate) fn run(args: &TraceArgs, interrupt: &Interrupt) -> Result<(), Failure> {
    match &args.command {
        TraceCommand::Info(args) => info::run(args, interrupt),
        TraceCommand::Convert(args) => convert::run(args, interrupt),
    }
}

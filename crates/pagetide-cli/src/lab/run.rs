//! `pagetide lab run`: dispatches names to the lab's worlds.
//!
//! ```text
//!   pmbench, tier-...  --> tiers/      fast and slow memory
//!   pcp-...            --> pcp/        per-CPU lists on many CPUs
//!   the others         --> scenarios/  reclaim
//! ```

use super::play_args::PlayArgs;
use super::{pcp, scenarios, tiers};
use crate::failure::Failure;
use crate::interrupt::Interrupt;

const EXAMPLES: &str = "Examples:
  pagetide lab run wschange
  pagetide lab run wsprotect --policy mglru,mglru~tiers,lru
  pagetide lab run get-scan fio-randread --policy all --seeds 30 --json
  pagetide lab run all --report scenarios.html
  pagetide lab run wschange --first-seed 7 --seeds 1     one seed again

A subject is a policy, as `pagetide policies` lists them, with ~MECHANISM for each mechanism to be
turned the other way (mglru~tiers is mglru without tiers), and @stale-statistics for statistics
that are summed up only now and then, as a kernel does it.";

/// Play scenarios over several seeds, in virtual memory.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    plays: PlayArgs,
    #[command(flatten)]
    pcp: pcp::PcpArgs,
    #[command(flatten)]
    tiers: tiers::TierArgs,
}

pub(crate) fn run(args: &RunArgs, interrupt: &Interrupt) -> Result<(), Failure> {
    args.plays.output.check()?;
    if is_about_tiers(args)? {
        tiers::run(&args.plays, &args.tiers, interrupt)
    } else if is_about_lists(args)? {
        pcp::run(&args.plays, &args.pcp, interrupt)
    } else {
        scenarios::run(&args.plays, interrupt)
    }
}

/// Refuses a mixture.
fn is_about_tiers(args: &RunArgs) -> Result<bool, Failure> {
    let nr_of_tiers = args.plays.names.iter().filter(|name| tiers::is_named(name)).count();
    let refused = |sentence: &str| Err(Failure::Usage(sentence.to_owned()));
    match nr_of_tiers {
        0 if args.tiers.is_given() => {
            refused("--off, --ratio, --scale and --rate-limit are for pmbench and tier-...")
        }
        0 => Ok(false),
        all if all < args.plays.names.len() => {
            refused("pmbench and tier-... run apart from the others")
        }
        _ if args.pcp.is_given() => {
            refused("pmbench and tier-... have stages, not tunings of lists")
        }
        _ => Ok(true),
    }
}

/// Refuses a mixture.
fn is_about_lists(args: &RunArgs) -> Result<bool, Failure> {
    let nr_of_lists = args.plays.names.iter().filter(|name| name.starts_with(pcp::PREFIX)).count();
    let refused = |sentence: &str| Err(Failure::Usage(sentence.to_owned()));
    match nr_of_lists {
        0 if args.pcp.is_given() || !args.plays.cost.is_empty() => refused(
            "--tuning and --sensitivity are for pcp-... workloads, --cost for those and tier-...",
        ),
        0 => Ok(false),
        all if all < args.plays.names.len() => refused("pcp-... workloads and scenarios run apart"),
        _ if !args.plays.policy.is_empty() => {
            refused("pcp-... workloads have tunings, not policies")
        }
        _ => Ok(true),
    }
}

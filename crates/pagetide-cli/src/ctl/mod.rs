//! `pagetide ctl`: queries and steers a running cache over a socket (see `pagetide::control`).

mod find;
mod say;

pub(crate) use find::PATIENCE;
pub(crate) use say::latency;

use crate::failure::Failure;
use crate::terminal;
use pagetide::control::{ControlRequest, ask};
use pagetide_core::units::Bytes;
use std::path::PathBuf;
use std::time::Duration;

/// Maximum wait for a resize, a sync or a drop, which wait for the device.
const PATIENCE_TO_ACT: Duration = Duration::from_secs(600);

const EXAMPLES: &str = "A program under `pagetide run` can be asked, and one that starts \
`pagetide::control::Control`.
PID is its process, or one below `pagetide run`; without it, there must be only one cache.
Sockets are in $XDG_RUNTIME_DIR/pagetide (else /tmp/pagetide-UID), for their user and root.

Examples:
  pagetide ctl stats
  pagetide ctl 4711 resize 256M             grows up to the knob memory_max of its start
  pagetide ctl drop                         what is clean and not in use leaves memory
  pagetide ctl advise big.db dontneed
  pagetide ctl groups set scans low=64M     with min= and limit= as well
  pagetide ctl lru_gen                      the generations, as Linux shows them
  pagetide ctl lru_gen '+ 0 0 5'            and its commands
  pagetide ctl dump --json | jq '.rows[].file'";

/// Ask a cache that runs, and steer it.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, subcommand_required = true)]
pub(crate) struct CtlArgs {
    /// The cache: of this process, or at this socket.
    #[arg(value_name = "PID|SOCKET")]
    cache: Option<String>,
    /// Print one JSON document instead of text.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    act: Act,
}

#[derive(Debug, clap::Subcommand)]
enum Act {
    /// What it has done so far, and how full it is.
    Stats,
    /// Give it another limit.
    Resize {
        #[arg(value_parser = terminal::parse_size)]
        memory: Bytes,
    },
    /// Write back what is dirty, and drop what is not in use.
    Drop,
    /// Write back what is dirty, and make it durable.
    Sync,
    /// Tell it of a file: dontneed writes it back and drops it.
    Advise {
        file: PathBuf,
        #[arg(value_enum)]
        advice: FileAdvice,
    },
    /// The groups and what they use, or new limits for one.
    Groups {
        #[command(subcommand)]
        act: Option<GroupsAct>,
    },
    /// The generations in the kernel's format; with commands in that format, carries them out.
    #[command(name = "lru_gen")]
    LruGen {
        /// As lru_gen_full has it: the last four, with tiers and what walks counted.
        #[arg(long, conflicts_with = "commands")]
        full: bool,
        #[arg(allow_hyphen_values = true)]
        commands: Option<String>,
    },
    /// What is in memory: ranges of pages for each file.
    Dump,
}

#[derive(Debug, clap::Subcommand)]
enum GroupsAct {
    /// Other limits: what is not named stays.
    Set {
        name: String,
        /// low=SIZE, min=SIZE or limit=SIZE.
        #[arg(required = true, value_parser = parse_limit)]
        limits: Vec<(GroupLimit, Bytes)>,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum FileAdvice {
    Dontneed,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum GroupLimit {
    Limit,
    Min,
    Low,
}

fn parse_limit(text: &str) -> Result<(GroupLimit, Bytes), String> {
    let (name, size) = text.split_once('=').ok_or("write it as low=64M, min=64M or limit=64M")?;
    let limit = match name {
        "limit" => GroupLimit::Limit,
        "min" => GroupLimit::Min,
        "low" => GroupLimit::Low,
        _ => return Err(format!("a group has no {name}: it has low, min and limit")),
    };
    Ok((limit, terminal::parse_size(size)?))
}

pub(crate) fn run(args: &CtlArgs) -> Result<(), Failure> {
    let request = request_of(&args.act)?;
    let socket = find::find(args.cache.as_deref())?;
    let answer = ask(&socket, &request, PATIENCE_TO_ACT);
    let answer = answer.map_err(|error| Failure::Refused(error.to_string()))?;
    let only_groups = matches!(args.act, Act::Groups { act: None });
    if args.json { say::print_json(&answer, only_groups) } else { say::print(&answer, only_groups) }
}

fn request_of(act: &Act) -> Result<ControlRequest, Failure> {
    Ok(match act {
        Act::Stats | Act::Groups { act: None } => ControlRequest::Stats,
        Act::Resize { memory } => ControlRequest::Resize { memory_bytes: memory.0 },
        Act::Drop => ControlRequest::Drop,
        Act::Sync => ControlRequest::Sync,
        Act::Advise { file, advice: FileAdvice::Dontneed } => {
            let found = file.canonicalize();
            let found = found.map_err(|error| Failure::on_path("find", file, &error))?;
            let file = found.to_str().map(str::to_owned);
            let why = "its name is no UTF-8, and cannot be sent";
            ControlRequest::DropFile { file: file.ok_or_else(|| Failure::Refused(why.to_owned()))? }
        }
        Act::Groups { act: Some(GroupsAct::Set { name, limits }) } => {
            let of = |wanted| limits.iter().rev().find(|one| one.0 == wanted).map(|one| one.1.0);
            ControlRequest::SetGroup {
                name: name.clone(),
                limit_bytes: of(GroupLimit::Limit),
                min_bytes: of(GroupLimit::Min),
                low_bytes: of(GroupLimit::Low),
            }
        }
        Act::LruGen { full, commands: None } => ControlRequest::LruGen { full: *full },
        Act::LruGen { commands: Some(commands), .. } => {
            ControlRequest::CommandLruGen { commands: commands.clone() }
        }
        Act::Dump => ControlRequest::Dump,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_groups_are_read_or_refused_with_what_there_is() {
        assert_eq!(parse_limit("low=64M"), Ok((GroupLimit::Low, Bytes(64 << 20))));
        assert!(parse_limit("high=1G").unwrap_err().contains("low, min and limit"));
        assert!(parse_limit("low").is_err() && parse_limit("low=much").is_err());
    }
}

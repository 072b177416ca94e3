//! `pagetide policies`: which policies there are, and what each one is for.

use crate::failure::Failure;
use crate::terminal;
use pagetide_core::lru::PolicyName;
use serde::Serialize;

const EXAMPLES: &str = "Examples:
  pagetide policies
  pagetide policies --json";

/// List the replacement policies.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct PoliciesArgs {
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
}

/// The policy of a cache whose builder names none.
const DEFAULT: &str = "mglru";

#[derive(Serialize)]
struct Policy {
    name: &'static str,
    summary: &'static str,
    default: bool,
}

/// Runs the command.
///
/// # Errors
/// Where stdout cannot take the list.
pub(crate) fn run(args: &PoliciesArgs) -> Result<(), Failure> {
    let policies: Vec<Policy> = PolicyName::ALL
        .iter()
        .map(|name| Policy {
            name: name.as_str(),
            summary: name.summary(),
            default: name.as_str() == DEFAULT,
        })
        .collect();
    if args.json {
        return terminal::print_json(&policies);
    }
    let width = policies.iter().map(|policy| policy.name.len()).max().unwrap_or(0);
    let line = |policy: &Policy| {
        let default = if policy.default { " (default)" } else { "" };
        format!("{:<width$}  {}{default}\n", policy.name, policy.summary)
    };
    terminal::print(&policies.iter().map(line).collect::<String>())
}

//! `pagetide policies`: lists the policies and their purposes.

use crate::document::Document;
use crate::failure::Failure;
use crate::terminal::JsonArgs;
use pagetide_core::lru::{Mechanism, PolicyName};
use serde::Serialize;

const EXAMPLES: &str = "Examples:
  pagetide policies
  pagetide policies --mechanisms
  pagetide policies --json";

/// List the replacement policies.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct PoliciesArgs {
    /// List each policy's mechanisms too, which --off and --on of other commands switch; with
    /// --json they are always there.
    #[arg(long)]
    mechanisms: bool,
    #[command(flatten)]
    json: JsonArgs,
}

#[derive(Serialize)]
struct Policy {
    name: &'static str,
    summary: &'static str,
    /// True for the default policy of a cache.
    default: bool,
    mechanisms: Vec<MechanismRow>,
}

#[derive(Serialize)]
struct MechanismRow {
    name: &'static str,
    effect: &'static str,
    source: &'static str,
    /// True if on by default.
    default: bool,
}

fn mechanisms_of(policy: PolicyName) -> Vec<MechanismRow> {
    let row = |it: Mechanism| MechanismRow {
        name: it.as_str(),
        effect: it.effect(),
        source: it.source(),
        default: it.is_on_by_default(),
    };
    Mechanism::of(policy).map(row).collect()
}

pub(crate) fn run(args: &PoliciesArgs) -> Result<(), Failure> {
    let policies: Vec<Policy> = PolicyName::ALL
        .iter()
        .map(|name| Policy {
            name: name.as_str(),
            summary: name.summary(),
            default: *name == PolicyName::default(),
            mechanisms: mechanisms_of(*name),
        })
        .collect();
    let width = policies.iter().map(|policy| policy.name.len()).max().unwrap_or(0);
    let line = |policy: &Policy| {
        let default = if policy.default { " (default)" } else { "" };
        let mut text = format!("{:<width$}  {}{default}\n", policy.name, policy.summary);
        for it in policy.mechanisms.iter().filter(|_| args.mechanisms) {
            let off = if it.default { "" } else { " (off unless switched on)" };
            text.push_str(&format!("    {}{off}\n        {}\n", it.name, it.effect));
            text.push_str(&format!("        Source: {}.\n", it.source));
        }
        text
    };
    args.json.print(&Document::new("pagetide.policies/1", &policies), || {
        policies.iter().map(line).collect()
    })
}

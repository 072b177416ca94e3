//! `--recorded`: a run again, in the memory that it had.
//!
//! ```text
//!   header --> policy, memory, tiers --> cells --> rows, and what each tier did
//! ```
//!
//! Every column gets what the run read ahead. The run's own policy has the mechanisms on that it
//! had; `--off` and `--on` change these. Others that it is compared with have theirs.

use super::{ReplayArgs, explain, rows, table};
use crate::cells::{self, Cell};
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::readahead::Question;
use crate::source::Facts;
use crate::{machine, terminal};
use pagetide_core::lru::{PolicyName, Switches};
use pagetide_core::units::Bytes;
use pagetide_lab::replay::{Contender, Memory, ReplayRow};
use pagetide_lab::trace::{DenseTrace, PAGES_A_BYTE, PAGES_ALLOWED};

/// Runs the command.
///
/// # Errors
/// As `replay`; a file that is no record of a run.
pub(super) fn run(args: &ReplayArgs, interrupt: &Interrupt) -> Result<(), Failure> {
    let (trace, facts) = args.source.read_dense(interrupt)?;
    let (run, memory) = recorded(args, &facts)?;
    check_claim(args, memory, &trace)?;
    let policy = Contender::Policy(run.policy);
    let policies = if args.policy.is_empty() { vec![policy] } else { args.policy.clone() };
    let has_tiers = matches!(memory, Memory::Tiers(_));
    args.setup.check_parts(&policies, has_tiers)?;
    let cell = |contender| {
        Cell::new(contender, memory.nr_frames_max(), |policy, _| {
            let switches = if policy == run.policy { run.switches } else { Switches::default() };
            args.setup.setup_in(policy, memory, switches, &facts)
        })
    };
    let cells: Vec<Cell> = policies.into_iter().map(cell).collect();
    let answers = cells::run(&trace, &cells, args.jobs, interrupt)?;
    let rows = rows(&answers, false);
    let question = Question::of(&trace);
    if args.json {
        terminal::print_json(&explain::told(&rows, question, &[]))
    } else {
        terminal::print(&(table(&rows, question) + &tiers_table(&rows)))
    }
}

/// What decided in the run.
#[derive(Clone, Copy)]
struct Recorded {
    policy: PolicyName,
    switches: Switches,
}

/// What the record says of the run.
fn recorded(args: &ReplayArgs, facts: &Facts) -> Result<(Recorded, Memory), Failure> {
    let file = args.source.file.display();
    let header = facts.header.as_ref().filter(|header| header.is_of_run()).ok_or_else(|| {
        Failure::Refused(format!(
            "{file} is of no recorded run: leave out --recorded, and say how much memory"
        ))
    })?;
    let memory = Memory::of_record(header);
    let switches = header.switches;
    let run = header.policy.parse().ok().map(|policy| Recorded { policy, switches });
    run.zip(memory).ok_or_else(|| {
        Failure::Refused(format!("{file} has a damaged header: no such run can have been"))
    })
}

/// Refuses a memory that the record cannot have filled: its frames would be made, and none used.
fn check_claim(args: &ReplayArgs, memory: Memory, trace: &DenseTrace) -> Result<(), Failure> {
    let (frames, entries) = (u64::from(memory.nr_frames_max()), trace.nr_entries());
    if frames <= PAGES_ALLOWED.saturating_add(entries.saturating_mul(PAGES_A_BYTE)) {
        return Ok(());
    }
    Err(Failure::Refused(format!(
        "{} claims a memory of {}, and has {entries} entries: nothing was evicted in it; leave out \
         --recorded, and say how much memory",
        args.source.file.display(),
        machine::rounded(Bytes::from_pages(frames).0),
    )))
}

/// Served and resident pages of each tier, and the moves between them; nothing for one kind of
/// memory.
fn tiers_table(rows: &[ReplayRow]) -> String {
    let Some(nr_tiers) = rows.iter().find_map(|row| Some(row.tiers?.served().len())) else {
        return String::new();
    };
    let mut text = format!("\n{:<16}", "policy");
    for nth in 0..nr_tiers {
        text.push_str(&format!(" {:>12} {:>12}", format!("tier{nth} held"), "served"));
    }
    let moves = ["promoted", "demoted", "hint faults", "too cold", "over rate", "no room"];
    moves.iter().for_each(|name| text.push_str(&format!(" {name:>12}")));
    text.push('\n');
    for row in rows {
        let Some(counts) = row.tiers else { continue };
        text.push_str(&format!("{:<16}", row.policy));
        for (held, served) in counts.resident().iter().zip(counts.served()) {
            text.push_str(&format!(" {held:>12} {served:>12}"));
        }
        let moves = [
            counts.promoted,
            counts.demoted,
            counts.hint_faults,
            counts.too_cold,
            counts.rate_limited,
            counts.no_room,
        ];
        moves.iter().for_each(|nr| text.push_str(&format!(" {nr:>12}")));
        text.push('\n');
    }
    text
}

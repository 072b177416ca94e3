//! `--recorded`: repeats a run in its recorded memory.
//!
//! ```text
//!   header --> policy, memory, tiers --> cells --> rows, and accesses of each tier
//! ```
//!
//! Every column gets the recorded readahead. The run's own policy has its recorded mechanisms,
//! changed by `--off` and `--on`. Other policies have their defaults.

use super::{ReplayArgs, explain, rows, table};
use crate::cells;
use crate::document::Document;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::machine;
use crate::readahead;
use crate::table::{Table, left, right};
use pagetide_core::lru::{PolicyName, Switches};
use pagetide_core::units::Bytes;
use pagetide_lab::replay::{Cell, Contender, Memory, ReplayRow};
use pagetide_lab::trace::{DenseTrace, Facts, PAGES_A_BYTE, PAGES_ALLOWED, ReadaheadUse};

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
    let answers = cells::run(&trace, &cells, args.output.jobs, interrupt)?;
    let rows = rows(&answers, false);
    let readahead_use = ReadaheadUse::of(&trace);
    let described = explain::described(&rows, readahead_use, &[]);
    args.output.json.print(&Document::new("pagetide.replay/1", described), || {
        format!(
            "{}\n{}{}",
            readahead::describe(readahead_use),
            table(&rows).to_text(),
            tiers_text(&rows)
        )
    })
}

#[derive(Clone, Copy)]
struct Recorded {
    policy: PolicyName,
    switches: Switches,
}

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

/// Refuses a claimed memory larger than the record can fill.
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

/// Returns empty text for one tier.
fn tiers_text(rows: &[ReplayRow]) -> String {
    let Some(nr_tiers) = rows.iter().find_map(|row| Some(row.tiers?.served().len())) else {
        return String::new();
    };
    let tiers: Vec<String> = (0..nr_tiers).map(|nth| format!("tier{nth} held")).collect();
    let mut columns = vec![left("policy", 16)];
    columns.extend(tiers.iter().flat_map(|held| [right(held, 12), right("served", 12)]));
    let moves = ["promoted", "demoted", "hint faults", "too cold", "over rate", "no room"];
    columns.extend(moves.map(|name| right(name, 12)));
    let mut table = Table::new(&columns);
    for row in rows {
        let Some(counts) = row.tiers else { continue };
        let mut cells = vec![row.policy.to_owned()];
        for (held, served) in counts.resident().iter().zip(counts.served()) {
            cells.extend([held.to_string(), served.to_string()]);
        }
        let moves = [
            counts.promoted,
            counts.demoted,
            counts.hint_faults,
            counts.too_cold,
            counts.rate_limited,
            counts.no_room,
        ];
        cells.extend(moves.map(|nr| nr.to_string()));
        table.push(cells);
    }
    format!("\n{}", table.to_text())
}

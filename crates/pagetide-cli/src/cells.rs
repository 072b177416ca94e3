//! Cells: each policy at each size, replayed on all cores.
//!
//! ```text
//!   trace (shared, read only), cells --> parallel.rs --> answers in the order of cells
//! ```
//!
//! Every cell looks for Ctrl-C some ten thousand entries apart. Memory beyond the trace's pages
//! changes no miss, so a cell never holds more frames than that, whatever size it stands for.
//!
//! Ignored: `seconds` of cells that run side by side is longer than alone, as they share caches;
//! `--jobs 1` measures.

use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::parallel::JobsArgs;
use crate::terminal::Meter;
use pagetide_core::lru::PolicyName;
use pagetide_core::units::Bytes;
use pagetide_lab::replay::{self, Contender, Memory, ReplayOutcome, Setup};
use pagetide_lab::trace::DenseTrace;
use pagetide_sys::read_thread_cpu_time_ns;
use std::time::Instant;

/// One replay to be made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cell {
    pub(crate) contender: Contender,
    pub(crate) frames: u32,
    /// What runs, if it is a policy.
    pub(crate) setup: Option<Setup>,
}

impl Cell {
    /// A contender at a size; `setup` makes a policy's setup.
    pub(crate) fn new(
        contender: Contender,
        frames: u32,
        setup: impl FnOnce(PolicyName, u32) -> Setup,
    ) -> Cell {
        let setup = match contender {
            Contender::Policy(policy) => Some(setup(policy, frames)),
            Contender::Opt => None,
        };
        Cell { contender, frames, setup }
    }
}

/// A cell's answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer {
    pub(crate) cell: Cell,
    pub(crate) outcome: ReplayOutcome,
    /// How long it took.
    pub(crate) seconds: f64,
    /// How long its thread was on a CPU.
    pub(crate) cpu_ns: u64,
}

/// Replays `trace` through all `cells`; the answers come in the cells' order.
///
/// # Errors
/// A cell that the machine has no memory for; an interrupt.
pub(crate) fn run(
    trace: &DenseTrace,
    cells: &[Cell],
    jobs: JobsArgs,
    interrupt: &Interrupt,
) -> Result<Vec<Answer>, Failure> {
    let total = trace.nr_entries().saturating_mul(cells.len() as u64);
    let meter = Meter::new(format!("replaying {} cells", cells.len()), Some(total));
    let bytes_each = cells.iter().map(|cell| bytes_needed(trace, *cell)).max().unwrap_or(0);
    let answer = |cell: &Cell| run_cell(trace, *cell, &meter, interrupt);
    jobs.run_all(cells, Bytes(bytes_each.max(1)), interrupt, answer)
}

fn run_cell(
    trace: &DenseTrace,
    cell: Cell,
    meter: &Meter,
    interrupt: &Interrupt,
) -> Result<Answer, Failure> {
    let (start, start_ns) = (Instant::now(), read_thread_cpu_time_ns());
    let keep_on = |entries| {
        meter.add(entries);
        !interrupt.is_set()
    };
    let outcome = match held(trace, cell) {
        Some(setup) => replay::run_setup_while(setup, trace, keep_on),
        None => replay::run_while(cell.contender, trace, frames_held(trace, cell), keep_on),
    };
    let outcome = outcome.ok_or(Failure::Interrupted)?;
    let cpu_ns = read_thread_cpu_time_ns().saturating_sub(start_ns);
    Ok(Answer { cell, outcome, seconds: start.elapsed().as_secs_f64(), cpu_ns })
}

/// The cell's setup, in no more memory than can matter. A machine keeps frames free by its size.
fn held(trace: &DenseTrace, cell: Cell) -> Option<Setup> {
    let setup = cell.setup?;
    let memory = match setup.memory {
        Memory::Group { .. } => Memory::Group { nr_frames: frames_held(trace, cell) },
        // Every page and its nodes fit twice as many, and the group's other charges.
        Memory::KernelGroup { limit_pages } => Memory::KernelGroup {
            limit_pages: limit_pages.min(nr_pages(trace).saturating_mul(2).saturating_add(128)),
        },
        memory @ (Memory::Machine { .. } | Memory::Zone(_) | Memory::Tiers(_)) => memory,
    };
    Some(Setup { memory, ..setup })
}

fn frames_held(trace: &DenseTrace, cell: Cell) -> u32 {
    cell.frames.min(nr_pages(trace).max(1))
}

fn nr_pages(trace: &DenseTrace) -> u32 {
    u32::try_from(trace.nr_pages()).expect("ranks are 32 bits")
}

/// What the replay of a cell takes, in bytes.
fn bytes_needed(trace: &DenseTrace, cell: Cell) -> u64 {
    let held = held(trace, cell).map(|setup| setup.memory.nr_frames_max());
    let frames = held.unwrap_or_else(|| frames_held(trace, cell));
    replay::bytes_needed(cell.contender, trace, frames)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cells() -> Vec<Cell> {
        let contenders = Contender::all().filter(|contender| *contender != Contender::Opt);
        contenders
            .flat_map(|contender| {
                [3, 10, 40].map(|frames| Cell::new(contender, frames, Setup::new))
            })
            .collect()
    }

    #[test]
    fn answers_come_in_the_order_of_cells_whatever_the_number_of_threads() {
        let trace = DenseTrace::from_reads((0..20_000).map(|step| step * step % 61 % 40));
        let alone = run(&trace, &cells(), JobsArgs::of(1), &Interrupt::default());
        let together = run(&trace, &cells(), JobsArgs::of(4), &Interrupt::default());
        let counted =
            |answers: Result<Vec<Answer>, Failure>| -> Vec<(Contender, u32, ReplayOutcome)> {
                let answers = answers.expect("nothing stops it");
                answers.iter().map(|it| (it.cell.contender, it.cell.frames, it.outcome)).collect()
            };
        let (alone, together) = (counted(alone), counted(together));
        assert_eq!(alone.len(), cells().len());
        assert_eq!(alone, together);
    }

    #[test]
    fn an_interrupt_ends_all_cells_without_an_answer() {
        let trace = DenseTrace::from_reads(0..1000);
        let stopped = run(&trace, &cells(), JobsArgs::default(), &Interrupt::already_set());
        assert!(matches!(stopped, Err(Failure::Interrupted)));
    }

    #[test]
    fn memory_beyond_the_pages_is_not_asked_of_the_machine() {
        let trace = DenseTrace::from_reads((0..1000).map(|step| step % 7));
        let cell = Cell::new(cells()[0].contender, u32::MAX, Setup::new);
        let answers =
            run(&trace, &[cell], JobsArgs::default(), &Interrupt::default()).expect("it fits");
        assert_eq!((answers[0].outcome.misses, answers[0].cell.frames), (7, u32::MAX));
    }
}

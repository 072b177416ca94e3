//! Cells: replays each policy at each size on all cores.
//!
//! ```text
//!   trace (shared, read only), cells --> parallel.rs --> answers in the order of cells
//! ```
//!
//! Checks Ctrl-C about every ten thousand entries. Parallel cells share CPU caches, which lengthens
//! `seconds`. `--jobs 1` measures best.

use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::parallel::JobsArgs;
use crate::terminal::Meter;
use pagetide_core::units::Bytes;
use pagetide_lab::replay::{Cell, ReplayOutcome};
use pagetide_lab::trace::DenseTrace;
use pagetide_sys::read_thread_cpu_time_ns;
use std::time::Instant;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer {
    pub(crate) cell: Cell,
    pub(crate) outcome: ReplayOutcome,
    /// Wall time.
    pub(crate) seconds: f64,
    /// The thread's CPU time.
    pub(crate) cpu_ns: u64,
}

/// Answers are in the order of the cells.
pub(crate) fn run(
    trace: &DenseTrace,
    cells: &[Cell],
    jobs: JobsArgs,
    interrupt: &Interrupt,
) -> Result<Vec<Answer>, Failure> {
    let total = trace.nr_entries().saturating_mul(cells.len() as u64);
    let meter = Meter::new(format!("replaying {} cells", cells.len()), Some(total));
    let bytes_each = cells.iter().map(|cell| cell.bytes_needed(trace)).max().unwrap_or(0);
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
    let outcome = cell.run_while(trace, keep_on).ok_or(Failure::Interrupted)?;
    let cpu_ns = read_thread_cpu_time_ns().saturating_sub(start_ns);
    Ok(Answer { cell, outcome, seconds: start.elapsed().as_secs_f64(), cpu_ns })
}

#[cfg(test)]
mod tests {
    use super::*;
    use pagetide_lab::replay::{Contender, Setup};

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
}

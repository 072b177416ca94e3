//! Alternating turns of a program and its reference, pinned to two CPUs in turn.
//!
//! A round's time is the mean of its turns:
//!
//! ```text
//!   2  a single-threaded random reader, pinned to the first allowed CPU in one turn and to the
//!      last in the other: a device's interrupt goes to one CPU, and other CPUs wait longer
//!   4  seq, stream, unpinned: a device's speed changes within seconds
//!   1  the others
//! ```
//!
//! Subject and reference use the same CPU in a turn, and their order alternates evenly on each CPU.
//! Only the program is pinned, not the server or kernel threads.

use super::super::interleave::{Samples, TimedRun, interleave};
use super::super::{Identity, Row};
use super::program::{LINUX, Program, Under};
use crate::dataset::drop_from_kernel_cache;
use crate::failure::Failure;
use rustix::thread::{CpuSet, sched_getaffinity};
use std::cell::Cell;
use std::path::Path;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Turns {
    nr: u32,
    is_held: bool,
}

impl Turns {
    fn of(case: &str, jobs: u32) -> Turns {
        match case {
            "seq" | "stream" => Turns { nr: 4, is_held: false },
            _ if jobs == 1 => Turns { nr: 2, is_held: true },
            _ => Turns { nr: 1, is_held: false },
        }
    }
}

/// Returns a turn's CPU. After the first turn, each CPU has two turns in a row, one per order, so
/// each round of two turns has both CPUs.
fn cpu_for(turn: u32, ends: [usize; 2]) -> usize {
    ends[turn.div_ceil(2) as usize % 2]
}

pub(super) fn end_cpus() -> [usize; 2] {
    let allowed = sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new());
    let mut cpus = (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu));
    let first = cpus.next().unwrap_or(0);
    [first, cpus.next_back().unwrap_or(first)]
}

/// The file is dropped from the kernel's page cache before each turn.
pub(super) struct Work<'a> {
    pub(super) program: Program<'a>,
    pub(super) file: &'a Path,
}

impl Work<'_> {
    /// Measures turns. `read` computes nanoseconds from the output and the seconds.
    pub(super) fn row(
        &self,
        identity: Identity<'_>,
        read: impl Fn(&str, f64) -> Option<f64>,
    ) -> Result<Row, Failure> {
        let bench = self.program.bench;
        let (_, case, jobs) = identity;
        let (turns, ends, read) = (Turns::of(case, jobs), end_cpus(), &read);
        let timed_run = |under: Under| -> TimedRun<'_> {
            let turn = Cell::new(0);
            Box::new(move || {
                let cpu = turns.is_held.then(|| cpu_for(turn.replace(turn.get() + 1), ends));
                drop_from_kernel_cache(self.file)?;
                let ran = self.program.run(under, cpu)?;
                read(&ran.printed, ran.seconds).ok_or_else(|| {
                    Failure::Refused(format!("cannot make sense of: {}", ran.printed))
                })
            })
        };
        let label = format!("run {case}, {jobs} jobs");
        let timed_runs = [timed_run(Under::Run(bench.policy())), timed_run(Under::Linux(LINUX))];
        let nr_turns = bench.args.runs * turns.nr;
        let samples = interleave(&label, nr_turns, bench.interrupt, timed_runs)?;
        let [subject, reference] = samples.map(|one: Samples| one.means_of(turns.nr));
        Ok(Row::measured(identity, LINUX, &subject, &reference))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_round_has_both_cpus_and_each_has_both_orders() {
        let cpus: Vec<usize> = (0..8).map(|turn| cpu_for(turn, [3, 7])).collect();
        assert!(cpus.chunks(2).all(|round| round.contains(&3) && round.contains(&7)));
        // The order of the contenders alternates.
        let nr_first = |cpu| (0..8).step_by(2).filter(|turn| cpus[*turn] == cpu).count();
        assert_eq!((nr_first(3), nr_first(7)), (2, 2));
    }
}

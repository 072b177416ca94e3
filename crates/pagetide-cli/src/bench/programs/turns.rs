//! Turns of a program and its reference, on one CPU and then on another.
//!
//! A round is made of several turns, and its time is their mean:
//!
//! ```text
//!   2  a program of one thread that reads at random, held on a CPU: the first that we may use in
//!      one turn, the last in the other. A device's interrupt goes to one of them, and a program on
//!      another waits longer for each read: otherwise the row shows which CPU the scheduler chose
//!   4  seq, stream, where it is free: what a device does changes within seconds
//!   1  the others
//! ```
//!
//! Subject and reference are held on the same CPU in the same turn, and which is first changes with
//! each; each is first as often as second on each CPU. Only the program is held, neither the run's
//! server nor the kernel's threads.

use super::super::interleave::{Samples, TimedRun, interleave};
use super::super::{Identity, Row};
use super::program::{LINUX, Program, Under};
use crate::dataset::drop_from_kernel_cache;
use crate::failure::Failure;
use rustix::thread::{CpuSet, sched_getaffinity};
use std::cell::Cell;
use std::path::Path;

/// How often each contender runs in a round.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Turns {
    nr: u32,
    /// On one CPU after the other.
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

/// The CPU for a turn, of two: each has two turns in a row, one for each order of the contenders,
/// but the first of all, and so each round of two turns has both.
fn cpu_for(turn: u32, ends: [usize; 2]) -> usize {
    ends[turn.div_ceil(2) as usize % 2]
}

/// The first and the last CPU we may use.
pub(super) fn end_cpus() -> [usize; 2] {
    let allowed = sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new());
    let mut cpus = (0..CpuSet::MAX_CPU).filter(|cpu| allowed.is_set(*cpu));
    let first = cpus.next().unwrap_or(0);
    [first, cpus.next_back().unwrap_or(first)]
}

/// A program over one file, which is dropped from the kernel's page cache before each turn.
pub(super) struct Work<'a> {
    pub(super) program: Program<'a>,
    pub(super) file: &'a Path,
}

impl Work<'_> {
    /// Subject and reference in turn; `read` makes nanoseconds of what the program printed and of
    /// the seconds it took.
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
        // The order of the contenders changes with each turn.
        let nr_first = |cpu| (0..8).step_by(2).filter(|turn| cpus[*turn] == cpu).count();
        assert_eq!((nr_first(3), nr_first(7)), (2, 2));
    }
}

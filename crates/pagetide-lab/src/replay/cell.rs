//! A cell of a table of replays: one policy at one size.
//!
//! Problem: a size may be far beyond the trace's pages, and unused frames still cost real memory.
//! Idea: a cell never holds more frames than the trace has pages.
//!
//! Ignored: parallel runs, which callers schedule.

use super::{Contender, Memory, ReplayOutcome, Setup, bytes_needed, run_setup_while, run_while};
use crate::trace::DenseTrace;
use pagetide_core::lru::PolicyName;

/// A planned replay.
#[derive(Clone, Copy, Debug)]
pub struct Cell {
    /// The policy or the optimum.
    pub contender: Contender,
    /// The size that the cell stands for, in frames.
    pub frames: u32,
    /// The setup of a policy.
    pub setup: Option<Setup>,
}

impl Cell {
    /// Returns a cell. `setup` makes a policy's setup.
    pub fn new(
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

    /// Replays `trace`, with `keep_on` as for [`run_while`].
    pub fn run_while(
        &self,
        trace: &DenseTrace,
        keep_on: impl FnMut(u64) -> bool,
    ) -> Option<ReplayOutcome> {
        match self.held(trace) {
            Some(setup) => run_setup_while(setup, trace, keep_on),
            None => run_while(self.contender, trace, self.frames_held(trace), keep_on),
        }
    }

    /// Returns the maximum memory of the replay besides `trace`, in bytes.
    pub fn bytes_needed(&self, trace: &DenseTrace) -> u64 {
        let held = self.held(trace).map(|setup| setup.memory.nr_frames_max());
        let frames = held.unwrap_or_else(|| self.frames_held(trace));
        bytes_needed(self.contender, trace, frames)
    }

    /// Returns the setup without useless memory. A machine keeps its size, which decides the free
    /// frames.
    fn held(&self, trace: &DenseTrace) -> Option<Setup> {
        let setup = self.setup?;
        let memory = match setup.memory {
            Memory::Group { .. } => Memory::Group { nr_frames: self.frames_held(trace) },
            // Twice the pages hold every page with its nodes. 128 covers the other charges.
            Memory::KernelGroup { limit_pages } => Memory::KernelGroup {
                limit_pages: limit_pages.min(nr_pages(trace).saturating_mul(2).saturating_add(128)),
            },
            memory @ (Memory::Machine { .. } | Memory::Zone(_) | Memory::Tiers(_)) => memory,
        };
        Some(Setup { memory, ..setup })
    }

    fn frames_held(&self, trace: &DenseTrace) -> u32 {
        self.frames.min(nr_pages(trace).max(1))
    }
}

fn nr_pages(trace: &DenseTrace) -> u32 {
    u32::try_from(trace.nr_pages()).expect("ranks are 32 bits")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_beyond_the_pages_is_not_asked_of_the_machine() {
        let trace = DenseTrace::from_reads((0..1000).map(|step| step % 7));
        for contender in Contender::all() {
            let cell = Cell::new(contender, u32::MAX, Setup::new);
            assert!(cell.bytes_needed(&trace) < 1 << 20, "{contender:?}");
            let outcome = cell.run_while(&trace, |_| true).expect("nothing stops it");
            assert_eq!(outcome.misses, 7, "{contender:?}");
        }
    }
}

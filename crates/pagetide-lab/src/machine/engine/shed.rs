//! Emptying the list of any CPU.
//!
//! ```text
//!   for each CPU:  wait for its list's lock --> core: a drain? -- Some --> the zone, and again
//!                                                              `- None --> release, next CPU
//! ```
//!
//! The periodic work carries out one answer of core. As in the page cache, the full drain loops
//! until the list is empty, and releases the zone in between.

use super::Machine;
use crate::machine::clock::Nanos;
use crate::machine::memory::Visit;
use crate::machine::task::{Job, Shed, Stage};
use crate::machine::workload::TaskId;
use pagetide_core::ids::CpuId;

impl Machine {
    pub(super) fn ask_list(&mut self, id: TaskId) {
        let Some(&Job::Shed { cpu, end, .. }) = self.task(id).jobs.last() else {
            unreachable!("a shedding is under way");
        };
        if cpu == end {
            self.task(id).jobs.pop();
            return self.plan(id, Nanos::ZERO, Stage::Running);
        }
        let asker = self.asker(id);
        match self.list_locks[cpu as usize].ask(asker, &self.costs) {
            Some(after) => {
                self.meter.busy += after;
                self.plan(id, after, Stage::WithList);
            }
            None => self.task(id).stage = Stage::WithList,
        }
    }

    /// Runs core's next drain of the locked list, or continues with the next list.
    pub(super) fn shed_one(&mut self, id: TaskId) {
        let Some(Job::Shed { cpu, how, .. }) = self.tasks[id.0 as usize].jobs.last_mut() else {
            unreachable!("a shedding is under way");
        };
        let at = CpuId(*cpu);
        if matches!(how, Shed::Tick) {
            *how = Shed::Pieces(self.memory.tick(at));
        }
        let drain = match how {
            Shed::Pieces(drains) => drains.pop(),
            Shed::Full | Shed::Tick => self.memory.full_drain(at),
        };
        if let Some(drain) = drain {
            return self.plan(id, Nanos::ZERO, Stage::AtZone(Visit::Drain(at, drain)));
        }
        *cpu += 1;
        self.release_list(id, at);
        self.plan(id, Nanos::ZERO, Stage::AtList);
    }
}

//! The machine: tasks, locks and core's allocator, driven event by event.
//!
//! **Problem.** Run hundreds of CPUs in one thread and in a repeatable order. **Idea.** Each event
//! belongs to one task, which runs until it needs a lock, or has worked on [`QUANTUM`] pages:
//!
//! ```text
//!   agenda --> task --> Running   up to 64 pages from or to its own list, each at its price
//!                       AtZone    asks for the zone's lock, at the moment it needs it
//!                       InZone    got it: core's call, and the lock is held for its price
//!                       Leaving   releases: the first in the queue is next, after the hand-off
//! ```
//!
//! **Data and invariants.** Core sees calls under the zone's lock in grant order. Pages in use +
//! free + on lists = managed ([`Machine::validate`]).
//!
//! **What it deliberately ignores.** A task's list may be up to 64 pages ahead of its time.
//!
//! Source: our own.

mod alloc;
mod shed;
mod wants;

use super::clock::{Agenda, Nanos};
use super::costs::Costs;
use super::device::{Device, DeviceId};
use super::lock::{Asker, FifoLock};
use super::memory::{Memory, Visit};
use super::meter::{Measured, Meter, Sample};
use super::task::{Job, Stage, Task};
use super::workload::{TaskId, Workload};
use crate::random::Random;
use pagetide_core::ids::CpuId;
use pagetide_core::page_alloc::PcpTuning;
use std::collections::VecDeque;

/// Pages that a task works on in one step.
pub const QUANTUM: u32 = 64;

/// Settings of a machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MachineConfig {
    /// Virtual CPUs, each with its own list.
    pub nr_cpus: u32,
    /// Frames of the one zone.
    pub nr_frames: u32,
    /// Tuning of the list limits.
    pub tuning: PcpTuning,
    /// Prices.
    pub costs: Costs,
    /// Seed of all randomness.
    pub seed: u64,
    /// Time between samples, not 0.
    pub sample_every: Nanos,
}

/// Invalid machine settings.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MachineError {
    /// Give the machine at least one CPU.
    #[error("a machine without CPUs runs nothing")]
    NoCpus,
    /// Give the machine 1 to [`FRAMES_MAX`](pagetide_core::page_alloc::FRAMES_MAX) frames.
    #[error("a zone holds 1 to 2^28 frames, not {nr_frames}")]
    Frames {
        /// The requested frames.
        nr_frames: u32,
    },
    /// A sampling interval of 0 ns.
    #[error("samples need some time between them")]
    NoInterval,
}

/// N CPUs in virtual time.
pub struct Machine {
    agenda: Agenda<TaskId>,
    costs: Costs,
    seed: u64,
    memory: Memory,
    zone_lock: FifoLock,
    list_locks: Vec<FifoLock>,
    devices: Vec<Device>,
    tasks: Vec<Task>,
    meter: Meter,
    samples: Vec<Sample>,
    sample_every: Nanos,
    next_sample: Nanos,
}

impl Machine {
    /// Returns an idle machine.
    ///
    /// # Errors
    /// Fails with [`MachineError`] if a setting is invalid.
    pub fn new(config: &MachineConfig) -> Result<Machine, MachineError> {
        let MachineConfig { nr_cpus, nr_frames, tuning, costs, seed, sample_every } = *config;
        if nr_cpus == 0 {
            return Err(MachineError::NoCpus);
        }
        if !(1..=pagetide_core::page_alloc::FRAMES_MAX).contains(&nr_frames) {
            return Err(MachineError::Frames { nr_frames });
        }
        if sample_every == Nanos::ZERO {
            return Err(MachineError::NoInterval);
        }
        Ok(Machine {
            agenda: Agenda::default(),
            costs,
            seed,
            memory: Memory::new(nr_frames, nr_cpus, tuning),
            zone_lock: FifoLock::default(),
            list_locks: vec![FifoLock::default(); nr_cpus as usize],
            devices: Vec::new(),
            tasks: Vec::new(),
            meter: Meter::new(Nanos::ZERO, 0),
            samples: Vec::new(),
            sample_every,
            next_sample: Nanos::ZERO,
        })
    }

    /// Adds a device.
    pub fn attach(&mut self, device: Device) -> DeviceId {
        self.devices.push(device);
        DeviceId(self.devices.len() as u32 - 1)
    }

    /// Starts a task now, after the tasks started before.
    ///
    /// # Panics
    /// Panics if the CPU does not exist.
    pub fn start(&mut self, cpu: CpuId, workload: Box<dyn Workload>) -> TaskId {
        assert!(cpu.0 < self.memory.nr_cpus(), "no such CPU: {cpu}");
        let id = TaskId(self.tasks.len() as u32);
        self.tasks.push(Task {
            cpu,
            workload,
            random: Random::stream(self.seed, u64::from(id.0)),
            jobs: Vec::new(),
            stage: Stage::Running,
            held: VecDeque::new(),
            inbox: VecDeque::new(),
            senders: VecDeque::new(),
            nr_failed: 0,
            began: Nanos::ZERO,
        });
        self.agenda.plan(self.agenda.now(), id);
        id
    }

    /// Returns the current time.
    pub fn now(&self) -> Nanos {
        self.agenda.now()
    }

    /// Returns the frames in service: in use, free or on a list.
    pub fn nr_managed(&self) -> u64 {
        u64::from(self.memory.zone().nr_managed())
    }

    /// Runs all events before `end`.
    ///
    /// # Panics
    /// Panics if `end` is in the past.
    pub fn run_until(&mut self, end: Nanos) {
        while self.agenda.peek().is_some_and(|next| next < end) {
            self.step();
        }
        self.sample_until(end);
        self.agenda.pass(end);
    }

    /// Runs the next event. Returns `false` if there is none.
    pub fn step(&mut self) -> bool {
        let Some(next) = self.agenda.peek() else { return false };
        self.sample_until(next);
        let id = self.agenda.advance().expect("something was peeked at");
        self.go(id);
        true
    }

    /// Starts a measurement.
    pub fn start_measuring(&mut self) {
        self.meter = Meter::new(self.agenda.now(), self.memory.nr_through_zone());
    }

    /// Returns the measures up to now.
    pub fn measured(&self) -> Measured {
        let meter = &self.meter;
        let (sum, nr_samples) = meter.listed;
        Measured {
            elapsed: self.agenda.now() - meter.start,
            busy: meter.busy,
            waited: meter.waited,
            nr_taken: meter.nr_taken,
            nr_freed: meter.nr_freed,
            nr_failed: meter.nr_failed,
            alloc_p99: Nanos(meter.allocs.value_at_quantile(0.99)),
            free_p99: Nanos(meter.frees.value_at_quantile(0.99)),
            zone_pages: self.memory.nr_through_zone() - meter.nr_through_zone_at_start,
            idle_pages: sum.checked_div(nr_samples).unwrap_or(self.memory.nr_listed()),
        }
    }

    /// Returns all samples since the machine was built.
    pub fn samples(&self) -> &[Sample] {
        &self.samples
    }

    #[cfg(test)]
    pub(super) fn nr_listed_on(&self, cpu: CpuId) -> u32 {
        self.memory.pcp(cpu).count()
    }

    /// Returns the frames in a batch.
    pub fn batch(&self) -> u32 {
        self.memory.pcp(CpuId(0)).batch()
    }

    /// Walks every frame and list.
    ///
    /// # Panics
    /// Panics if a page is lost or in two places.
    pub fn validate(&self) {
        let in_use = self.tasks.iter().flat_map(|task| task.held.iter().chain(&task.inbox));
        let nr_in_use = in_use.map(|&frame| u64::from(self.memory.order_of(frame).nr_frames()));
        self.memory.validate(nr_in_use.sum());
    }

    fn sample_until(&mut self, end: Nanos) {
        while self.next_sample <= end {
            let listed = self.memory.nr_listed();
            let pcp = self.memory.pcp(CpuId(0));
            self.samples.push(Sample {
                at: self.next_sample,
                high: pcp.high(),
                count: pcp.count(),
                listed,
                free: self.memory.zone().nr_free(),
            });
            if self.next_sample >= self.meter.start {
                self.meter.listed = (self.meter.listed.0 + listed, self.meter.listed.1 + 1);
            }
            self.next_sample += self.sample_every;
        }
    }

    fn go(&mut self, id: TaskId) {
        match self.task(id).stage {
            Stage::Running => self.run_job(id),
            Stage::AtZone(visit) => self.ask_zone(id, visit),
            Stage::InZone { visit, asked, is_contended } => {
                self.be_in_zone(id, visit, asked, is_contended);
            }
            Stage::Leaving { visit, found } => self.leave_zone(id, visit, found),
            Stage::AtList => self.ask_list(id),
            Stage::WithList => self.shed_one(id),
            Stage::Waiting | Stage::Done => unreachable!("{id:?} has nothing planned"),
        }
    }

    fn run_job(&mut self, id: TaskId) {
        match self.task(id).jobs.last() {
            None => self.ask_workload(id),
            Some(Job::Alloc(_)) => self.alloc_some(id),
            Some(Job::Free { .. }) => self.free_some(id),
            Some(&Job::Shed { .. }) => self.plan(id, Nanos::ZERO, Stage::AtList),
            Some(&Job::Balloon { nr_free }) => {
                self.plan(id, Nanos::ZERO, Stage::AtZone(Visit::Balloon { nr_free }));
            }
            Some(&Job::Send { to, nr_pages }) => self.try_send(id, to, nr_pages),
            Some(&Job::Receive { nr_pages }) => self.try_receive(id, nr_pages),
            Some(&Job::AwaitReceipt { by }) => self.await_receipt(id, by),
        }
    }

    fn ask_zone(&mut self, id: TaskId, visit: Visit) {
        let asker = self.asker(id);
        let asked = self.agenda.now();
        match self.zone_lock.ask(asker, &self.costs) {
            Some(after) => {
                self.plan(id, after, Stage::InZone { visit, asked, is_contended: false });
            }
            None => self.task(id).stage = Stage::InZone { visit, asked, is_contended: true },
        }
    }

    fn be_in_zone(&mut self, id: TaskId, visit: Visit, asked: Nanos, is_contended: bool) {
        let waited = self.agenda.now() - asked;
        self.meter.busy += waited;
        if is_contended {
            self.meter.waited += waited;
        }
        let before = self.memory.nr_blocks_through_zone();
        let found = self.visit(id, visit);
        self.memory.flow_in();
        let nr_moved = self.memory.nr_blocks_through_zone() - before;
        let lines = if self.zone_lock.is_moved() { self.costs.zone_lines } else { Nanos::ZERO };
        let held_for = lines + self.costs.zone_page * nr_moved;
        self.meter.busy += held_for;
        self.plan(id, held_for, Stage::Leaving { visit, found });
    }

    fn leave_zone(&mut self, id: TaskId, visit: Visit, found: bool) {
        let next = self.zone_lock.release(id, &self.costs);
        if let Some((waiter, after)) = next {
            self.agenda.plan(self.agenda.now() + after, waiter);
        }
        self.after_visit(id, visit, found);
    }

    fn release_list(&mut self, id: TaskId, cpu: CpuId) {
        let next = self.list_locks[cpu.0 as usize].release(id, &self.costs);
        if let Some((waiter, after)) = next {
            self.agenda.plan(self.agenda.now() + after, waiter);
        }
    }

    fn plan(&mut self, id: TaskId, after: Nanos, stage: Stage) {
        self.task(id).stage = stage;
        self.agenda.plan(self.agenda.now() + after, id);
    }

    fn task(&mut self, id: TaskId) -> &mut Task {
        &mut self.tasks[id.0 as usize]
    }

    fn asker(&mut self, id: TaskId) -> Asker {
        Asker { task: id, cpu: self.task(id).cpu }
    }
}

#[cfg(test)]
mod tests;

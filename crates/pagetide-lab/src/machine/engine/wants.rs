//! Turns a workload's request into a job, a wait, or a delay.

use super::Machine;
use crate::machine::clock::Nanos;
use crate::machine::task::{AllocJob, Job, Shed, Stage};
use crate::machine::workload::{INBOX_PAGES_MAX, TaskId, View, Want};
use pagetide_core::ids::Order;

impl Machine {
    pub(super) fn ask_workload(&mut self, id: TaskId) {
        let now = self.agenda.now();
        let task = &mut self.tasks[id.0 as usize];
        let mut view = View {
            now,
            nr_held: task.held.len() as u64,
            nr_failed: task.nr_failed,
            random: &mut task.random,
        };
        let want = task.workload.step(&mut view);
        let job = match want {
            Want::Compute(nanos) => {
                self.meter.busy += nanos;
                return self.plan(id, nanos, Stage::Running);
            }
            Want::Sleep(nanos) => return self.plan(id, nanos, Stage::Running),
            Want::Device { device, bytes } => {
                let done = self.devices[device.0 as usize].ask(now, bytes);
                return self.plan(id, done - now, Stage::Running);
            }
            Want::Done => {
                self.task(id).stage = Stage::Done;
                return;
            }
            Want::Alloc { nr_pages: 0, .. }
            | Want::AllocBlocks { nr_blocks: 0, .. }
            | Want::Free { nr_pages: 0, .. } => {
                return self.plan(id, Nanos::ZERO, Stage::Running);
            }
            Want::Alloc { nr_pages, each } => {
                Job::Alloc(AllocJob::new(nr_pages, Order::BASE, each))
            }
            Want::AllocBlocks { nr_blocks, order, each } => {
                Job::Alloc(AllocJob::new(nr_blocks, order, each))
            }
            Want::Free { nr_pages, end, each } => Job::Free { nr_left: nr_pages, end, each },
            Want::Send { to, nr_pages } => Job::Send { to, nr_pages },
            Want::Receive { nr_pages } => Job::Receive { nr_pages },
            Want::AwaitReceipt { by } => Job::AwaitReceipt { by },
            Want::Swap { with } => {
                self.swap(id, with);
                return self.plan(id, Nanos::ZERO, Stage::Running);
            }
            Want::Tick => {
                let cpu = task.cpu.0;
                Job::Shed { cpu, end: cpu + 1, how: Shed::Tick }
            }
            Want::Balloon { nr_free } => Job::Balloon { nr_free },
        };
        self.task(id).jobs.push(job);
        self.run_job(id);
    }

    /// Sends pages, or waits for room in the inbox.
    pub(super) fn try_send(&mut self, id: TaskId, to: TaskId, nr_pages: u32) {
        if self.task(to).inbox.len() > INBOX_PAGES_MAX {
            self.task(to).senders.push_back(id);
            self.task(id).stage = Stage::Waiting;
            return;
        }
        let task = self.task(id);
        let nr_pages = task.held.len().min(nr_pages as usize);
        let pages: Vec<_> = task.held.drain(..nr_pages).collect();
        task.jobs.pop();
        self.plan(id, Nanos::ZERO, Stage::Running);
        let receiver = self.task(to);
        receiver.inbox.extend(pages);
        let is_waiting = matches!(receiver.stage, Stage::Waiting);
        if is_waiting
            && let Some(Job::Receive { nr_pages }) = receiver.jobs.last()
            && receiver.inbox.len() >= *nr_pages as usize
        {
            self.plan(to, self.costs.wake, Stage::Running);
        }
    }

    /// Receives pages, or waits until there are enough.
    pub(super) fn try_receive(&mut self, id: TaskId, nr_pages: u32) {
        let task = self.task(id);
        if task.inbox.len() < nr_pages as usize {
            task.stage = Stage::Waiting;
            return self.wake_sender(id);
        }
        let pages = task.inbox.drain(..nr_pages as usize);
        task.held.extend(pages);
        task.jobs.pop();
        self.wake_sender(id);
        self.plan(id, Nanos::ZERO, Stage::Running);
    }

    fn wake_sender(&mut self, id: TaskId) {
        let task = self.task(id);
        let sender =
            if task.inbox.len() <= INBOX_PAGES_MAX { task.senders.pop_front() } else { None };
        if let Some(sender) = sender {
            self.plan(sender, self.costs.wake, Stage::Running);
        }
    }

    /// Continues when the receiver is idle, or waits until then.
    pub(super) fn await_receipt(&mut self, id: TaskId, by: TaskId) {
        let receiver = self.task(by);
        if matches!(receiver.stage, Stage::Waiting) && receiver.inbox.is_empty() {
            self.task(id).jobs.pop();
            return self.plan(id, Nanos::ZERO, Stage::Running);
        }
        receiver.senders.push_back(id);
        self.task(id).stage = Stage::Waiting;
    }

    /// Swaps CPUs with a waiting task, which holds no lock and may wake anywhere.
    fn swap(&mut self, id: TaskId, with: TaskId) {
        if matches!(self.task(with).stage, Stage::Waiting) {
            let cpu = self.task(id).cpu;
            self.task(id).cpu = std::mem::replace(&mut self.task(with).cpu, cpu);
        }
    }
}

//! A task: a workload on a CPU, and how far it is with what it wanted.
//!
//! **Problem.** A want may stop at a lock in the middle of its hundredth page, and go on later.
//! **Idea.** Two small machines, one inside the other: the jobs still to be done, and the stage of
//! the one step under way:
//!
//! ```text
//!   jobs:   [ Alloc 300 more pages | DrainAll, for want of a page ]      last is first
//!   stage:  Running --> AtZone --> InZone --> Leaving --> Running        a visit to the zone
//!           Running --> AtList --> Running                               another CPU's list
//!           Running --> Waiting                                          for a task, sleep, device
//! ```
//!
//! **Invariants.** A task is on the agenda once, or in one lock's queue, or waiting for another
//! task.
//! **Ignored.** Two tasks on a CPU run side by side; the periodic workers are the only case.

use super::clock::Nanos;
use super::memory::Visit;
use super::workload::{End, TaskId, Workload};
use crate::random::Random;
use pagetide_core::ids::{CpuId, FrameId, Order};
use pagetide_core::page_alloc::{Drain, SlowPath, Starving, WatermarkLevel};
use std::collections::VecDeque;

/// A piece of work that may take many steps.
#[derive(Debug)]
pub(super) enum Job {
    Alloc(AllocJob),
    Free {
        nr_left: u32,
        end: End,
        each: Nanos,
    },
    /// Another task has room: hand pages over.
    Send {
        to: TaskId,
        nr_pages: u32,
    },
    Receive {
        nr_pages: u32,
    },
    /// Another task has dealt with all that was sent to it: go on.
    AwaitReceipt {
        by: TaskId,
    },
    /// Sheds lists from `cpu` up to, not including, `end`.
    Shed {
        cpu: u32,
        end: u32,
        how: Shed,
    },
    Balloon {
        nr_free: u64,
    },
}

/// How much of a list goes.
#[derive(Debug)]
pub(super) enum Shed {
    /// All of it.
    Full,
    /// What time takes off it.
    Tick,
    /// These drains, the last first.
    Pieces(Vec<Drain>),
}

#[derive(Debug)]
pub(super) struct AllocJob {
    pub(super) nr_left: u32,
    pub(super) order: Order,
    pub(super) each: Nanos,
    pub(super) level: Option<WatermarkLevel>,
    /// The way through core's attempts, once the fast path has failed.
    pub(super) path: Option<SlowPath>,
    /// From when it emptied the lists until it has its page, or none.
    pub(super) starving: Option<Starving>,
}

impl AllocJob {
    /// The level of a first attempt, which [`SlowPath`] begins with as well.
    pub(super) const FAST: Option<WatermarkLevel> = Some(WatermarkLevel::Low);

    pub(super) fn new(nr_left: u32, order: Order, each: Nanos) -> AllocJob {
        AllocJob { nr_left, order, each, level: AllocJob::FAST, path: None, starving: None }
    }

    /// One page less to go, or given up on; the next begins at the beginning.
    pub(super) fn next_page(&mut self) {
        self.nr_left -= 1;
        self.level = AllocJob::FAST;
        self.path = None;
        self.starving = None;
    }
}

/// Where a task is with its current step.
#[derive(Clone, Copy, Debug)]
pub(super) enum Stage {
    /// The top job goes on, or the workload is asked.
    Running,
    /// About to ask for the zone's lock.
    AtZone(Visit),
    /// Has it, or is in its queue since `asked`.
    InZone { visit: Visit, asked: Nanos, is_contended: bool },
    /// Has done its visit; lets go.
    Leaving { visit: Visit, found: bool },
    /// Has the list's lock, or is in its queue.
    AtList,
    /// Nothing to do with a list's lock held: the next drain, or let go.
    WithList,
    /// Wakes when another task does something.
    Waiting,
    /// For good.
    Done,
}

pub(super) struct Task {
    pub(super) cpu: CpuId,
    pub(super) workload: Box<dyn Workload>,
    pub(super) random: Random,
    pub(super) jobs: Vec<Job>,
    pub(super) stage: Stage,
    /// Oldest first.
    pub(super) held: VecDeque<FrameId>,
    pub(super) inbox: VecDeque<FrameId>,
    /// Tasks that wait for room in the inbox, or for it to be empty, in order.
    pub(super) senders: VecDeque<TaskId>,
    pub(super) nr_failed: u64,
    /// When the allocation or return under way began.
    pub(super) began: Nanos,
}

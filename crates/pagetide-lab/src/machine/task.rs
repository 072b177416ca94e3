//! A task: a workload on a CPU, and the progress of its request.
//!
//! **Problem.** A request may stop at a lock and resume later. **Idea.** A stack of jobs, and the
//! stage of the current step:
//!
//! ```text
//!   jobs:   [ Alloc 300 more pages | DrainAll, to find a page ]          last is first
//!   stage:  Running --> AtZone --> InZone --> Leaving --> Running        a visit to the zone
//!           Running --> AtList --> Running                               another CPU's list
//!           Running --> Waiting                                          for a task, sleep, device
//! ```
//!
//! **Invariants.** A task is on the agenda once, in one lock's queue, or waiting for a task.
//! **Ignored.** CPU sharing: a periodic worker runs beside a task.

use super::clock::Nanos;
use super::memory::Visit;
use super::workload::{End, TaskId, Workload};
use crate::random::Random;
use pagetide_core::ids::{CpuId, FrameId, Order};
use pagetide_core::page_alloc::{Drain, SlowPath, Starving, WatermarkLevel};
use std::collections::VecDeque;

#[derive(Debug)]
pub(super) enum Job {
    Alloc(AllocJob),
    Free {
        nr_left: u32,
        end: End,
        each: Nanos,
    },
    /// Sends pages once the receiver has room.
    Send {
        to: TaskId,
        nr_pages: u32,
    },
    Receive {
        nr_pages: u32,
    },
    /// Waits until the receiver has processed everything sent.
    AwaitReceipt {
        by: TaskId,
    },
    /// Sheds the lists from `cpu` up to, excluding, `end`.
    Shed {
        cpu: u32,
        end: u32,
        how: Shed,
    },
    Balloon {
        nr_free: u64,
    },
}

#[derive(Debug)]
pub(super) enum Shed {
    /// All.
    Full,
    /// The part that a tick removes.
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
    /// State of core's attempts after a failed fast path.
    pub(super) path: Option<SlowPath>,
    /// Held from the drain of the lists until the page is found or given up.
    pub(super) starving: Option<Starving>,
}

impl AllocJob {
    /// Level of the first attempt, which [`SlowPath`] repeats.
    pub(super) const FAST: Option<WatermarkLevel> = Some(WatermarkLevel::Low);

    pub(super) fn new(nr_left: u32, order: Order, each: Nanos) -> AllocJob {
        AllocJob { nr_left, order, each, level: AllocJob::FAST, path: None, starving: None }
    }

    /// Starts over for the next page.
    pub(super) fn next_page(&mut self) {
        self.nr_left -= 1;
        self.level = AllocJob::FAST;
        self.path = None;
        self.starving = None;
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Stage {
    /// Ready: continues the top job, or asks the workload.
    Running,
    /// About to ask for the zone's lock.
    AtZone(Visit),
    /// Holds the zone's lock, or has queued for it since `asked`.
    InZone { visit: Visit, asked: Nanos, is_contended: bool },
    /// Done with its visit, about to release.
    Leaving { visit: Visit, found: bool },
    /// Holds the list's lock, or is in its queue.
    AtList,
    /// Holds the list's lock: does the next drain, or releases.
    WithList,
    /// Waits for another task.
    Waiting,
    /// Ended.
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
    /// Tasks waiting for room in the inbox, or for an empty inbox, in order.
    pub(super) senders: VecDeque<TaskId>,
    pub(super) nr_failed: u64,
    /// Start of the current allocation or free.
    pub(super) began: Nanos,
}

//! The programs of the workloads.
//!
//! ```text
//!   FaultLoop     /|/|/|   128 MiB up and down, always
//!   Compiler      /^^|__/^^|__   30000 pages a second or so, small children in between
//!   Sender/Receiver   blocks taken on one CPU and returned on another, in lock step
//!   Loader        /------   gigabytes once, then next to nothing
//!   Neighbour     later leaves a given number of frames free
//!   Worker        a tick of its CPU's list each second
//! ```
//!
//! Each is a small state machine. Sizes and prices come from outside. Source: the benchmarks of
//! Y. Huang, "mm: PCP high auto-tuning", RFC of July 2023.

use super::super::clock::Nanos;
use super::super::device::DeviceId;
use super::super::workload::{End, TaskId, View, Want, Workload};
use pagetide_core::ids::Order;

/// Allocates and touches `nr_pages`, then frees them in address order, forever.
#[derive(Debug)]
pub(super) struct FaultLoop {
    pub(super) nr_pages: u32,
    pub(super) touch: Nanos,
    /// Random start delay, so that programs do not run in step.
    pub(super) start_within: Nanos,
    pub(super) is_started: bool,
}

impl FaultLoop {
    pub(super) fn new(nr_pages: u32, touch: Nanos) -> FaultLoop {
        let start_within = touch * u64::from(nr_pages);
        FaultLoop { nr_pages, touch, start_within, is_started: false }
    }
}

impl Workload for FaultLoop {
    fn step(&mut self, view: &mut View<'_>) -> Want {
        if !self.is_started {
            self.is_started = true;
            return Want::Sleep(Nanos(view.random.below(self.start_within.0)));
        }
        if view.nr_held == 0 {
            Want::Alloc { nr_pages: self.nr_pages, each: self.touch }
        } else {
            let nr_pages = u32::try_from(view.nr_held).unwrap_or(u32::MAX);
            Want::Free { nr_pages, end: End::Oldest, each: Nanos::ZERO }
        }
    }
}

/// Compiler runs on one CPU. Each allocates in steps over most of its life with short-lived
/// children in between, writes its object file, and frees everything.
#[derive(Debug)]
pub(super) struct Compiler {
    pub(super) depth: u32,
    pub(super) life: Nanos,
    pub(super) touch: Nanos,
    pub(super) disk: DeviceId,
    pub(super) stage: CompilerStage,
    /// Pages per step and CPU time between steps of this run.
    pub(super) step_pages: u32,
    pub(super) step_compute: Nanos,
    pub(super) started: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum CompilerStage {
    Begin,
    Grow { steps_left: u32 },
    Think { steps_left: u32 },
    Child { steps_left: u32 },
    Reap { steps_left: u32, nr_pages: u32 },
    Write,
    Exit,
}

/// Steps of a compiler run, and steps per child.
const COMPILER_STEPS: u32 = 100;
const STEPS_PER_CHILD: u32 = 10;
/// A shell or a dependency scanner: 2 MiB.
const CHILD_PAGES: u64 = 512;
const OBJECT_BYTES: u64 = 256 << 10;
/// Variation of depth and life, in percent.
const NOISE_PERCENT: u64 = 10;

impl Compiler {
    pub(super) fn new(depth: u32, life: Nanos, touch: Nanos, disk: DeviceId) -> Compiler {
        let stage = CompilerStage::Begin;
        let (step_pages, step_compute, started) = (0, Nanos::ZERO, false);
        Compiler { depth, life, touch, disk, stage, step_pages, step_compute, started }
    }

    fn begin(&mut self, view: &mut View<'_>) -> Want {
        let depth = view.random.around(u64::from(self.depth), NOISE_PERCENT);
        let life = view.random.around(self.life.0, NOISE_PERCENT);
        self.step_pages = depth as u32 / COMPILER_STEPS;
        let touching = self.touch.0 * depth;
        self.step_compute = Nanos(life.saturating_sub(touching) / u64::from(COMPILER_STEPS));
        self.stage = CompilerStage::Grow { steps_left: COMPILER_STEPS };
        if self.started {
            return Want::Compute(Nanos::ZERO);
        }
        self.started = true;
        Want::Sleep(Nanos(view.random.below(life)))
    }
}

impl Workload for Compiler {
    fn step(&mut self, view: &mut View<'_>) -> Want {
        use CompilerStage::{Begin, Child, Exit, Grow, Reap, Think, Write};
        let (next, want) = match self.stage {
            Begin => return self.begin(view),
            Grow { steps_left: 0 } => {
                (Write, Want::Device { device: self.disk, bytes: OBJECT_BYTES })
            }
            Grow { steps_left } => (
                Think { steps_left: steps_left - 1 },
                Want::Alloc { nr_pages: self.step_pages, each: self.touch },
            ),
            Think { steps_left } if steps_left % STEPS_PER_CHILD == 0 => {
                (Child { steps_left }, Want::Compute(self.step_compute))
            }
            Think { steps_left } => (Grow { steps_left }, Want::Compute(self.step_compute)),
            Child { steps_left } => {
                let nr_pages = view.random.around(CHILD_PAGES, NOISE_PERCENT) as u32;
                (Reap { steps_left, nr_pages }, Want::Alloc { nr_pages, each: self.touch })
            }
            Reap { steps_left, nr_pages } => {
                (Grow { steps_left }, Want::Free { nr_pages, end: End::Newest, each: Nanos::ZERO })
            }
            Write => {
                let nr_pages = u32::try_from(view.nr_held).unwrap_or(u32::MAX);
                (Exit, Want::Free { nr_pages, end: End::Oldest, each: Nanos::ZERO })
            }
            Exit => (Begin, Want::Compute(Nanos::ZERO)),
        };
        self.stage = next;
        want
    }
}

/// Allocates and works on a window of one-block messages, sends all, and waits until the receiver
/// has freed all. The sender frees each tenth window itself. Sometimes the two swap CPUs.
#[derive(Debug)]
pub(super) struct Sender {
    pub(super) to: TaskId,
    pub(super) work: Nanos,
    /// Windows until the next CPU swap.
    pub(super) nr_left: u64,
    pub(super) stage: SenderStage,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum SenderStage {
    Start,
    Compose,
    Send,
    Await,
}

/// A message of 10 KiB with headers: the published kernels' `kmalloc` order above two pages.
const MESSAGE_ORDER: Order = Order(2);
/// Messages before the receiver runs. With 17 us a wake-up and 6.2 us of CPU a message, this gives
/// the published 11.5 us a message. A socket buffer of 60 KiB.
const WINDOW: u32 = 6;
/// Windows per window freed by the sender.
const WINDOWS_PER_LOCAL: u64 = 10;
/// Windows between CPU swaps. The published tuning grew the lists by 3.0 GB, 5885 pages a CPU. A
/// list grows by at most the pages moved in one direction.
const WINDOWS_PER_SWAP: u64 = 5885 / (WINDOW as u64 * MESSAGE_ORDER.nr_frames() as u64);

impl Sender {
    pub(super) fn new(to: TaskId, work: Nanos) -> Sender {
        Sender { to, work, nr_left: 0, stage: SenderStage::Start }
    }
}

impl Workload for Sender {
    fn step(&mut self, view: &mut View<'_>) -> Want {
        use SenderStage::{Await, Compose, Send, Start};
        let (next, want) = match self.stage {
            Start => {
                // Random start and first swap, so that pairs do not run in step.
                self.nr_left = view.random.below(WINDOWS_PER_SWAP) + 1;
                let within = self.work.0 * 4 * u64::from(WINDOW);
                (Compose, Want::Sleep(Nanos(view.random.below(within))))
            }
            Compose if self.nr_left == 0 => {
                self.nr_left = view.random.around(WINDOWS_PER_SWAP, NOISE_PERCENT);
                (Compose, Want::Swap { with: self.to })
            }
            Compose => {
                self.nr_left -= 1;
                let each = Nanos(view.random.around(self.work.0, NOISE_PERCENT));
                (Send, Want::AllocBlocks { nr_blocks: WINDOW, order: MESSAGE_ORDER, each })
            }
            Send if self.nr_left.is_multiple_of(WINDOWS_PER_LOCAL) => {
                (Compose, Want::Free { nr_pages: WINDOW, end: End::Oldest, each: Nanos::ZERO })
            }
            Send => (Await, Want::Send { to: self.to, nr_pages: WINDOW }),
            Await => (Compose, Want::AwaitReceipt { by: self.to }),
        };
        self.stage = next;
        want
    }
}

/// Waits for a window, works on each message and frees it. The slabs sometimes need a page.
#[derive(Debug)]
pub(super) struct Receiver {
    pub(super) work: Nanos,
    pub(super) stage: ReceiverStage,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum ReceiverStage {
    Receive,
    Grow,
    Shrink,
    Consume,
}

impl Receiver {
    pub(super) fn new(work: Nanos) -> Receiver {
        Receiver { work, stage: ReceiverStage::Receive }
    }
}

impl Workload for Receiver {
    fn step(&mut self, _view: &mut View<'_>) -> Want {
        use ReceiverStage::{Consume, Grow, Receive, Shrink};
        let (next, want) = match self.stage {
            Receive => (Grow, Want::Receive { nr_pages: WINDOW }),
            // A message made 1.29 allocations: the message, and slab pages of both sides, here one
            // page a window of six.
            Grow => (Shrink, Want::Alloc { nr_pages: 1, each: Nanos::ZERO }),
            Shrink => (Consume, Want::Free { nr_pages: 1, end: End::Newest, each: Nanos::ZERO }),
            Consume => {
                (Receive, Want::Free { nr_pages: WINDOW, end: End::Oldest, each: self.work })
            }
        };
        self.stage = next;
        want
    }
}

/// Allocates all its pages at the start, and later a few pages for short times.
#[derive(Debug)]
pub(super) struct Loader {
    pub(super) nr_pages: u32,
    pub(super) touch: Nanos,
    pub(super) stage: LoaderStage,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum LoaderStage {
    Load,
    Rest,
    Use,
    Return,
}

const LOADER_REST: Nanos = Nanos::from_millis(10);
const LOADER_USED_PAGES: u32 = 64;

impl Workload for Loader {
    fn step(&mut self, _view: &mut View<'_>) -> Want {
        use LoaderStage::{Load, Rest, Return, Use};
        let (nr_pages, each) = (LOADER_USED_PAGES, self.touch);
        let (next, want) = match self.stage {
            Load => (Rest, Want::Alloc { nr_pages: self.nr_pages, each }),
            Rest => (Use, Want::Sleep(LOADER_REST)),
            Use => (Return, Want::Alloc { nr_pages, each }),
            Return => (Rest, Want::Free { nr_pages, end: End::Newest, each: Nanos::ZERO }),
        };
        self.stage = next;
        want
    }
}

#[derive(Debug)]
pub(super) struct Neighbour {
    pub(super) from: Nanos,
    pub(super) nr_free: u64,
}

impl Workload for Neighbour {
    fn step(&mut self, view: &mut View<'_>) -> Want {
        if view.now < self.from {
            return Want::Sleep(self.from - view.now);
        }
        match std::mem::replace(&mut self.from, Nanos::MAX) {
            Nanos::MAX => Want::Done,
            _ => Want::Balloon { nr_free: self.nr_free },
        }
    }
}

/// The periodic work of a CPU: a list tick once a second, at a random phase.
#[derive(Debug, Default)]
pub(super) struct Worker {
    nr_steps: u64,
}

const TICK: Nanos = Nanos::from_secs(1);

impl Workload for Worker {
    fn step(&mut self, view: &mut View<'_>) -> Want {
        self.nr_steps += 1;
        match self.nr_steps {
            1 => Want::Sleep(Nanos(view.random.below(TICK.0))),
            even if even % 2 == 0 => Want::Tick,
            _ => Want::Sleep(TICK),
        }
    }
}

//! Workloads: programs as state machines that make one request at a time.
//!
//! **Problem.** Run many programs in one thread. **Idea.** The machine asks for a request, carries
//! it out, and asks again:
//!
//! ```text
//!   machine: step(view) --> Alloc 512 --> Compute 3 ms --> Free 512 oldest --> Sleep ... --> Done
//! ```
//!
//! **Data.** The machine queues a task's pages, oldest first. A workload counts pages (a block
//! counts as one), and never sees a frame. **Ignored.** Page contents. Source: our own.

use super::clock::Nanos;
use super::device::DeviceId;
use crate::random::Random;
use pagetide_core::ids::Order;

/// A task's number in its machine.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TaskId(pub u32);

/// One program.
pub trait Workload {
    /// Returns the next request, once the last is done.
    fn step(&mut self, view: &mut View<'_>) -> Want;
}

/// The state that a workload can see.
#[derive(Debug)]
pub struct View<'a> {
    /// The current time.
    pub now: Nanos,
    /// Pages held.
    pub nr_held: u64,
    /// Failed page requests since the start.
    pub nr_failed: u64,
    /// The workload's own random numbers.
    pub random: &'a mut Random,
}

/// A workload's request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Want {
    /// Uses the CPU for this time.
    Compute(Nanos),
    /// Allocates pages one by one and works on each.
    Alloc {
        /// Number of pages.
        nr_pages: u32,
        /// CPU time per page.
        each: Nanos,
    },
    /// Allocates blocks of 2^order pages, likewise.
    AllocBlocks {
        /// Number of blocks.
        nr_blocks: u32,
        /// Order of a block, which must have a per-CPU list.
        order: Order,
        /// CPU time per block.
        each: Nanos,
    },
    /// Frees up to `nr_pages` held pages one by one.
    Free {
        /// Number of pages.
        nr_pages: u32,
        /// The end of the queue.
        end: End,
        /// CPU time per page.
        each: Nanos,
    },
    /// Sends up to `nr_pages` of the oldest pages to another task. Waits while more than
    /// [`INBOX_PAGES_MAX`] wait there.
    Send {
        /// The receiver.
        to: TaskId,
        /// Number of pages.
        nr_pages: u32,
    },
    /// Waits for this many sent pages, and holds them.
    Receive {
        /// Number of pages.
        nr_pages: u32,
    },
    /// Waits until a task has received everything sent and waits for more.
    AwaitReceipt {
        /// The receiver.
        by: TaskId,
    },
    /// Swaps CPUs with another task, if that task waits for pages.
    Swap {
        /// The other task.
        with: TaskId,
    },
    /// Sleeps for this time.
    Sleep(Nanos),
    /// Waits until the device has moved this many bytes.
    Device {
        /// The device.
        device: DeviceId,
        /// Number of bytes.
        bytes: u64,
    },
    /// Runs the periodic work on this CPU's list: core may shrink the list.
    Tick,
    /// Keeps exactly this many frames free in the zone, by taking frames out of service or
    /// returning some at each visit: a neighbour with priority that takes no time.
    Balloon {
        /// Number of free frames.
        nr_free: u64,
    },
    /// Ends the task, which keeps its pages.
    Done,
}

/// The order of freeing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// Longest-held pages first.
    Oldest,
    /// Newest pages first.
    Newest,
}

/// Capacity of an inbox, in pages: 4 MiB, a large socket buffer.
pub const INBOX_PAGES_MAX: usize = 1024;

//! Workloads: what programs do to memory, as machines that say one thing at a time.
//!
//! **Problem.** Many programs must go on side by side in one thread. **Idea.** A workload is asked
//! for its next want; the machine carries it out, however long that takes, and asks again:
//!
//! ```text
//!   machine: step(view) --> Alloc 512 --> Compute 3 ms --> Free 512 oldest --> Sleep ... --> Done
//! ```
//!
//! **Data.** Pages a task holds are in a queue of the machine's, oldest first: a workload counts
//! pages and never sees a frame. A block of several pages is one in that queue, wherever pages are
//! counted here. **Ignored.** Which contents a page has. Source: our own.

use super::clock::Nanos;
use super::device::DeviceId;
use crate::random::Random;
use pagetide_core::ids::Order;

/// A task's number in its machine.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TaskId(pub u32);

/// One program.
pub trait Workload {
    /// What it does next, now that its last want is done.
    fn step(&mut self, view: &mut View<'_>) -> Want;
}

/// What a workload may know when it is asked.
#[derive(Debug)]
pub struct View<'a> {
    /// The present.
    pub now: Nanos,
    /// Pages it holds.
    pub nr_held: u64,
    /// Pages it asked for and did not get, since it began.
    pub nr_failed: u64,
    /// Its own random numbers.
    pub random: &'a mut Random,
}

/// A workload's next want.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Want {
    /// The CPU, for so long.
    Compute(Nanos),
    /// So many pages, one after the other, doing something with each as it comes.
    Alloc {
        /// How many.
        nr_pages: u32,
        /// CPU per page.
        each: Nanos,
    },
    /// So many blocks of 2^order pages, likewise.
    AllocBlocks {
        /// How many.
        nr_blocks: u32,
        /// Of which size; one that has a per-CPU list.
        order: Order,
        /// CPU per block.
        each: Nanos,
    },
    /// To let go of so many of its pages (all, when it has fewer), one after the other.
    Free {
        /// How many.
        nr_pages: u32,
        /// Which first.
        end: End,
        /// CPU per page.
        each: Nanos,
    },
    /// To hand its oldest pages (all, when it has fewer) to another task; waits while that task
    /// has more than [`INBOX_PAGES_MAX`] waiting.
    Send {
        /// The task it is for.
        to: TaskId,
        /// How many.
        nr_pages: u32,
    },
    /// To wait until so many pages were sent to it, and hold them.
    Receive {
        /// How many.
        nr_pages: u32,
    },
    /// To wait until a task has nothing left of what was sent to it, and waits for more.
    AwaitReceipt {
        /// The receiver.
        by: TaskId,
    },
    /// To go on on another task's CPU, and that one on this task's, if it waits for pages.
    Swap {
        /// The task it is exchanged with.
        with: TaskId,
    },
    /// Not to run for so long.
    Sleep(Nanos),
    /// To wait until the device has moved so many bytes.
    Device {
        /// Which.
        device: DeviceId,
        /// How many.
        bytes: u64,
    },
    /// The periodic work on this CPU's list: let it shrink by what core says.
    Tick,
    /// To leave exactly so many frames free in the zone from now on, by taking frames out of
    /// service or giving them back at the end of each visit: a neighbour whose needs come first
    /// and take no time.
    Balloon {
        /// How many.
        nr_free: u64,
    },
    /// Nothing any more. What it holds stays held.
    Done,
}

/// Which of a task's pages go first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// Those it has longest.
    Oldest,
    /// Those it got last.
    Newest,
}

/// Pages that may wait in a task's inbox: 4 MiB, a large socket buffer.
pub const INBOX_PAGES_MAX: usize = 1024;

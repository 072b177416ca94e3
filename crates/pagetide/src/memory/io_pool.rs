//! A few I/O queues, taken to write back or to read ahead, and given back.
//!
//! A queue has memory of its own and a kernel ring; making one for each sync would cost more than
//! the sync.

use crate::memory::locks::lock;
use pagetide_sys::IoQueue;
use std::sync::Mutex;

/// Requests a queue keeps in flight.
const QUEUE_DEPTH: u32 = 32;
/// Idle queues kept.
const IDLE_MAX: usize = 4;

/// Where queues wait for their next user.
pub(crate) struct IoPool {
    idle: Mutex<Vec<IoQueue>>,
    allow_uring: bool,
}

impl IoPool {
    pub(crate) fn new(allow_uring: bool) -> IoPool {
        IoPool { idle: Mutex::default(), allow_uring }
    }

    /// An idle queue, or a new one.
    pub(crate) fn take(&self) -> IoQueue {
        let idle = lock(&self.idle).pop();
        idle.unwrap_or_else(|| IoQueue::new(QUEUE_DEPTH, self.allow_uring))
    }

    /// Takes a queue back; the caller has reaped everything.
    pub(crate) fn give_back(&self, queue: IoQueue) {
        let mut idle = lock(&self.idle);
        if idle.len() < IDLE_MAX {
            idle.push(queue);
        }
    }

    /// Whether queues go through io_uring.
    pub(crate) fn probe_uring(&self) -> bool {
        let queue = self.take();
        let uses_uring = queue.is_uring();
        self.give_back(queue);
        uses_uring
    }
}

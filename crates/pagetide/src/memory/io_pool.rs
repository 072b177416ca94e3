//! A pool of I/O queues.
//!
//! A queue has memory and a kernel ring. Creating one for each sync costs more than the sync.

use crate::memory::locks::lock;
use pagetide_sys::IoQueue;
use std::sync::Mutex;

const QUEUE_DEPTH: u32 = 32;
const IDLE_MAX: usize = 4;

pub(crate) struct IoPool {
    idle: Mutex<Vec<IoQueue>>,
    allow_uring: bool,
}

impl IoPool {
    pub(crate) fn new(allow_uring: bool) -> IoPool {
        IoPool { idle: Mutex::default(), allow_uring }
    }

    pub(crate) fn take(&self) -> IoQueue {
        let idle = lock(&self.idle).pop();
        idle.unwrap_or_else(|| IoQueue::new(QUEUE_DEPTH, self.allow_uring))
    }

    pub(crate) fn give_back(&self, queue: IoQueue) {
        let mut idle = lock(&self.idle);
        if idle.len() < IDLE_MAX {
            idle.push(queue);
        }
    }

    pub(crate) fn probe_uring(&self) -> bool {
        let queue = self.take();
        let uses_uring = queue.is_uring();
        self.give_back(queue);
        uses_uring
    }
}

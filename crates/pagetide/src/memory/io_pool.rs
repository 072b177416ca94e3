//! A pool of I/O queues, and of buffers for write-back.
//!
//! A queue has memory and a kernel ring. Creating one for each sync costs more than the sync. The
//! first touches of a new buffer cost more than the copy into the buffer.

use crate::memory::locks::lock;
use pagetide_sys::{AlignedBuf, IoQueue};
use std::sync::Mutex;

const QUEUE_DEPTH: u32 = 32;
const IDLE_MAX: usize = 4;
/// Maximum number of bytes in idle buffers, and their maximum share of the cache.
const SPARE_BYTES_MAX: usize = 2 << 20;
const SPARE_PART: usize = 32;

pub(crate) struct IoPool {
    idle: Mutex<Vec<IoQueue>>,
    spare: Mutex<Vec<AlignedBuf>>,
    /// Maximum number of bytes in `spare`.
    spare_bytes_max: usize,
    allow_uring: bool,
}

impl IoPool {
    /// Makes an empty pool for a cache of `cache_bytes`.
    pub(crate) fn new(allow_uring: bool, cache_bytes: usize) -> IoPool {
        let spare_bytes_max = SPARE_BYTES_MAX.min(cache_bytes / SPARE_PART);
        IoPool { idle: Mutex::default(), spare: Mutex::default(), spare_bytes_max, allow_uring }
    }

    /// Takes the idle buffers. Their contents are arbitrary.
    pub(crate) fn take_buffers(&self) -> Vec<AlignedBuf> {
        std::mem::take(&mut lock(&self.spare))
    }

    /// Keeps the longest of `buffers` for the next pass, and drops the others.
    pub(crate) fn give_back_buffers(&self, mut buffers: Vec<AlignedBuf>) {
        let mut spare = lock(&self.spare);
        buffers.append(&mut spare);
        buffers.sort_unstable_by_key(|buffer| std::cmp::Reverse(buffer.len()));
        let mut nr_bytes = 0;
        buffers.retain(|buffer| {
            let is_kept = nr_bytes + buffer.len() <= self.spare_bytes_max;
            nr_bytes += if is_kept { buffer.len() } else { 0 };
            is_kept
        });
        *spare = buffers;
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

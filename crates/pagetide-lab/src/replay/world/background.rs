//! Background reclaim beside the accesses, in virtual time.
//!
//! Problem: a machine's reclaim thread runs while the program does; a replay has one thread. Idea:
//! the thread has a clock of its own. Each step of its pass (one batch of victims) takes as long as
//! the folios it looked at cost, and the next step is made when the accesses' clock has caught up.
//!
//! ```text
//!   accesses    a a a M a a a M a a a a M a a
//!   background        |-- step --|- step -|-- step --|  asleep
//!                  free < low                    free >= high
//! ```
//!
//! Assumed: a CPU of its own, that never waits for a lock or for the store; a batch is evicted at
//! the end of its step. When the accesses take frames faster than that, the zone falls to its min
//! watermark and the allocating access reclaims directly, as in the kernel.
//!
//! Data: between steps the batch's victims are isolated, but their words are untouched: an access
//! hits them, a discard makes them orphans. Ignored: several nodes, each with a thread.

use super::World;
use pagetide_core::driver::BackgroundThread;
use pagetide_core::ids::PageId;
use pagetide_core::lru::ReclaimBatch;
use std::mem::take;

/// The reclaim thread of a machine; asleep for ever in any other memory.
#[derive(Debug)]
pub(super) struct Background {
    scan_ns: u64,
    thread: BackgroundThread,
    batch: ReclaimBatch,
    /// Until when the step under way takes.
    busy_until_ns: u64,
}

impl Background {
    pub(super) fn new(scan_ns: u64) -> Background {
        let (thread, batch) = (BackgroundThread::default(), ReclaimBatch::new());
        Background { scan_ns, thread, batch, busy_until_ns: 0 }
    }

    pub(super) fn is_awake(&self) -> bool {
        self.thread.is_awake()
    }
}

impl<Evicted: FnMut(PageId)> World<'_, Evicted> {
    /// A zone is at its low watermark.
    pub(super) fn wake_background_thread(&mut self) {
        if !self.memory.has_background() || self.background.is_awake() {
            return;
        }
        let mut thread = BackgroundThread::default();
        thread.wake(self);
        self.background.thread = thread;
        self.background.busy_until_ns = self.now_ns();
        self.look_at = self.look_at.min(self.accesses);
    }

    /// Makes the steps that fit until `now_ns`.
    pub(super) fn run_background(&mut self, now_ns: u64) {
        while self.background.is_awake() && self.background.busy_until_ns <= now_ns {
            let mut thread = take(&mut self.background.thread);
            let mut batch = take(&mut self.background.batch);
            let nr_scanned = thread.step(self, &mut batch);
            self.background.thread = thread;
            self.background.batch = batch;
            self.background.busy_until_ns += nr_scanned * self.background.scan_ns;
        }
    }
}

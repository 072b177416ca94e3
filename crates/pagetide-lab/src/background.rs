//! Background reclaim beside the accesses, in virtual time.
//!
//! Problem: the reclaim thread runs in parallel, but a world has one thread. Idea: the reclaim
//! thread has its own clock. A step (one batch of victims) costs its scanned folios, and the next
//! waits for the accesses' clock.
//!
//! ```text
//!   accesses    a a a M a a a M a a a a M a a
//!   background        |-- step --|- step -|-- step --|  asleep
//!                  free < low                    free >= high
//! ```
//!
//! Assumed: a separate CPU and no waits. A batch is evicted at the end of its step. Faster accesses
//! drain the zone to min and reclaim directly.
//!
//! Data: between steps an access still finds isolated victims. The frame of a discarded victim is
//! free at the end of the step. Ignored: several nodes with a thread each.

use pagetide_core::driver::{BackgroundThread, Driven, DrivenPass};
use pagetide_core::ids::FrameId;
use pagetide_core::lru::ReclaimBatch;
use std::mem::take;

#[derive(Debug)]
pub(crate) struct Background {
    scan_ns: u64,
    thread: BackgroundThread,
    batch: ReclaimBatch,
    /// Frames of victims that were discarded during this step.
    forgotten: Vec<FrameId>,
    /// End of the current step.
    busy_until_ns: u64,
}

impl Background {
    /// Returns a sleeping thread that scans a folio in `scan_ns`.
    pub(crate) fn new(scan_ns: u64) -> Background {
        let (thread, batch) = (BackgroundThread::default(), ReclaimBatch::new());
        Background { scan_ns, thread, batch, forgotten: Vec::new(), busy_until_ns: 0 }
    }

    pub(crate) fn is_awake(&self) -> bool {
        self.thread.is_awake()
    }

    pub(crate) fn due_ns(&self) -> u64 {
        if self.is_awake() { self.busy_until_ns } else { u64::MAX }
    }

    /// Forgets a victim before its page is discarded. Returns false for other frames, which are
    /// free at once.
    pub(crate) fn forget(&mut self, frame: FrameId) -> bool {
        let is_victim = self.batch.forget(frame);
        self.forgotten.extend(is_victim.then_some(frame));
        is_victim
    }

    pub(crate) fn nr_forgotten(&self) -> u32 {
        self.forgotten.len() as u32
    }

    pub(crate) fn add_ns(&mut self, nr: u64) {
        self.busy_until_ns += nr;
    }
}

pub(crate) trait HasBackground: Driven + DrivenPass {
    fn background(&mut self) -> &mut Background;
}

/// Wakes the world's thread. Returns true if it slept.
pub(crate) fn wake(world: &mut impl HasBackground, now_ns: u64) -> bool {
    if world.background().is_awake() {
        return false;
    }
    let mut thread = BackgroundThread::default();
    thread.wake(world);
    let background = world.background();
    background.thread = thread;
    background.busy_until_ns = now_ns;
    true
}

/// Runs the steps due by `now_ns`.
pub(crate) fn run(world: &mut impl HasBackground, now_ns: u64) {
    while world.background().due_ns() <= now_ns {
        let mut thread = take(&mut world.background().thread);
        let mut batch = take(&mut world.background().batch);
        let nr_scanned = thread.step(world, &mut batch);
        let forgotten = take(&mut world.background().forgotten);
        world.free(forgotten.into_iter());
        let background = world.background();
        background.thread = thread;
        background.batch = batch;
        background.add_ns(nr_scanned * background.scan_ns);
    }
}

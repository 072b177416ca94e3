//! Background reclaim beside the accesses, in virtual time.
//!
//! Problem: a machine's reclaim thread runs while the program does; a world here has one thread.
//! Idea: the thread has a clock of its own. Each step of its pass (one batch of victims) takes as
//! long as the folios it looked at cost, and the next step is made when the accesses' clock has
//! caught up.
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
//! finds them, a discard makes them orphans. Ignored: several nodes, each with a thread.

use pagetide_core::driver::{BackgroundThread, Driven, DrivenPass};
use pagetide_core::lru::ReclaimBatch;
use std::mem::take;

/// The first node's reclaim thread.
#[derive(Debug)]
pub(crate) struct Background {
    scan_ns: u64,
    thread: BackgroundThread,
    batch: ReclaimBatch,
    /// Until when the step under way takes.
    busy_until_ns: u64,
}

impl Background {
    /// A thread that sleeps, and looks at a folio in `scan_ns`.
    pub(crate) fn new(scan_ns: u64) -> Background {
        let (thread, batch) = (BackgroundThread::default(), ReclaimBatch::new());
        Background { scan_ns, thread, batch, busy_until_ns: 0 }
    }

    pub(crate) fn is_awake(&self) -> bool {
        self.thread.is_awake()
    }

    /// When its next step is to be made.
    pub(crate) fn due_ns(&self) -> u64 {
        if self.is_awake() { self.busy_until_ns } else { u64::MAX }
    }

    /// The step under way takes longer.
    pub(crate) fn add_ns(&mut self, nr: u64) {
        self.busy_until_ns += nr;
    }
}

/// A world that has such a thread.
pub(crate) trait HasBackground: Driven + DrivenPass {
    /// The thread.
    fn background(&mut self) -> &mut Background;
}

/// Wakes the world's thread; says whether it slept.
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

/// Makes the steps that fit until `now_ns`.
pub(crate) fn run(world: &mut impl HasBackground, now_ns: u64) {
    while world.background().due_ns() <= now_ns {
        let mut thread = take(&mut world.background().thread);
        let mut batch = take(&mut world.background().batch);
        let nr_scanned = thread.step(world, &mut batch);
        let background = world.background();
        background.thread = thread;
        background.batch = batch;
        background.add_ns(nr_scanned * background.scan_ns);
    }
}

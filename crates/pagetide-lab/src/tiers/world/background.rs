//! The fast node's background reclaim, beside the accesses: what makes room for promotions.
//!
//! ```text
//!   accesses     a a a P! a a a a a a a a a a a a        P!: a promotion finds no room
//!   background         |- look -|- demote -|- ... -|     until PROMO frames are free
//! ```
//!
//! Problem: pages are demoted by a thread of their own, while the program goes on touching them.
//! Idea: as in the replay's memory of a machine, each step of a pass takes as long as what it
//! looked at and moved costs, and the next is made when the program's clock has caught up.
//!
//! Data: between two steps the victims are isolated but still where they were; one that is touched
//! meanwhile is young, and stays. Ignored: more than one thread a node; reclaim of the slow node.
//! Source: the tiering specification, sections 7 and 10.

use super::World;
use crate::tiers::prices::Item;
use pagetide_core::driver::BackgroundThread;
use pagetide_core::lru::ReclaimBatch;
use std::mem::take;

/// The fast node's reclaim thread.
#[derive(Debug, Default)]
pub(super) struct Background {
    thread: BackgroundThread,
    batch: ReclaimBatch,
    /// Until when the step under way takes.
    busy_until_ns: u64,
}

impl Background {
    /// When it is to be run next.
    pub(super) fn due_ns(&self) -> u64 {
        if self.thread.is_awake() { self.busy_until_ns } else { u64::MAX }
    }

    /// The step under way takes longer.
    pub(super) fn add_ns(&mut self, nr: u64) {
        self.busy_until_ns += nr;
    }
}

impl World {
    /// The fast node is short of frames.
    pub(super) fn wake_background_thread(&mut self) {
        if !self.background.thread.is_awake() {
            let mut thread = BackgroundThread::default();
            thread.wake(self);
            self.background.thread = thread;
            self.background.busy_until_ns = self.access_loop.now_ns();
            self.plan();
        }
    }

    /// Makes the steps that fit until `now_ns`.
    pub(super) fn run_background(&mut self, now_ns: u64) {
        while self.background.due_ns() <= now_ns {
            let mut thread = take(&mut self.background.thread);
            let mut batch = take(&mut self.background.batch);
            let nr_scanned = thread.step(self, &mut batch);
            self.background.thread = thread;
            self.background.batch = batch;
            self.background.add_ns(nr_scanned * self.access_loop.helper_ns(Item::Scan));
        }
    }
}

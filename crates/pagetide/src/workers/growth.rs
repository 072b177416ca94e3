//! The growth worker: has memory that other processes look at made of huge pages, ahead of its use.
//!
//! ```text
//!   allocation --frames of a new block--> signal --> worker: a few huge pages, again, enough
//! ```
//!
//! Nothing waits for it. Where it is late, or is not there, memory comes as it is touched.

use crate::engine::Engine;
use crate::memory::locks::Wake;
use std::sync::Arc;
use std::time::Duration;

/// The worker thread's loop.
pub(super) fn run(engine: &Arc<Engine>) {
    const FOREVER: Duration = Duration::from_secs(3600);
    loop {
        match engine.source.growth.wait(FOREVER) {
            Wake::Stop => return,
            Wake::Work | Wake::Timeout => while engine.pages.arena.grow() {},
        }
    }
}

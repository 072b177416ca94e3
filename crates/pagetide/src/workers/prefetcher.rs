//! The prefetcher: reads pages ahead.

use crate::engine::Engine;
use crate::memory::locks::Wake;
use std::sync::Arc;
use std::time::Duration;

/// Sleeps only while nothing is in flight.
pub(super) fn run(engine: &Arc<Engine>) {
    const FOREVER: Duration = Duration::from_secs(3600);
    let mut reads = engine.prefetcher.begin();
    loop {
        if reads.is_idle() {
            match engine.prefetcher.signal.wait(FOREVER) {
                Wake::Stop => break,
                Wake::Work | Wake::Timeout => {}
            }
        }
        reads.submit_wishes();
        reads.reap();
    }
    reads.end();
}

//! The prefetcher: brings pages in ahead of their readers.

use crate::engine::Engine;
use crate::engine::prefetch::Prefetcher;
use crate::memory::locks::Wake;
use std::sync::Arc;
use std::time::Duration;

/// The thread's loop: sleeps only while nothing is on its way.
pub(super) fn run(engine: &Arc<Engine>) {
    const FOREVER: Duration = Duration::from_secs(3600);
    let mut prefetcher = Prefetcher::new(engine);
    loop {
        if prefetcher.is_idle() {
            match engine.prefetches.signal.wait(FOREVER) {
                Wake::Stop => break,
                Wake::Work | Wake::Timeout => {}
            }
        }
        prefetcher.submit_wishes();
        prefetcher.reap();
    }
    prefetcher.end();
}

//! The flusher: writes back on request, and old dirty pages every few seconds.

use crate::engine::Engine;
use crate::engine::flush::scope::OnLocked;
use crate::memory::locks::Wake;
use std::sync::Arc;
use std::time::Duration;

/// Interval of write-back without requests.
const INTERVAL: Duration = Duration::from_secs(5);

pub(super) fn run(engine: &Arc<Engine>) {
    loop {
        let flushed = match engine.flusher.wait(INTERVAL) {
            Wake::Stop => return,
            Wake::Work => engine.flusher.flush_for_room(),
            Wake::Timeout => engine.flusher.flush_all(OnLocked::Skip),
        };
        if flushed.nr_written == 0 && flushed.nr_failed > 0 {
            engine.pages.dirty.set_stalled();
        }
    }
}

//! The warmer: brings in what an earlier run had in memory; there is one once it is asked for.

use crate::engine::Engine;
use crate::memory::locks::Wake;
use std::sync::Arc;
use std::time::Duration;

/// The thread's loop.
pub(super) fn run(engine: &Arc<Engine>) {
    const FOREVER: Duration = Duration::from_secs(3600);
    while !matches!(engine.warmer.signal.wait(FOREVER), Wake::Stop) {
        engine.warm();
    }
}

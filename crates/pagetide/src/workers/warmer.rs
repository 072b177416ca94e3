//! The warmer: rereads the resident set of an earlier run. Started on request.

use crate::engine::Engine;
use crate::memory::locks::Wake;
use std::sync::Arc;
use std::time::Duration;

pub(super) fn run(engine: &Arc<Engine>) {
    const FOREVER: Duration = Duration::from_secs(3600);
    while !matches!(engine.warmer.signal.wait(FOREVER), Wake::Stop) {
        engine.warm();
    }
}

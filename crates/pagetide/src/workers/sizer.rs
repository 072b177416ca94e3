//! The sizer: adapts the memory limit to spare memory.

use crate::engine::Engine;
use std::sync::Arc;

pub(super) fn run(engine: &Arc<Engine>) {
    if let Some(sizer) = &engine.sizer {
        engine.follow_room(sizer);
    }
}

//! The sizer: lets the memory follow what the container or the machine can spare.

use crate::engine::Engine;
use std::sync::Arc;

/// The thread's loop.
pub(super) fn run(engine: &Arc<Engine>) {
    if let Some(sizer) = &engine.sizer {
        engine.follow_room(sizer);
    }
}

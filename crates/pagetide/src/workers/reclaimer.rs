//! The reclaimer: frees frames ahead of need, and ticks.

use crate::engine::Engine;
use crate::engine::frame_source::tick::tick_interval;
use crate::memory::locks::Wake;
use pagetide_core::driver;
use pagetide_core::units::Millis;
use pagetide_sys::{current_cpu, read_monotonic_ns};
use std::sync::Arc;

/// Sleeps until an allocation passes the low watermark, and ticks often enough for the per-CPU
/// lists to shrink.
pub(super) fn run(engine: &Arc<Engine>) {
    let mut period = engine.pages.nodes.first().frames.tick_period();
    if let Some(tiering) = &engine.source.tiering {
        period = period.min(tick_interval(&tiering.options.knobs));
    }
    loop {
        let wake = engine.source.background.wait(period);
        engine.source.tick(Millis(read_monotonic_ns() / 1_000_000));
        match wake {
            Wake::Stop => return,
            Wake::Work => {
                span!("reclaim");
                let _turn = engine.source.here.take_turn();
                let mut world = engine.source.reclaimer(current_cpu());
                driver::reclaim_in_background(&mut world, driver::FIRST);
            }
            Wake::Timeout => {}
        }
    }
}

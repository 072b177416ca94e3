//! One zone of a replay with its per-CPU lists.
//!
//! Problem: core's lists shrink by the clock, which a repeated run moves as recorded. Idea: the
//! page cache's shared zone, without its locks.
//!
//! Data: `first` is the number of the zone's first frame. The zone counts from 0. Ignored: CPUs
//! other than 0.

use pagetide_core::ids::{CpuId, FrameId, Order};
use pagetide_core::page_alloc::{
    AllocRequest, PageAllocator, Starving, WatermarkLevel, Zone, ZoneSignals,
};
use pagetide_core::tiering::{Headroom, background_target, room_for_demoted};
use pagetide_core::units::Millis;

const CPU: CpuId = CpuId(0);
/// Time between two ticks of the lists, as in the page cache.
const TICK_MS: u64 = 1000;

#[derive(Debug)]
pub(in crate::replay) struct ZoneFrames {
    allocator: PageAllocator,
    first: u32,
    signals: ZoneSignals,
    last_tick: Millis,
}

impl ZoneFrames {
    pub(super) fn new(allocator: PageAllocator, first: u32) -> ZoneFrames {
        let (signals, last_tick) = (ZoneSignals::default(), Millis(0));
        ZoneFrames { allocator, first, signals, last_tick }
    }

    pub(super) fn take(&mut self, level: Option<WatermarkLevel>) -> Option<FrameId> {
        let frame = self.allocator.alloc(CPU, &AllocRequest::fast(Order::BASE).at(level))?;
        Some(FrameId(self.first + frame.0))
    }

    pub(super) fn free(&mut self, frame: FrameId) {
        self.allocator.free(CPU, FrameId(frame.0 - self.first), Order::BASE);
    }

    pub(super) fn drain(&mut self) -> Starving {
        let starving = Starving::new(self.zone().table());
        self.allocator.drain_all();
        starving
    }

    pub(super) fn set_reclaim_active(&mut self, reclaim_active: bool) {
        self.signals.reclaim_active = reclaim_active;
        self.allocator.set_signals(self.signals);
    }

    /// Tells the lists the time, and shrinks them once a second.
    pub(super) fn tick(&mut self, now: Millis) {
        self.signals.now = self.signals.now.max(now);
        self.allocator.set_signals(self.signals);
        if now.0.saturating_sub(self.last_tick.0) >= TICK_MS {
            self.last_tick = now;
            self.allocator.tick();
        }
    }

    pub(super) fn background_target(&self, level: WatermarkLevel, room_below: u64) -> u64 {
        background_target(self.zone(), level, room_below)
    }

    pub(super) fn room_for_demoted(&self) -> u64 {
        room_for_demoted(self.zone())
    }

    pub(super) fn room(&self) -> Headroom {
        Headroom::of(self.zone())
    }

    pub(super) fn nr_used(&self) -> u32 {
        let nr_unused = self.zone().nr_free() + self.allocator.nr_in_pcps();
        self.zone().nr_managed() - nr_unused as u32
    }

    pub(super) fn validate(&self) {
        self.allocator.validate();
    }

    fn zone(&self) -> &Zone {
        self.allocator.zone()
    }
}

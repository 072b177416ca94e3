//! The page cache's frames: a shared zone over an arena.
//!
//! Every allocated frame is also claimed from the arena, so that memory safety does not depend on
//! the zone's bookkeeping.

use pagetide_core::ids::{CpuId, FrameId, Order};
use pagetide_core::page_alloc::run_min;
use pagetide_core::page_alloc::{AllocRequest, Starving, WatermarkLevel, Zone, ZoneConfig};
use pagetide_core::tiering::background_target;
use pagetide_core::tiering::{Headroom, room_for_demoted};
use pagetide_core::units::{Millis, PAGE_BYTES};
use pagetide_sys::{ClaimedFrame, FrameArena};
use shared_zone::{PcpSettings, SharedZone};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use sync::{AtomicU64, Ordering::Relaxed};

pub(crate) mod shared_zone;
mod sync;

pub(crate) struct ArenaFrames {
    arena: Arc<FrameArena>,
    /// First frame of the range. The zone counts from 0.
    first: u32,
    nr_frames: u32,
    zone: SharedZone,
    nr_managed: AtomicU64,
    nr_resident_max: AtomicU64,
}

impl ArenaFrames {
    /// Puts the first `nr_online` frames of `range` in service.
    pub(crate) fn new(
        arena: Arc<FrameArena>,
        range: Range<u32>,
        nr_online: u32,
        settings: PcpSettings,
    ) -> ArenaFrames {
        let nr_frames = range.len() as u32;
        let zone = Zone::new(ZoneConfig { nr_online, ..ZoneConfig::with_frames(nr_frames) });
        arena.withhold(FrameId(range.start + nr_online)..FrameId(range.end));
        ArenaFrames {
            first: range.start,
            nr_frames,
            nr_managed: AtomicU64::new(u64::from(zone.nr_managed())),
            zone: SharedZone::new(zone, settings),
            arena,
            nr_resident_max: AtomicU64::new(0),
        }
    }

    /// Takes a frame, but not below `level`.
    pub(crate) fn alloc(&self, cpu: CpuId, level: Option<WatermarkLevel>) -> Option<ClaimedFrame> {
        let frame = self.zone.alloc(cpu, &AllocRequest::fast(Order::BASE).at(level))?;
        Some(self.claim(frame))
    }

    /// Takes up to `nr` frames in adjacent runs, as far as there are any.
    pub(crate) fn alloc_runs(&self, nr: u64, taken: &mut Vec<ClaimedFrame>) {
        let mut nr_left = nr;
        while self.may_hold_run(nr_left)
            && let Some(run) = self.zone.alloc_run(nr_left)
        {
            nr_left -= u64::from(run.end.0 - run.start.0);
            self.arena.make_huge(self.in_arena(run.start)..self.in_arena(run.end));
            taken.extend((run.start.0..run.end.0).map(|frame| self.claim(FrameId(frame))));
        }
    }

    /// Returns true if `nr` frames are enough for a run.
    pub(crate) fn may_hold_run(&self, nr: u64) -> bool {
        nr >= run_min(self.nr_frames.into())
    }

    pub(crate) fn run_target(&self, nr: u64) -> u64 {
        self.zone.lock_zone().run_target(nr)
    }

    fn in_arena(&self, frame: FrameId) -> FrameId {
        FrameId(self.first + frame.0)
    }

    fn claim(&self, frame: FrameId) -> ClaimedFrame {
        self.arena.claim(self.in_arena(frame)).expect("the allocator hands out each frame once")
    }

    /// Prefetches the allocator's and the arena's entries of a frame that is about to be freed.
    #[inline]
    pub(crate) fn fetch(&self, frame: FrameId) {
        self.arena.fetch_claim(frame);
        self.zone.fetch(FrameId(frame.0 - self.first));
    }

    pub(crate) fn free(&self, cpu: CpuId, frames: impl IntoIterator<Item = FrameId>) {
        let first = self.first;
        let in_zone = frames.into_iter().map(|frame| FrameId(frame.0 - first));
        self.zone.free(cpu, Order::BASE, in_zone);
    }

    /// Returns all frames, including frames not in service.
    pub(crate) fn range(&self) -> Range<FrameId> {
        FrameId(self.first)..FrameId(self.first + self.nr_frames)
    }

    /// Keeps the lists empty while the guard lives. Call before [`ArenaFrames::drain_lists`] if
    /// allocation must not fail.
    pub(crate) fn starve(&self) -> Starving {
        self.zone.starve()
    }

    pub(crate) fn drain_lists(&self) {
        self.zone.drain_lists();
    }

    pub(crate) fn tick_period(&self) -> Duration {
        self.zone.tick_period()
    }

    /// Advances the lists' clock, and lets their limits decay once a second.
    pub(crate) fn tick(&self, now: Millis) {
        self.zone.tick(now);
    }

    pub(crate) fn background_target(&self, level: WatermarkLevel, room_below: u64) -> u64 {
        background_target(&self.zone.lock_zone(), level, room_below)
    }

    /// Returns true if memory is free without competition: see [`Zone::is_ample`].
    pub(crate) fn is_ample(&self) -> bool {
        self.zone.lock_zone().is_ample()
    }

    pub(crate) fn room_for_demoted(&self) -> u64 {
        room_for_demoted(&self.zone.lock_zone())
    }

    pub(crate) fn room(&self) -> Headroom {
        Headroom::of(&self.zone.lock_zone())
    }

    pub(crate) fn set_reclaim_active(&self, active: bool) {
        self.zone.set_reclaim_active(active);
    }

    /// Ignores watermarks.
    pub(crate) fn take_free(&self, nr: u32) -> Vec<ClaimedFrame> {
        self.zone.drain_lists();
        let request = AllocRequest::fast(Order::BASE).at(None);
        let mut taken = Vec::new();
        let take = |_: &_, frame| taken.push(self.claim(frame));
        self.zone.lock_zone().alloc_bulk(&request, nr, take);
        taken
    }

    /// Changes the number of frames in service towards `nr_frames`. Returns the new number. Takes
    /// only free frames, including `free`: reclaim first.
    pub(crate) fn resize(&self, nr_frames: u32, free: Vec<ClaimedFrame>) -> u32 {
        self.zone.drain_lists();
        let free = free.into_iter().map(|claimed| self.arena.release(claimed).0 - self.first);
        let mut free = free.map(|frame| (FrameId(frame), Order::BASE));
        let mut zone = self.zone.lock_zone();
        zone.free_bulk(|_| free.next());
        let now = zone.nr_managed();
        if nr_frames > now {
            zone.give_back(nr_frames - now, |first, order| {
                self.arena.take_again(self.block(first, order));
            });
        } else {
            zone.take_free(now - nr_frames, |first, order| {
                // Memory that the system does not take back is out of service all the same.
                let _ = self.arena.discard(self.block(first, order));
            });
        }
        let nr_managed = zone.nr_managed();
        self.zone.rederive(zone);
        self.nr_managed.store(u64::from(nr_managed), Relaxed);
        nr_managed
    }

    fn block(&self, first: FrameId, order: Order) -> Range<FrameId> {
        let first = FrameId(self.first + first.0);
        first..FrameId(first.0 + order.nr_frames())
    }

    pub(crate) fn nr_managed(&self) -> u32 {
        self.nr_managed.load(Relaxed) as u32
    }

    pub(crate) fn managed_bytes(&self) -> u64 {
        self.nr_managed.load(Relaxed) * PAGE_BYTES as u64
    }

    /// Takes every lock in turn.
    pub(crate) fn resident_bytes(&self) -> u64 {
        self.sample_resident() * PAGE_BYTES as u64
    }

    pub(crate) fn resident_bytes_max(&self) -> u64 {
        self.sample_resident();
        self.nr_resident_max.load(Relaxed) * PAGE_BYTES as u64
    }

    /// Called when frames run low, and so near the maximum.
    pub(crate) fn sample_resident(&self) -> u64 {
        let nr_listed = self.zone.count_listed();
        let zone = self.zone.look_at_zone();
        let nr_idle = zone.nr_free() + nr_listed;
        let nr_resident = u64::from(zone.nr_managed()).saturating_sub(nr_idle);
        self.nr_resident_max.fetch_max(nr_resident, Relaxed);
        nr_resident
    }
}

#[cfg(all(test, loom))]
mod loom_tests;

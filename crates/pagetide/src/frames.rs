//! The frame allocator: core's zone and per-CPU lists behind real locks.
//!
//! ```text
//!   alloc(cpu) -> try-lock this CPU's list -> its own frames
//!                        |  contended            | empty
//!                        v                       v
//!                     lock the zone <---- refill a batch
//! ```
//!
//! The try-lock never waits: a contended list (another thread of this CPU was preempted inside, or
//! somebody drains it) means one trip to the zone. Lock order: per-CPU list, then zone.
//!
//! Every order in which threads can meet here is explored by `loom_tests`.
//!
//! Every frame handed out is also claimed from the arena, so that memory safety does not rest on
//! the bookkeeping here being right.

use crate::percpu::PerCpu;
use crate::sync::{AtomicBool, AtomicU64, Mutex, Ordering::Relaxed, lock};
use pagetide_core::ids::{CpuId, FrameId, Order};
use pagetide_core::page_alloc::{
    AllocRequest, FrameTable, HighFraction, Pcp, PcpInputs, PcpLimits, WatermarkLevel, Zone,
    ZoneConfig, ZoneSignals,
};
use pagetide_core::units::PAGE_BYTES;
use pagetide_sys::{ClaimedFrame, FrameArena};
use std::sync::Arc;

/// Frames of one arena, for any number of threads.
pub(crate) struct FrameAllocator {
    arena: Arc<FrameArena>,
    table: Arc<FrameTable>,
    zone: Mutex<Zone>,
    pcps: PerCpu<Mutex<Pcp>>,
    nr_cpus: u32,
    is_reclaim_active: AtomicBool,
    nr_managed: AtomicU64,
    nr_resident_max: AtomicU64,
}

impl FrameAllocator {
    /// All of the arena's frames, the first `nr_online` of them in service.
    pub(crate) fn new(arena: Arc<FrameArena>, nr_online: u32, nr_cpus: u32) -> FrameAllocator {
        let zone =
            Zone::new(ZoneConfig { nr_online, ..ZoneConfig::with_frames(arena.nr_frames()) });
        let limits = pcp_limits(&zone, nr_cpus);
        FrameAllocator {
            table: Arc::clone(zone.table()),
            pcps: PerCpu::new(nr_cpus as usize, || Mutex::new(Pcp::new(limits))),
            nr_managed: AtomicU64::new(u64::from(zone.nr_managed())),
            zone: Mutex::new(zone),
            arena,
            nr_cpus,
            is_reclaim_active: AtomicBool::new(false),
            nr_resident_max: AtomicU64::new(0),
        }
    }

    /// Takes a frame, leaving `level`'s frames alone.
    pub(crate) fn alloc(&self, cpu: CpuId, level: Option<WatermarkLevel>) -> Option<ClaimedFrame> {
        let request = AllocRequest::fast(Order::BASE).at(level);
        let frame = match self.pcps.at(cpu).try_lock() {
            Ok(mut pcp) => pcp
                .alloc(&self.table, &request)
                .or_else(|| pcp.refill(&mut lock(&self.zone), &request)),
            Err(_) => lock(&self.zone).alloc(&request),
        }?;
        Some(self.arena.claim(frame).expect("the allocator hands out each frame once"))
    }

    /// Gives frames back.
    pub(crate) fn free(&self, cpu: CpuId, frames: impl IntoIterator<Item = FrameId>) {
        let flags = ZoneSignals {
            reclaim_active: self.is_reclaim_active.load(Relaxed),
            ..Default::default()
        };
        let Ok(mut pcp) = self.pcps.at(cpu).try_lock() else {
            let mut zone = lock(&self.zone);
            frames.into_iter().for_each(|frame| zone.free(frame, Order::BASE));
            return;
        };
        for frame in frames {
            if let Some(drain) = pcp.free(&self.table, frame, Order::BASE, flags) {
                pcp.drain(&mut lock(&self.zone), drain);
            }
        }
    }

    /// Returns every CPU's list to the zone.
    pub(crate) fn drain_lists(&self) {
        for pcp in self.pcps.iter() {
            let mut pcp = lock(pcp);
            while let Some(drain) = pcp.full_drain() {
                pcp.drain(&mut lock(&self.zone), drain);
            }
        }
    }

    /// Frames background reclaim should free: the distance to HIGH, 0 when there already.
    pub(crate) fn background_target(&self) -> u64 {
        let zone = lock(&self.zone);
        zone.watermarks().mark(WatermarkLevel::High).saturating_sub(zone.nr_free())
    }

    /// Tells the per-CPU lists that background reclaim is at work: they keep little meanwhile.
    pub(crate) fn set_reclaim_active(&self, active: bool) {
        self.is_reclaim_active.store(active, Relaxed);
    }

    /// Grows or shrinks what is in service to `nr_frames`; returns what it is then. Takes only free
    /// frames: reclaim first.
    pub(crate) fn resize(&self, nr_frames: u32) -> u32 {
        self.drain_lists();
        let mut zone = lock(&self.zone);
        let now = zone.nr_managed();
        if nr_frames > now {
            zone.give_back(nr_frames - now, |_, _| {});
        } else {
            zone.take_free(now - nr_frames, |first, order| {
                let end = FrameId(first.0 + order.nr_frames());
                // What cannot be given to the system stays mapped; it is out of service all the
                // same.
                let _ = self.arena.discard(first..end);
            });
        }
        zone.rederive_watermarks();
        let limits = pcp_limits(&zone, self.nr_cpus);
        let nr_managed = zone.nr_managed();
        drop(zone);
        self.pcps.iter().for_each(|pcp| lock(pcp).set_limits(limits));
        self.nr_managed.store(u64::from(nr_managed), Relaxed);
        nr_managed
    }

    /// Frames in service, bytes.
    pub(crate) fn managed_bytes(&self) -> u64 {
        self.nr_managed.load(Relaxed) * PAGE_BYTES as u64
    }

    /// Frames that hold pages now, bytes. Takes every lock in turn.
    pub(crate) fn resident_bytes(&self) -> u64 {
        self.sample_resident() * PAGE_BYTES as u64
    }

    /// The most that was seen resident, bytes.
    pub(crate) fn resident_bytes_max(&self) -> u64 {
        self.sample_resident();
        self.nr_resident_max.load(Relaxed) * PAGE_BYTES as u64
    }

    /// Counts the frames that hold pages, and remembers the maximum. Called when frames run low,
    /// which is when the maximum is reached.
    pub(crate) fn sample_resident(&self) -> u64 {
        let nr_listed: u64 = self.pcps.iter().map(|pcp| u64::from(lock(pcp).count())).sum();
        let zone = lock(&self.zone);
        let nr_idle = zone.nr_free() + nr_listed;
        let nr_resident = u64::from(zone.nr_managed()).saturating_sub(nr_idle);
        self.nr_resident_max.fetch_max(nr_resident, Relaxed);
        nr_resident
    }
}

fn pcp_limits(zone: &Zone, nr_cpus: u32) -> PcpLimits {
    PcpLimits::derive(&PcpInputs {
        managed: u64::from(zone.nr_managed()),
        low_watermark: zone.watermarks().unboosted(WatermarkLevel::Low),
        nr_cpus_local: nr_cpus,
        nr_cpus_online: nr_cpus,
        fraction: HighFraction::DEFAULT,
        cache_slice: 0,
    })
}

#[cfg(all(test, loom))]
mod loom_tests;

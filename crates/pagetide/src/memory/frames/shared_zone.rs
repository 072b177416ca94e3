//! A zone and its per-CPU lists for many threads: core's calls with real locks.
//!
//! ```text
//!   alloc(cpu) -> try-lock this CPU's list -> its own frames
//!                        |  contended            | empty
//!                        v                       v
//!                     lock the zone <---- refill a batch
//! ```
//!
//! Lock order: per-CPU list, then zone. The CPU number may be stale, which is only slower, because
//! the list's lock decides. `loom_tests` explores all interleavings.

use super::sync::{AtomicBool, AtomicU64, Mutex, MutexGuard, Ordering::Relaxed, lock};
use crate::memory::percpu::PerCpu;
use pagetide_core::ids::{CpuId, FrameId, Order};
use pagetide_core::page_alloc::{
    AllocRequest, Drain, FrameTable, HighFraction, Pcp, PcpInputs, PcpLimits, PcpTuning, Starving,
    WatermarkLevel, Zone, ZoneSignals,
};
use pagetide_core::units::Millis;
use pagetide_sys::{TryLock, fetch_to_write, read_cache_slice, read_nr_cpus_possible};
use std::ops::Range;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

const TICK_MS: u64 = 1000;
/// Milliseconds between clock updates for a tuning that measures seconds: one call in four may be
/// late.
const CLOCK_MS: u64 = 250;

#[derive(Clone, Copy, Debug)]
pub(crate) struct PcpSettings {
    pub(crate) nr_cpus: u32,
    pub(crate) tuning: PcpTuning,
    pub(crate) fraction: HighFraction,
    /// A CPU's share of its last-level cache, in frames, or 0 if unknown.
    pub(crate) cache_slice: u32,
}

impl PcpSettings {
    pub(crate) fn read(tuning: PcpTuning) -> PcpSettings {
        let slice = read_cache_slice().map_or(0, |slice| slice.whole_pages());
        PcpSettings {
            nr_cpus: read_nr_cpus_possible(),
            tuning,
            fraction: HighFraction::DEFAULT,
            cache_slice: u32::try_from(slice).unwrap_or(u32::MAX),
        }
    }
}

pub(crate) struct SharedZone {
    table: Arc<FrameTable>,
    pcps: PerCpu<TryLock<Pcp>>,
    settings: PcpSettings,
    is_reclaim_active: AtomicBool,
    /// Time of the last call of `tick`, due or not: finer than the ticks, see
    /// [`SharedZone::tick_period`].
    now_ms: AtomicU64,
    last_tick_ms: AtomicU64,
    zone: Mutex<Zone>,
    nr_waits: AtomicU64,
}

impl SharedZone {
    pub(crate) fn new(zone: Zone, settings: PcpSettings) -> SharedZone {
        let limits = pcp_limits(&zone, settings);
        let nr_lists = settings.nr_cpus as usize;
        SharedZone {
            table: Arc::clone(zone.table()),
            pcps: PerCpu::new(nr_lists, || TryLock::new(Pcp::with_tuning(limits, settings.tuning))),
            settings,
            is_reclaim_active: AtomicBool::new(false),
            now_ms: AtomicU64::new(0),
            last_tick_ms: AtomicU64::new(0),
            zone: Mutex::new(zone),
            nr_waits: AtomicU64::new(0),
        }
    }

    /// Takes a block. Returns `None` if the zone is at the request's level, or has no such block.
    #[inline]
    pub(crate) fn alloc(&self, cpu: CpuId, request: &AllocRequest) -> Option<FrameId> {
        let Some(mut pcp) = self.pcps.at(cpu).try_lock() else {
            return self.visit().alloc(request);
        };
        pcp.alloc(&self.table, request).or_else(|| self.refill(&mut pcp, request))
    }

    #[cold]
    fn refill(&self, pcp: &mut Pcp, request: &AllocRequest) -> Option<FrameId> {
        pcp.refill(&mut self.visit(), request)
    }

    pub(crate) fn alloc_run(&self, nr_max: u64) -> Option<Range<FrameId>> {
        self.visit().alloc_run(nr_max)
    }

    #[inline]
    pub(crate) fn free_one(&self, cpu: CpuId, order: Order, block: FrameId) {
        self.free(cpu, order, [block]);
    }

    #[inline]
    pub(crate) fn fetch(&self, frame: FrameId) {
        self.table.prefetch(frame, fetch_to_write);
    }

    pub(crate) fn free(&self, cpu: CpuId, order: Order, blocks: impl IntoIterator<Item = FrameId>) {
        let Some(mut pcp) = self.pcps.at(cpu).try_lock() else {
            let mut zone = self.visit();
            blocks.into_iter().for_each(|frame| zone.free(frame, order));
            return;
        };
        let signals = self.signals();
        for frame in blocks {
            if let Some(drain) = pcp.free(&self.table, frame, order, signals) {
                self.drain(&mut pcp, drain);
            }
        }
    }

    #[cold]
    fn drain(&self, pcp: &mut Pcp, drain: Drain) {
        pcp.drain(&mut self.visit(), drain);
    }

    /// Keeps the lists empty while the guard lives. Call before [`SharedZone::drain_lists`] if
    /// failure is not allowed.
    pub(crate) fn starve(&self) -> Starving {
        Starving::new(&self.table)
    }

    /// Returns every CPU's list to the zone, in bounded pieces. Call before failing an allocation.
    pub(crate) fn drain_lists(&self) {
        for pcp in self.pcps.iter() {
            let mut pcp = pcp.lock();
            while let Some(drain) = pcp.full_drain() {
                pcp.drain(&mut lock(&self.zone), drain);
            }
        }
    }

    /// Returns the clock resolution that the tuning needs.
    pub(crate) fn tick_period(&self) -> Duration {
        Duration::from_millis(match self.settings.tuning {
            PcpTuning::Depth => CLOCK_MS,
            PcpTuning::Fixed | PcpTuning::Refill => TICK_MS,
        })
    }

    /// Advances the lists' clock, and lets their limits decay once a second.
    pub(crate) fn tick(&self, now: Millis) {
        if self.now_ms.load(Relaxed) < now.0 {
            self.now_ms.store(now.0, Relaxed);
        }
        let (ticked, last_ms) = (&self.last_tick_ms, self.last_tick_ms.load(Relaxed));
        let is_due = now.0.saturating_sub(last_ms) >= TICK_MS
            && ticked.compare_exchange(last_ms, now.0, Relaxed, Relaxed).is_ok();
        if !is_due {
            return;
        }
        for pcp in self.pcps.iter() {
            // A list in use is not idle: skip it until the next tick.
            let Some(mut pcp) = pcp.try_lock() else { continue };
            let (drain, batch) = (pcp.tick(), pcp.batch());
            for piece in drain.into_iter().flat_map(|drain| drain.pieces(batch)) {
                pcp.drain(&mut lock(&self.zone), piece);
            }
        }
    }

    pub(crate) fn set_reclaim_active(&self, active: bool) {
        self.is_reclaim_active.store(active, Relaxed);
    }

    pub(crate) fn lock_zone(&self) -> MutexGuard<'_, Zone> {
        lock(&self.zone)
    }

    pub(crate) fn rederive(&self, mut zone: MutexGuard<'_, Zone>) {
        zone.rederive_watermarks();
        let limits = pcp_limits(&zone, self.settings);
        drop(zone);
        self.pcps.iter().for_each(|pcp| pcp.lock().set_limits(limits));
    }

    pub(crate) fn nr_lists(&self) -> u64 {
        self.pcps.iter().count() as u64
    }

    /// Works also after a panic.
    pub(crate) fn look_at_zone(&self) -> MutexGuard<'_, Zone> {
        self.zone.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes every list's lock in turn.
    pub(crate) fn count_listed(&self) -> u64 {
        self.pcps.iter().map(|pcp| u64::from(pcp.look(Pcp::count))).sum()
    }

    pub(crate) fn sum_high(&self) -> u64 {
        self.pcps.iter().map(|pcp| u64::from(pcp.look(Pcp::high))).sum()
    }

    pub(crate) fn nr_waits(&self) -> u64 {
        self.nr_waits.load(Relaxed)
    }

    #[inline]
    fn signals(&self) -> ZoneSignals {
        ZoneSignals {
            reclaim_active: self.is_reclaim_active.load(Relaxed),
            now: Millis(self.now_ms.load(Relaxed)),
        }
    }

    fn visit(&self) -> MutexGuard<'_, Zone> {
        self.zone.try_lock().unwrap_or_else(|_| {
            self.nr_waits.fetch_add(1, Relaxed);
            lock(&self.zone)
        })
    }
}

fn pcp_limits(zone: &Zone, settings: PcpSettings) -> PcpLimits {
    PcpLimits::derive(&PcpInputs {
        managed: u64::from(zone.nr_managed()),
        low_watermark: zone.watermarks().mark(WatermarkLevel::Low),
        nr_cpus_local: settings.nr_cpus,
        nr_cpus_online: settings.nr_cpus,
        fraction: settings.fraction,
        cache_slice: settings.cache_slice,
    })
}

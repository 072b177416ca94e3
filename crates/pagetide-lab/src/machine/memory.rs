//! Core's page allocator, split at its locks.
//!
//! **Problem.** A call in virtual time may end in "wait for the zone" while other tasks run.
//! **Idea.** The single calls of `pagetide_core::page_alloc` ("The seam"), each with the lock that
//! the machine must hold:
//!
//! ```text
//!              this CPU's list              and the zone                  the zone only
//!   alloc      take ----- None ---------->  Visit::Refill                 Visit::TakePast
//!   free       give ----- Some(drain) --->  Visit::Drain                  Visit::GivePast
//!   tick       tick, full_drain ---------^
//! ```
//!
//! **Invariants.** Core makes every decision. **Ignored.** More than one zone.

use super::clock::Nanos;
use super::workload::End;
use pagetide_core::ids::{CpuId, FrameId, Order};
use pagetide_core::page_alloc::{
    AllocRequest, Drain, FrameState, FrameTable, HighFraction, Pcp, PcpInputs, PcpLimits,
    PcpTuning, Starving, WatermarkLevel, Zone, ZoneConfig, ZoneSignals,
};
use pagetide_core::units::Millis;
use std::sync::Arc;

const NANOS_PER_MILLI: u64 = 1_000_000;

/// The work of a task under the zone's lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Visit {
    /// Fetches a batch to its own CPU's list, and takes one page.
    Refill(AllocRequest),
    /// Takes one page, bypassing the locked list.
    TakePast(AllocRequest),
    /// Carries out core's decision about this CPU's list.
    Drain(CpuId, Drain),
    /// Frees one page, bypassing the locked list.
    GivePast(End),
    /// Sets the frames that a neighbour leaves free.
    Balloon { nr_free: u64 },
}

pub(super) struct Memory {
    table: Arc<FrameTable>,
    zone: Zone,
    pcps: Vec<Pcp>,
    is_reclaim_active: bool,
    nr_free_kept: Option<u64>,
}

impl Memory {
    pub(super) fn new(nr_frames: u32, nr_cpus: u32, tuning: PcpTuning) -> Memory {
        let zone = Zone::new(ZoneConfig::with_frames(nr_frames));
        let limits = PcpLimits::derive(&PcpInputs {
            managed: u64::from(zone.nr_managed()),
            low_watermark: zone.watermarks().mark(WatermarkLevel::Low),
            nr_cpus_local: nr_cpus,
            nr_cpus_online: nr_cpus,
            cache_slice: 0,
            fraction: HighFraction::DEFAULT,
        });
        Memory {
            table: Arc::clone(zone.table()),
            pcps: (0..nr_cpus).map(|_| Pcp::with_tuning(limits, tuning)).collect(),
            zone,
            is_reclaim_active: false,
            nr_free_kept: None,
        }
    }

    pub(super) fn zone(&self) -> &Zone {
        &self.zone
    }

    pub(super) fn nr_cpus(&self) -> u32 {
        self.pcps.len() as u32
    }

    pub(super) fn pcp(&self, cpu: CpuId) -> &Pcp {
        &self.pcps[cpu.0 as usize]
    }

    pub(super) fn nr_listed(&self) -> u64 {
        self.pcps.iter().map(|pcp| u64::from(pcp.count())).sum()
    }

    /// Takes a page from the CPU's list. Needs the list's lock.
    pub(super) fn take(&mut self, cpu: CpuId, request: &AllocRequest) -> Option<FrameId> {
        self.pcps[cpu.0 as usize].alloc(&self.table, request)
    }

    /// Frees a page to the CPU's list. Needs the list's lock. The result asks for [`Visit::Drain`].
    pub(super) fn give(&mut self, cpu: CpuId, frame: FrameId, now: Nanos) -> Option<Drain> {
        let signals = ZoneSignals {
            reclaim_active: self.is_reclaim_active,
            now: Millis(now.0 / NANOS_PER_MILLI),
        };
        let order = self.order_of(frame);
        self.pcps[cpu.0 as usize].free(&self.table, frame, order, signals)
    }

    /// Returns the drains of a tick in pieces, the first last. Needs the list's lock.
    pub(super) fn tick(&mut self, cpu: CpuId) -> Vec<Drain> {
        let pcp = &mut self.pcps[cpu.0 as usize];
        let drain = pcp.tick();
        let batch = pcp.batch();
        let mut pieces: Vec<Drain> =
            drain.into_iter().flat_map(|drain| drain.pieces(batch)).collect();
        pieces.reverse();
        pieces
    }

    /// Returns the next piece of a full drain. Needs the list's lock.
    pub(super) fn full_drain(&self, cpu: CpuId) -> Option<Drain> {
        self.pcps[cpu.0 as usize].full_drain()
    }

    /// Keeps lists empty while the result lives.
    pub(super) fn starve(&self) -> Starving {
        Starving::new(&self.table)
    }

    /// Marks background reclaim active: lists keep little until the zone is at HIGH.
    pub(super) fn wake_reclaim(&mut self) {
        self.is_reclaim_active = true;
    }

    /// Fetches a batch and takes one page. Needs both locks.
    pub(super) fn refill(&mut self, cpu: CpuId, request: &AllocRequest) -> Option<FrameId> {
        self.pcps[cpu.0 as usize].refill(&mut self.zone, request)
    }

    /// Takes a page. Needs only the zone's lock.
    pub(super) fn take_past(&mut self, request: &AllocRequest) -> Option<FrameId> {
        self.zone.alloc(request)
    }

    /// Drains a list. Needs both locks.
    pub(super) fn drain(&mut self, cpu: CpuId, drain: Drain) {
        self.pcps[cpu.0 as usize].drain(&mut self.zone, drain);
        self.settle();
    }

    /// Frees a page. Needs only the zone's lock.
    pub(super) fn give_past(&mut self, frame: FrameId) {
        self.zone.free(frame, self.order_of(frame));
        self.settle();
    }

    pub(super) fn order_of(&self, frame: FrameId) -> Order {
        match self.table.state(frame) {
            FrameState::Allocated(order) => order,
            state => panic!("{frame} is in use by no task: {state:?}"),
        }
    }

    pub(super) fn keep_free(&mut self, nr_free: u64) {
        self.nr_free_kept = Some(nr_free);
    }

    /// Takes frames out of service, or returns some, for the neighbour. Needs the zone's lock.
    pub(super) fn flow_in(&mut self) {
        let Some(nr_free) = self.nr_free_kept else { return };
        let now = self.zone.nr_free();
        let change = u32::try_from(now.abs_diff(nr_free)).unwrap_or(u32::MAX);
        if now > nr_free {
            self.zone.take_free(change, |_, _| {});
        } else {
            self.zone.give_back(change, |_, _| {});
        }
        self.settle();
    }

    /// Ends background reclaim above HIGH.
    fn settle(&mut self) {
        let high = self.zone.watermarks().mark(WatermarkLevel::High);
        if self.is_reclaim_active && self.zone.nr_free() > high {
            self.is_reclaim_active = false;
        }
    }

    pub(super) fn nr_blocks_through_zone(&self) -> u64 {
        self.zone.stats().nr_blocks_taken + self.zone.stats().nr_blocks_returned
    }

    /// Returns the frames that entered or left the zone since the start.
    pub(super) fn nr_through_zone(&self) -> u64 {
        self.zone.stats().nr_frames_taken + self.zone.stats().nr_frames_returned
    }

    /// Panics on a broken invariant. `nr_in_use` pages are in use.
    pub(super) fn validate(&self, nr_in_use: u64) {
        self.zone.validate();
        self.pcps.iter().for_each(|pcp| pcp.validate(&self.table));
        assert_eq!(
            nr_in_use + self.zone.nr_free() + self.nr_listed(),
            u64::from(self.zone.nr_managed()),
            "in use + free + on lists = managed"
        );
    }
}

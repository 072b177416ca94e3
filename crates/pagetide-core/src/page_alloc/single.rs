//! A zone and its per-CPU lists without locks, for one thread.
//!
//! **Problem.** The lab and the tests have many CPUs but one thread.
//!
//! **Idea.** The calls of the seam in `pcp/`, with `&mut` in place of locks:
//!
//! ```text
//!  alloc(cpu, request):  pcps[cpu].alloc  -> pcps[cpu].refill(zone) -> None
//!  free(cpu, frame):     pcps[cpu].free   -> pcps[cpu].drain(zone)
//! ```
//!
//! **Data and invariants.** managed = free in the zone + on per-CPU lists + allocated.
//!
//! **Ignored.** Contention, and handling of `None`. **Source.** Original.

use alloc::vec::Vec;

use super::pcp::Pcp;
use super::pcp_limits::{HighFraction, PcpInputs, PcpLimits};
use super::pcp_tuning::{PcpTuning, ZoneSignals};
use super::watermark::WatermarkLevel;
use super::zone::{AllocRequest, Zone};
use crate::ids::{CpuId, FrameId, Order};

/// One zone and one [`Pcp`] per CPU, for one thread.
#[derive(Debug)]
pub struct PageAllocator {
    zone: Zone,
    pcps: Vec<Pcp>,
    fraction: HighFraction,
    signals: ZoneSignals,
}

impl PageAllocator {
    /// Creates the allocator with `nr_cpus` local CPUs and the default tuning.
    pub fn new(zone: Zone, nr_cpus: u32, fraction: HighFraction) -> PageAllocator {
        PageAllocator::with_tuning(zone, nr_cpus, fraction, PcpTuning::default())
    }

    /// Same as [`PageAllocator::new`], with this tuning.
    pub fn with_tuning(
        zone: Zone,
        nr_cpus: u32,
        fraction: HighFraction,
        tuning: PcpTuning,
    ) -> PageAllocator {
        let limits = limits_for(&zone, nr_cpus, fraction);
        let pcps = (0..nr_cpus).map(|_| Pcp::with_tuning(limits, tuning)).collect();
        PageAllocator { zone, pcps, fraction, signals: ZoneSignals::default() }
    }

    /// Returns the zone.
    pub fn zone(&self) -> &Zone {
        &self.zone
    }

    #[cfg(test)]
    pub(crate) fn zone_mut(&mut self) -> &mut Zone {
        &mut self.zone
    }

    /// Returns a CPU's lists.
    pub fn pcp(&self, cpu: CpuId) -> &Pcp {
        &self.pcps[cpu.0 as usize]
    }

    /// Returns the number of frames on all per-CPU lists.
    pub fn nr_in_pcps(&self) -> u64 {
        self.pcps.iter().map(|pcp| u64::from(pcp.count())).sum()
    }

    /// Sets the signals for later frees.
    pub fn set_signals(&mut self, signals: ZoneSignals) {
        self.signals = signals;
    }

    /// Ticks every CPU ([`Pcp::tick`]). Returns the frames drained.
    pub fn tick(&mut self) -> u64 {
        let before = self.zone.nr_free();
        for pcp in &mut self.pcps {
            let drain = pcp.tick();
            let batch = pcp.batch();
            for piece in drain.into_iter().flat_map(|drain| drain.pieces(batch)) {
                pcp.drain(&mut self.zone, piece);
            }
        }
        self.zone.nr_free() - before
    }

    /// Takes a block on `cpu`, if the watermark allows and one is left.
    pub fn alloc(&mut self, cpu: CpuId, request: &AllocRequest) -> Option<FrameId> {
        let pcp = &mut self.pcps[cpu.0 as usize];
        let hit = pcp.alloc(self.zone.table(), request);
        hit.or_else(|| pcp.refill(&mut self.zone, request))
    }

    /// Frees a block on `cpu`.
    pub fn free(&mut self, cpu: CpuId, frame: FrameId, order: Order) {
        let pcp = &mut self.pcps[cpu.0 as usize];
        if let Some(drain) = pcp.free(self.zone.table(), frame, order, self.signals) {
            pcp.drain(&mut self.zone, drain);
        }
    }

    /// Drains every CPU's lists.
    pub fn drain_all(&mut self) {
        for pcp in &mut self.pcps {
            while let Some(drain) = pcp.full_drain() {
                pcp.drain(&mut self.zone, drain);
            }
        }
    }

    /// Derives watermarks and per-CPU limits after a resize.
    pub fn rederive(&mut self) {
        self.zone.rederive_watermarks();
        let limits = limits_for(&self.zone, self.pcps.len() as u32, self.fraction);
        self.pcps.iter_mut().for_each(|pcp| pcp.set_limits(limits));
    }

    /// Checks all invariants.
    ///
    /// # Cost
    /// O(frames).
    pub fn validate(&self) {
        self.zone.validate();
        self.pcps.iter().for_each(|pcp| pcp.validate(self.zone.table()));
        let nr_unused = self.zone.nr_free() + self.nr_in_pcps();
        assert!(nr_unused <= u64::from(self.zone.nr_managed()), "frames counted twice");
    }
}

fn limits_for(zone: &Zone, nr_cpus: u32, fraction: HighFraction) -> PcpLimits {
    PcpLimits::derive(&PcpInputs {
        managed: u64::from(zone.nr_managed()),
        low_watermark: zone.watermarks().mark(WatermarkLevel::Low),
        nr_cpus_local: nr_cpus,
        nr_cpus_online: nr_cpus,
        fraction,
        cache_slice: 0,
    })
}

//! Reclaim in a fault handler, by the accessing thread.
//!
//! Problem: waking another thread on an idle CPU costs more than a fault and an eviction. But the
//! interrupted code may hold any lock outside the cache, including the allocator's.
//!
//! ```text
//!   a CPU's batch free? --no--> the next CPU's --no--> None: another thread serves the fault
//!          | yes
//!          v
//!   background reclaim at work? --no--> this thread frees a few frames, and resumes
//!          | yes
//!          v
//!   a frame above MIN, or a direct pass
//! ```
//!
//! Data and invariants: nothing is allocated here. Page tables are not walked, which may unmap a
//! whole region: the background thread is woken instead.

use crate::engine::frame_source::FrameSource;
use crate::memory::percpu::PerCpu;
use pagetide_core::ids::CpuId;
use pagetide_core::lru::ReclaimBatch;
use pagetide_sys::read_nr_cpus_possible;
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, MutexGuard, OnceLock};

#[derive(Default)]
pub(crate) struct Here {
    batches: OnceLock<PerCpu<Mutex<ReclaimBatch>>>,
    /// Frames that regions have set aside.
    pub(crate) nr_aside: AtomicU64,
    /// Held by the thread that runs background passes.
    turn: Mutex<()>,
}

pub(crate) struct HereGuard<'e> {
    here: &'e Here,
    pub(crate) batch: MutexGuard<'e, ReclaimBatch>,
    turn: Option<MutexGuard<'e, ()>>,
}

impl Here {
    pub(crate) fn take_turn(&self) -> Option<MutexGuard<'_, ()>> {
        self.turn.lock().ok()
    }

    /// Takes a batch, of this CPU or another. Returns `None` if all are in use.
    pub(crate) fn enter(&self, cpu: CpuId) -> Option<HereGuard<'_>> {
        let batches = self.batches.get()?;
        let nr_cpus = batches.iter().count() as u32;
        let mut from_own = (0..nr_cpus).map(|nth| batches.at(CpuId(cpu.0.wrapping_add(nth))));
        let batch = from_own.find_map(|batch| batch.try_lock().ok())?;
        Some(HereGuard { here: self, batch, turn: None })
    }
}

impl HereGuard<'_> {
    /// Tries to take over background passes until the guard is dropped.
    pub(crate) fn try_turn(&mut self) -> bool {
        if self.turn.is_none() {
            self.turn = self.here.turn.try_lock().ok();
        }
        self.turn.is_some()
    }
}

impl FrameSource {
    pub(crate) fn expect_faults(&self) {
        let nr_cpus = read_nr_cpus_possible() as usize;
        let make = || PerCpu::new(nr_cpus, || Mutex::new(ReclaimBatch::with_room()));
        self.here.batches.get_or_init(make);
    }
}

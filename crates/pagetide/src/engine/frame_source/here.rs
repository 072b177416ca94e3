//! Reclaim in the middle of a fault: by the thread that touched a page, whatever it was doing.
//!
//! Problem: to wake another thread, on an idle CPU, costs more than a fault and an eviction. The
//! code that was interrupted may hold any lock that is not the cache's, the allocator's among them.
//!
//! ```text
//!   a CPU's batch free? --no--> the next CPU's --no--> None: the fault is another thread's
//!          | yes
//!          v
//!   background reclaim at work? --no--> this thread's turn: a few frames, and on with the fault
//!          | yes
//!          v
//!   a frame above MIN, or a direct pass
//! ```
//!
//! Data and invariants: nothing is allocated: what a pass needs room for was made before the first
//! region. Page tables are not walked, as that may take every page of a region out: the background
//! thread is woken for it.

use crate::engine::frame_source::FrameSource;
use crate::memory::percpu::PerCpu;
use pagetide_core::ids::CpuId;
use pagetide_core::lru::ReclaimBatch;
use pagetide_sys::read_nr_cpus_possible;
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, MutexGuard, OnceLock};

/// What threads in faults reclaim with.
#[derive(Default)]
pub(crate) struct Here {
    batches: OnceLock<PerCpu<Mutex<ReclaimBatch>>>,
    /// Frames that regions have set aside.
    pub(crate) nr_aside: AtomicU64,
    /// Held by the thread that makes background passes.
    turn: Mutex<()>,
}

/// What one such thread has while it reclaims.
pub(crate) struct HereGuard<'e> {
    here: &'e Here,
    pub(crate) batch: MutexGuard<'e, ReclaimBatch>,
    turn: Option<MutexGuard<'e, ()>>,
}

impl Here {
    /// The turn to make background passes, for a thread that may wait for it.
    pub(crate) fn take_turn(&self) -> Option<MutexGuard<'_, ()>> {
        self.turn.lock().ok()
    }

    /// What a thread on this CPU reclaims with; `None` while all of it is in use.
    pub(crate) fn enter(&self, cpu: CpuId) -> Option<HereGuard<'_>> {
        let batches = self.batches.get()?;
        let nr_cpus = batches.iter().count() as u32;
        let mut from_own = (0..nr_cpus).map(|nth| batches.at(CpuId(cpu.0.wrapping_add(nth))));
        let batch = from_own.find_map(|batch| batch.try_lock().ok())?;
        Some(HereGuard { here: self, batch, turn: None })
    }
}

impl HereGuard<'_> {
    /// Whether it is this thread that makes the background's passes, until it is done here.
    pub(crate) fn try_turn(&mut self) -> bool {
        if self.turn.is_none() {
            self.turn = self.here.turn.try_lock().ok();
        }
        self.turn.is_some()
    }
}

impl FrameSource {
    /// There will be faults: makes room for what is reclaimed in them.
    pub(crate) fn expect_faults(&self) {
        let nr_cpus = read_nr_cpus_possible() as usize;
        let make = || PerCpu::new(nr_cpus, || Mutex::new(ReclaimBatch::with_room()));
        self.here.batches.get_or_init(make);
    }
}

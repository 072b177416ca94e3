//! Allocation of frames: charges and reclaim.
//!
//! ```text
//!   charge (groups) --> frame above LOW --none--> core's driver: wake, reclaim, drain, fail
//! ```
//!
//! Core decides. This module gives core's driver the lists and frames of [`Pages`], the clock of
//! generations, and the threads to wake.
//!
//! | file | concern |
//! |---|---|
//! | `reclaim`, `claims` | the driver's view of memory, page words during a pass |
//! | `here` | the same in a fault handler |
//! | `charge` | charges and changes of groups |
//! | `aside` | frames exchanged for memory outside the arena |
//! | `moving` | accesses of slow memory, and moves between nodes |
//! | `tick` | periodic work |
//! | `resize`, `gather` | resizing, release of whole blocks |

pub(crate) mod aside;
mod charge;
mod claims;
mod gather;
pub(crate) mod here;
mod moving;
mod reclaim;
mod resize;
pub(crate) mod tick;

use crate::engine::flush::Flusher;
use crate::engine::frame_source::here::Here;
use crate::engine::groups::directory::Directory;
use crate::engine::mapping::Mapping;
use crate::engine::pages::Pages;
use crate::engine::registry::Registry;
use crate::engine::tiering::Tiering;
use crate::memory::locks::Signal;
use pagetide_core::ids::{CpuId, FrameId};
use pagetide_core::lru::{AccessPath, ReclaimBatch};
use pagetide_sys::{ClaimedFrame, Lock, PageHandle};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Instant;

pub(crate) struct FrameSource {
    pub(crate) pages: Arc<Pages>,
    pub(crate) mappings: Arc<Registry>,
    pub(crate) flusher: Arc<Flusher>,
    /// `Some` with several nodes.
    pub(crate) tiering: Option<Box<Tiering>>,
    pub(crate) groups: Option<Box<Directory>>,
    pub(crate) started_at: Instant,
    /// Wakes background reclaim. Has no effect if that is off.
    pub(crate) background: Signal,
    /// Worker threads run. Otherwise callers do their work.
    pub(crate) has_workers: bool,
    pub(crate) here: Here,
    /// Reused from pass to pass. A pass beside another has its own.
    pub(crate) spare_batch: Mutex<ReclaimBatch>,
    pub(crate) has_free: AtomicBool,
}

/// All frames are pinned, dirty or busy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NoFrame;

impl FrameSource {
    /// Gives the locked, absent page a frame and passes its folio to the policy. The frame has
    /// arbitrary contents: fill it before unlocking the page.
    pub(crate) fn admit<H: PageHandle>(
        &self,
        cpu: CpuId,
        mapping: &Mapping,
        page: &mut Lock<H>,
        kind: AccessPath,
    ) -> Result<FrameId, NoFrame> {
        let payer = self.charge(cpu, mapping)?;
        let claimed = self.alloc_frame(cpu).inspect_err(|_| self.refund(payer))?;
        Ok(self.pages.admit_in(cpu, mapping, page, claimed, payer, kind))
    }

    /// Returns true if memory was free at the last look. Always false with groups, which may be at
    /// their limits.
    pub(crate) fn is_ample(&self) -> bool {
        self.has_free.load(Relaxed) && self.groups.is_none()
    }

    pub(crate) fn look_for_free(&self) {
        self.has_free.store(self.pages.nodes.is_ample(), Relaxed);
    }

    /// Takes a frame without eviction or wake-up.
    pub(crate) fn spare_frame(&self, cpu: CpuId) -> Option<ClaimedFrame> {
        self.is_ample().then(|| self.frame_above_low(cpu)).flatten()
    }

    /// Takes a frame as [`FrameSource::spare_frame`] does, even if frames may soon be short.
    pub(crate) fn free_frame(&self, cpu: CpuId) -> Option<ClaimedFrame> {
        self.groups.is_none().then(|| self.frame_above_low(cpu)).flatten()
    }

    /// Takes up to `nr` frames in adjacent runs. If there are none, frees some once. Takes none
    /// with several nodes, where the node is chosen page by page.
    pub(crate) fn alloc_runs(&self, nr: u64, taken: &mut Vec<ClaimedFrame>) {
        let node = self.pages.nodes.first();
        if self.pages.nodes.len() > 1 || !node.frames.may_hold_run(nr) {
            return;
        }
        node.frames.alloc_runs(nr, taken);
        if taken.is_empty() && self.make_room_for_runs(nr) {
            node.frames.alloc_runs(nr, taken);
        }
    }
}

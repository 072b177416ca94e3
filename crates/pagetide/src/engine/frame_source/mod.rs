//! Where frames come from: what a page pays, and what has to leave for it.
//!
//! ```text
//!   charge (groups) --> frame above LOW --none--> core's driver: wake, reclaim, drain, give up
//! ```
//!
//! The decisions and their loops are core's; here is what the driver works on: the lists and frames
//! of [`Pages`], the clock of generations, the threads to wake.
//!
//! | file | concern |
//! |---|---|
//! | `reclaim`, `claims` | what the driver asks of memory; page words during a pass |
//! | `here` | the same in the middle of a fault |
//! | `charge` | what groups pay, and what else changes them |
//! | `moving` | accesses of slow memory, and moves between nodes |
//! | `tick` | what is due as time goes by |
//! | `resize`, `gather` | another size; what is given up in whole blocks |

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
use pagetide_core::lru::AccessPath;
use pagetide_sys::{ClaimedFrame, Lock, PageHandle};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Instant;

/// What gives frames to pages. See the module.
pub(crate) struct FrameSource {
    pub(crate) pages: Arc<Pages>,
    pub(crate) mappings: Arc<Registry>,
    /// What writes back the pages that are to leave.
    pub(crate) flusher: Arc<Flusher>,
    /// Where there are several nodes.
    pub(crate) tiering: Option<Box<Tiering>>,
    /// The groups by name, where there may be any.
    pub(crate) groups: Option<Box<Directory>>,
    /// When the clock of generations began.
    pub(crate) started_at: Instant,
    /// Wakes background reclaim; where that is switched off, it wakes nothing.
    pub(crate) background: Signal,
    /// Whether worker threads run; without them, their work is done by the callers.
    pub(crate) has_workers: bool,
    /// What is reclaimed with in the middle of a fault.
    pub(crate) here: Here,
    /// What the last tick, or an allocation since, has found of free memory: see
    /// [`FrameSource::is_ample`].
    pub(crate) has_free: AtomicBool,
}

/// No frame could be had: all are pinned, dirty or busy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NoFrame;

impl FrameSource {
    /// Gives the locked, absent page a frame and hands its folio to the policy. The frame's
    /// contents are whatever was there: the caller fills it before it unlocks the page.
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

    /// Whether memory is left that nothing competes for, as of a while ago. Groups may be at their
    /// limits before, so with them there is none.
    pub(crate) fn is_ample(&self) -> bool {
        self.has_free.load(Relaxed) && self.groups.is_none()
    }

    /// Looks whether there is such memory.
    pub(crate) fn look_for_free(&self) {
        self.has_free.store(self.pages.nodes.is_ample(), Relaxed);
    }

    /// A frame while memory is ample: for it, nothing is evicted, and no thread woken.
    pub(crate) fn spare_frame(&self, cpu: CpuId) -> Option<ClaimedFrame> {
        self.is_ample().then(|| self.frame_above_low(cpu)).flatten()
    }

    /// Takes up to `nr` frames in runs of neighbours, as far as there are such; where there are
    /// none, makes room for them once. Memory of several kinds has none: which kind a page gets is
    /// decided page by page.
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

//! The engine: everything the handles and the worker threads share.
//!
//! It has no policy: it asks core what to do, does it, and says how it went. Lock order, outermost
//! first (take none to the left while holding one to the right):
//!
//! ```text
//!   sizes of tiers < mapping.resize < mapping.flush < agreement < page lock (tried)
//!   page lock < agreement, registry (read)
//!   directory of groups                                         < registry (read)
//!   registry (read) < access log < lists
//!   registry (read) < per-CPU list < zone
//!   promotion < zone
//!   leaves, held for a few lines each: dirty index, error state, readahead state, recorder,
//!   sample of reuse
//! ```
//!
//! A page lock may be held while allocating, which may reclaim; reclaim only *tries* other pages'
//! locks, so it cannot wait in a circle. Users hold pages by guards, for as long as they like: so
//! no page is waited for by who holds any lock that another page's user may want.

pub(crate) mod agreement;
pub(crate) mod claims;
pub(crate) mod delay;
pub(crate) mod devices;
pub(crate) mod dirty;
pub(crate) mod fill;
pub(crate) mod flush;
pub(crate) mod foreign;
pub(crate) mod groups;
pub(crate) mod held;
pub(crate) mod hint_scan;
pub(crate) mod in_flight;
pub(crate) mod leaving;
pub(crate) mod limits;
pub(crate) mod mapping;
pub(crate) mod moving;
pub(crate) mod open;
pub(crate) mod pages;
pub(crate) mod pass;
pub(crate) mod prefetch;
pub(crate) mod reclaim;
pub(crate) mod registry;
pub(crate) mod resize;
pub(crate) mod staging;
pub(crate) mod swap;
pub(crate) mod tick;
pub(crate) mod tiering;
pub(crate) mod validate;
pub(crate) mod written;

use crate::engine::flush::Flusher;
use crate::engine::groups::directory::Directory;
use crate::engine::mapping::Mapping;
use crate::engine::pages::Pages;
use crate::engine::prefetch::PrefetchQueue;
use crate::engine::registry::Registry;
use crate::engine::tiering::Tiering;
use crate::memory::io_pool::IoPool;
use crate::memory::locks::Signal;
use pagetide_core::ids::{CpuId, FrameId};
use pagetide_core::lru::AccessPath;
use pagetide_sys::{ClaimedFrame, Lock, PageHandle};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Instant;

/// Shared by handles and workers. See the module for the lock order.
pub(crate) struct Engine {
    pub(crate) pages: Arc<Pages>,
    pub(crate) flusher: Flusher,
    /// Where there are several nodes.
    pub(crate) tiering: Option<Box<Tiering>>,
    pub(crate) mappings: Arc<Registry>,
    /// The groups by name, where there may be any.
    pub(crate) groups: Option<Box<Directory>>,
    /// When the clock of generations began.
    pub(crate) started_at: Instant,
    pub(crate) io: Arc<IoPool>,
    pub(crate) prefetches: PrefetchQueue,
    /// Wakes background reclaim; where that is switched off, it wakes nothing.
    pub(crate) background: Signal,
    /// Wakes the thread that has memory made.
    pub(crate) growth: Signal,
    /// Whether worker threads run; without them, their work is done by the callers.
    pub(crate) has_workers: bool,
    /// What the last tick, or an allocation since, has found of free memory: see
    /// [`Engine::is_ample`].
    pub(crate) has_free: AtomicBool,
    pub(crate) direct_io: AtomicBool,
    pub(crate) io_uring: AtomicBool,
}

/// No frame could be had: all are pinned, dirty or busy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct NoFrame;

impl Engine {
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

    /// Whether memory is left that nobody competes for, as of a while ago. Groups may be at their
    /// limits before, so with them there is none.
    pub(crate) fn is_ample(&self) -> bool {
        self.has_free.load(Relaxed) && self.groups.is_none()
    }

    /// Looks whether there is such memory.
    pub(crate) fn look_for_free(&self) {
        self.has_free.store(self.pages.nodes.is_ample(), Relaxed);
    }

    /// A frame while memory is ample: for it, nothing is evicted and nobody woken.
    pub(crate) fn spare_frame(&self, cpu: CpuId) -> Option<ClaimedFrame> {
        let claimed = self.is_ample().then(|| self.frame_above_low(cpu)).flatten()?;
        self.wake_growth();
        Some(claimed)
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
        self.wake_growth();
    }

    pub(crate) fn wake_growth(&self) {
        if self.pages.arena.wants_growth() {
            self.growth.notify();
        }
    }
}

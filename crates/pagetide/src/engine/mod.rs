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
pub(crate) mod held;
pub(crate) mod hint_scan;
pub(crate) mod in_flight;
pub(crate) mod leaving;
pub(crate) mod mapping;
pub(crate) mod moving;
pub(crate) mod pass;
pub(crate) mod prefetch;
pub(crate) mod reclaim;
pub(crate) mod registry;
pub(crate) mod resize;
pub(crate) mod staging;
pub(crate) mod tiering;
pub(crate) mod validate;
pub(crate) mod written;

use crate::api::group::Directory;
use crate::engine::dirty::DirtyPages;
use crate::engine::mapping::Mapping;
use crate::engine::prefetch::PrefetchQueue;
use crate::engine::registry::Registry;
use crate::engine::tiering::Tiering;
use crate::engine::written::Written;
use crate::memory::compressed::CompressedPool;
use crate::memory::io_pool::IoPool;
use crate::memory::locks::Signal;
use crate::memory::node::Nodes;
use crate::stats::counters::Counters;
use crate::stats::recorder::Recorder;
use crate::stats::sizing::ReuseSampler;
use pagetide_core::folio::{Flags, Folios};
use pagetide_core::ids::{CpuId, FrameId, GroupId, PageId, PageIndex, PageType};
use pagetide_core::lru::{AccessPath, AccessRule, Discarded, Marked, ShadowEntry};
use pagetide_core::record;
use pagetide_core::units::PAGE_BYTES;
use pagetide_sys::{ClaimedFrame, FrameArena, Lock, PageHandle, fetch};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Instant;

/// Shared by handles and workers. See the module for the lock order.
pub(crate) struct Engine {
    pub(crate) arena: Arc<FrameArena>,
    pub(crate) folios: Arc<Folios>,
    /// Frames and lists, by speed of memory.
    pub(crate) nodes: Nodes,
    /// Frames from here on are slow memory; none are in a cache of one node.
    pub(crate) slow_from: u32,
    /// Where there are several nodes.
    pub(crate) tiering: Option<Box<Tiering>>,
    /// Evicted pages, compressed, where there is such a tier.
    pub(crate) pool: Option<Box<CompressedPool>>,
    pub(crate) rule: AccessRule,
    pub(crate) mappings: Registry,
    /// Of those who are in no group, and of what no group is told apart in.
    pub(crate) counters: Arc<Counters>,
    /// The groups by name, where there may be any.
    pub(crate) groups: Option<Box<Directory>>,
    pub(crate) dirty: DirtyPages,
    /// When the clock of generations began.
    pub(crate) started_at: Instant,
    pub(crate) recorder: Option<Recorder>,
    /// Follows the uses of a few pages.
    pub(crate) reuse: ReuseSampler,
    pub(crate) io: IoPool,
    pub(crate) prefetches: PrefetchQueue,
    /// Wakes background reclaim; nobody listens where it is switched off.
    pub(crate) background: Signal,
    /// Wakes the flusher.
    pub(crate) flusher: Signal,
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
    /// Starts fetching the bytes and the descriptor a reader is about to want, from where they
    /// probably are: its three cache misses (word, bytes, descriptor) then pass side by side.
    #[inline]
    pub(crate) fn fetch_guess(&self, guess: Option<FrameId>, offset: usize) {
        let Some(frame) = guess else { return };
        self.arena.fetch(frame, offset);
        if let Some(folio) = self.folios.get(frame) {
            fetch(folio);
        }
    }

    /// Notes an access of a resident page through a descriptor. Takes no lock the hit plane must
    /// not take; where the policy wants a list operation and the way is blocked, the touch is lost.
    #[inline]
    pub(crate) fn mark_accessed(&self, cpu: CpuId, frame: FrameId) {
        if self.rule.mark(&self.folios, frame) == Marked::Log {
            self.nodes.of(frame).log_touch(cpu, frame, &self.counters);
        }
    }

    /// As [`Engine::mark_accessed`], for the access that missed and brought the page in.
    pub(crate) fn mark_filled(&self, cpu: CpuId, frame: FrameId) {
        if self.rule.mark_fill(&self.folios, frame) == Marked::Log {
            self.nodes.of(frame).log_touch(cpu, frame, &self.counters);
        }
    }

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
        Ok(self.admit_in(cpu, mapping, page, claimed, payer, kind))
    }

    /// As [`Engine::admit`], in a frame the caller has, for which `payer` was charged.
    pub(crate) fn admit_in<H: PageHandle>(
        &self,
        cpu: CpuId,
        mapping: &Mapping,
        page: &mut Lock<H>,
        claimed: ClaimedFrame,
        payer: GroupId,
        kind: AccessPath,
    ) -> FrameId {
        let frame = claimed.frame();
        let shadow = page.shadow().map(ShadowEntry::from_bits);
        let id = PageId { mapping: mapping.id, index: page.page().index() };
        let flags = self.rule.flags_on_fill(kind).with(self.reuse.flag(mapping, id.index));
        self.folios[frame].bind(id, PageType::File, flags.with(mapping.backing_flag()));
        self.folios[frame].set_group(payer);
        page.install(claimed);
        self.forget_compressed(id);
        if let Some(shadow) = shadow {
            // Pages leave memory from the slowest node: its lists know how long this one was away.
            let judge = self.nodes.last();
            let mut log = judge.log_with_room(cpu);
            judge.lock_lists().refault(&mut log, frame, shadow, kind);
        }
        self.nodes.of(frame).log_add(cpu, &self.folios, frame);
        frame
    }

    /// Takes the page's frame away without leaving a shadow: its contents are wrong or unwanted.
    pub(crate) fn expel<H: PageHandle>(&self, cpu: CpuId, mapping: &Mapping, page: &mut Lock<H>) {
        let index = page.page().index();
        self.record(mapping, index.0, record::AccessKind::Discard);
        self.reuse.discard(mapping, index);
        self.forget_compressed(PageId { mapping: mapping.id, index });
        if page.frame().is_none() {
            return page.set_shadow(None);
        }
        let claimed = page.evict(None);
        let node = self.nodes.of(claimed.frame());
        let discarded = node.lock_lists().discard(claimed.frame());
        let frame = self.arena.release(claimed);
        match discarded {
            Discarded::Freed => node.frames.free(cpu, [frame]),
            // The reclaim pass that has the folio frees the frame.
            Discarded::Deferred => {}
        }
    }

    /// The page's compressed copy, if there is one, is not to be read again. The caller has the
    /// page locked.
    #[inline]
    pub(crate) fn forget_compressed(&self, page: PageId) {
        if let Some(pool) = &self.pool {
            pool.forget(page);
        }
    }

    /// Whether memory is left that nobody competes for, as of a while ago. Groups may be at their
    /// limits before, so with them there is none.
    pub(crate) fn is_ample(&self) -> bool {
        self.has_free.load(Relaxed) && self.groups.is_none()
    }

    /// Looks whether there is such memory.
    pub(crate) fn look_for_free(&self) {
        self.has_free.store(self.nodes.is_ample(), Relaxed);
    }

    /// A frame while memory is ample: for it, nothing is evicted and nobody woken.
    pub(crate) fn spare_frame(&self, cpu: CpuId) -> Option<ClaimedFrame> {
        let claimed = self.is_ample().then(|| self.frame_above_low(cpu)).flatten()?;
        self.tell_growth();
        Some(claimed)
    }

    /// Takes up to `nr` frames in runs of neighbours, as far as there are such; where there are
    /// none, makes room for them once. Memory of several kinds has none: which kind a page gets is
    /// decided page by page.
    pub(crate) fn alloc_runs(&self, nr: u64, taken: &mut Vec<ClaimedFrame>) {
        let node = self.nodes.first();
        if self.nodes.len() > 1 || !node.frames.may_hold_run(nr) {
            return;
        }
        node.frames.alloc_runs(nr, taken);
        if taken.is_empty() && self.make_room_for_runs(nr) {
            node.frames.alloc_runs(nr, taken);
        }
        self.tell_growth();
    }

    pub(crate) fn tell_growth(&self) {
        if self.arena.wants_growth() {
            self.growth.notify();
        }
    }

    /// Marks a page dirty whose lock the caller holds, after it changed bytes of it.
    pub(crate) fn mark_dirty(
        &self,
        mapping: &Mapping,
        index: u64,
        frame: FrameId,
        changed: Range<usize>,
    ) {
        // What nobody else can change is written back whole.
        let is_exact = mapping.agreement.is_shared();
        let is_new = !self.folios[frame].set(Flags::DIRTY).any(Flags::DIRTY);
        if is_new || is_exact {
            let written = if is_exact { Written::of(changed) } else { Written::WHOLE };
            mapping.dirty.insert(index, &written);
        }
        if is_new {
            self.count_dirty(mapping);
            self.record(mapping, index, record::AccessKind::Dirty);
        }
    }

    /// As [`Engine::mark_dirty`], of a page that may have changed anywhere.
    pub(crate) fn mark_whole_dirty(&self, mapping: &Mapping, index: u64, frame: FrameId) {
        self.mark_dirty(mapping, index, frame, 0..PAGE_BYTES);
    }

    /// Counts a page as dirty. Pages that have nowhere to go but to borrowed room are none of what
    /// waits to be stored: memory may be full of them.
    fn count_dirty(&self, mapping: &Mapping) {
        if mapping.swap.is_none() {
            self.dirty.add(1);
        }
    }

    /// So many pages are dirty no longer, or were counted twice.
    pub(crate) fn uncount_dirty(&self, mapping: &Mapping, nr: u64) {
        if mapping.swap.is_none() {
            self.dirty.sub(nr);
        }
    }

    /// Writes down what happens to the page, if this run is recorded. To be called before whatever
    /// follows from it: the order of the record is the order of the decisions.
    #[inline]
    pub(crate) fn record(&self, mapping: &Mapping, index: u64, kind: record::AccessKind) {
        if let Some(recorder) = &self.recorder {
            let page = PageId { mapping: mapping.id, index: PageIndex(index) };
            recorder.record(page, kind);
        }
    }
}

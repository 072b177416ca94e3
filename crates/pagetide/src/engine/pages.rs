//! Pages and their frames, the base of the engine.
//!
//! Problem: fills, write-back, reclaim and foreign changes admit, mark and drop pages. Each must
//! keep lists, compressed copies, counts and the record consistent. Idea: only this module does so.
//!
//! ```text
//!   absent --admit_in--> resident --mark_dirty--> dirty
//!      ^                    |                       |
//!      +------expel---------+       drop_locked     |
//!      +--------------------------------------------+
//! ```
//!
//! Data and invariants: a page's word holds its state. Only the holder of its lock changes the
//! state. Nothing here allocates, reclaims, or waits for a store.

use crate::engine::dirty::DirtyPages;
use crate::engine::mapping::Mapping;
use crate::engine::stats::counters::{Counters, Event};
use crate::engine::stats::latency::LatencyHistogram;
use crate::engine::stats::recorder::Recorder;
use crate::engine::stats::sizing::ReuseSampler;
use crate::engine::written::Written;
use crate::memory::compressed::CompressedPool;
use crate::memory::node::{Nodes, Touched};
use crossbeam_utils::CachePadded;
use pagetide_core::folio::{Flags, Folios};
use pagetide_core::ids::{CpuId, FrameId, GroupId, PageId, PageIndex, PageType};
use pagetide_core::lru::{AccessPath, AccessRule, Marked, ShadowEntry};
use pagetide_core::record;
use pagetide_core::units::{PAGE_BYTES, PAGE_SHIFT};
use pagetide_sys::{ClaimedFrame, FrameArena, Lock, PageHandle, PageRef, current_cpu, fetch};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

pub(crate) struct Pages {
    pub(crate) arena: Arc<FrameArena>,
    pub(crate) folios: Arc<Folios>,
    /// Frames and lists, by memory speed.
    pub(crate) nodes: Nodes,
    /// The first slow frame, beyond all frames on a single node.
    pub(crate) slow_from: u32,
    /// The compressed tier of evicted pages, if any.
    pub(crate) pool: Option<Box<CompressedPool>>,
    pub(crate) rule: AccessRule,
    pub(crate) dirty: DirtyPages,
    /// Number of pages locked in memory by processes, of all files.
    pub(crate) nr_locked: AtomicU64,
    /// Counts of pages in no group, and counts not kept by group.
    pub(crate) counters: Arc<Counters>,
    pub(crate) recorder: Option<Recorder>,
    /// Follows the uses of a few pages.
    pub(crate) reuse: ReuseSampler,
    /// Waiting times for store reads, on a cache line that no hit reads.
    pub(crate) read_times: CachePadded<LatencyHistogram>,
}

impl Pages {
    /// Prefetches the guessed bytes and descriptor, so that the misses on word, bytes and
    /// descriptor overlap.
    #[inline]
    pub(crate) fn fetch_guess(&self, guess: Option<FrameId>, offset: usize) {
        let Some(frame) = guess else { return };
        self.arena.fetch(frame, offset);
        if let Some(folio) = self.folios.get(frame) {
            fetch(folio);
        }
    }

    /// Records an access through a descriptor. Never blocks a hit: if the policy needs a busy list,
    /// the access is lost.
    #[inline]
    pub(crate) fn mark_accessed(&self, cpu: CpuId, frame: FrameId) {
        if self.rule.mark(&self.folios, frame) == Marked::Log {
            self.log_touch(cpu, frame);
        }
    }

    /// Does [`Pages::mark_accessed`] for the access that filled the page.
    pub(crate) fn mark_filled(&self, cpu: CpuId, frame: FrameId) {
        if self.rule.mark_fill(&self.folios, frame) == Marked::Log {
            self.log_touch(cpu, frame);
        }
    }

    #[inline]
    fn log_touch(&self, cpu: CpuId, frame: FrameId) {
        if self.nodes.of(frame).log_touch(cpu, frame) == Touched::Lost {
            self.counters.count(Event::TouchLost);
        }
    }

    /// Returns true if an access of `frame` concerns tiering.
    #[inline]
    pub(crate) fn is_slow(&self, frame: FrameId, has_hint: bool) -> bool {
        frame.0 >= self.slow_from || has_hint
    }

    /// Installs a frame, charged to `payer`, in the locked, absent page, and adds its folio to the
    /// policy. The caller must fill the frame before the unlock.
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
        let flags = self.rule.flags_on_fill(kind).with(self.reuse.flag(mapping.key(id.index)));
        self.folios[frame].bind(id, PageType::File, flags.with(mapping.backing_flag()));
        self.folios[frame].set_group(payer);
        page.install(claimed);
        self.forget_compressed(id);
        if let Some(shadow) = shadow {
            // Evictions are from the slowest node, so its lists know how long this page was away.
            let judge = self.nodes.last();
            let mut log = judge.log_with_room(cpu);
            judge.lock_lists().refault(&mut log, frame, shadow, kind);
        }
        self.nodes.of(frame).log_add(cpu, &self.folios, frame);
        frame
    }

    /// Evicts a page with wrong or unwanted contents, without a shadow entry.
    pub(crate) fn expel<H: PageHandle>(&self, cpu: CpuId, mapping: &Mapping, page: &mut Lock<H>) {
        let index = page.page().index();
        self.record(mapping, index.0, record::AccessKind::Discard);
        self.reuse.discard(mapping.key(index));
        self.forget_compressed(PageId { mapping: mapping.id, index });
        if page.frame().is_none() {
            return page.set_shadow(None);
        }
        let claimed = page.evict(None);
        let node = self.nodes.of(claimed.frame());
        node.lock_lists().discard(claimed.frame());
        node.frames.free(cpu, [self.arena.release(claimed)]);
    }

    /// Invalidates the page's compressed copy, if any. The caller has the page locked.
    #[inline]
    pub(crate) fn forget_compressed(&self, page: PageId) {
        if let Some(pool) = &self.pool {
            pool.forget(page);
        }
    }

    /// Calls `each` in order with each resident, unlocked page of a mapping, and its heat.
    pub(crate) fn for_each_resident(&self, mapping: &Mapping, mut each: impl FnMut(PageIndex, u8)) {
        mapping.table.for_each_present(PageIndex::ALL, |page, seen| {
            let Some(frame) = seen.frame().filter(|_| !seen.is_locked()) else { return };
            let lists = self.nodes.of(frame).lock_lists();
            let heat = lists.lruvec_of(self.folios[frame].group()).heat(frame);
            each(page.index(), heat);
        });
    }

    /// Drops one page, dirty or not.
    pub(crate) fn drop_page(&self, mapping: &Mapping, page: PageRef<'_>) {
        self.drop_locked(mapping, &mut page.lock());
    }

    pub(crate) fn drop_locked<H: PageHandle>(&self, mapping: &Mapping, page: &mut Lock<H>) {
        if let Some(frame) = page.frame()
            && self.folios[frame].clear(Flags::DIRTY).any(Flags::DIRTY)
        {
            mapping.dirty.take(page.page().index().0);
            self.uncount_dirty(mapping, 1);
        }
        self.expel(current_cpu(), mapping, page);
    }

    /// Drops all pages of the range that are neither dirty nor in use.
    pub(crate) fn drop_clean_pages(&self, mapping: &Mapping, range: Range<PageIndex>) {
        const UNCLEAN: Flags = Flags::DIRTY.with(Flags::WRITEBACK);
        let cpu = current_cpu();
        mapping.table.for_each_present(range.clone(), |page, _| {
            let Ok(mut page) = page.try_lock() else { return };
            if page.frame().is_some_and(|frame| self.folios[frame].flags().any(UNCLEAN)) {
                return;
            }
            self.expel(cpu, mapping, &mut page);
        });
        // Last, to include pages evicted meanwhile.
        if let Some(pool) = &self.pool {
            pool.forget_range(mapping.copied(), range);
        }
    }

    /// Marks a locked page dirty after a change of its bytes.
    pub(crate) fn mark_dirty(
        &self,
        mapping: &Mapping,
        index: u64,
        frame: FrameId,
        changed: Range<usize>,
    ) {
        // A page that no other program can change is written back whole.
        let is_exact = mapping.agreement.is_shared();
        let is_new = !self.folios[frame].set(Flags::DIRTY).any(Flags::DIRTY);
        if is_new || is_exact {
            match is_exact {
                true => mapping.dirty.insert(index, &Written::of(changed)),
                false => mapping.dirty.insert(index, &Written::WHOLE),
            }
        }
        if is_new {
            self.count_dirty(mapping);
            self.record(mapping, index, record::AccessKind::Dirty);
        }
    }

    /// Does [`Pages::mark_dirty`] for a page with unknown changes.
    pub(crate) fn mark_whole_dirty(&self, mapping: &Mapping, index: u64, frame: FrameId) {
        self.mark_dirty(mapping, index, frame, 0..PAGE_BYTES);
    }

    /// Counts a dirty page. Swap-backed pages never wait for a store, and may fill the memory.
    fn count_dirty(&self, mapping: &Mapping) {
        if mapping.swap.is_none() {
            self.dirty.add(1);
        }
    }

    /// Uncounts pages that are no longer dirty, or were counted twice.
    pub(crate) fn uncount_dirty(&self, mapping: &Mapping, nr: u64) {
        if mapping.swap.is_none() {
            self.dirty.sub(nr);
        }
    }

    pub(crate) fn set_marker<H: PageHandle>(&self, run: &[Lock<H>], marker: Option<u64>) {
        let Some(marker) = marker else { return };
        for page in run {
            if page.page().index().0 == marker
                && let Some(frame) = page.frame()
            {
                page.ask();
                self.folios[frame].set(Flags::READAHEAD);
            }
        }
    }

    /// Fills consecutive resident, locked pages in the memory file that other processes map. The
    /// marker's page, and pages for which the kernel lacks memory, are filled in their frames.
    pub(crate) fn put_in_file<H: PageHandle>(
        &self,
        cpu: CpuId,
        mapping: &Mapping,
        run: &mut [Lock<H>],
        bytes: &[u8],
        marker: Option<u64>,
    ) {
        let is_marked = |page: &Lock<H>| Some(page.page().index().0) == marker;
        let mut done = 0;
        for run in run.chunk_by_mut(|one, next| !is_marked(one) && !is_marked(next)) {
            let bytes = &bytes[done * PAGE_BYTES..][..run.len() * PAGE_BYTES];
            done += run.len();
            if !is_marked(&run[0]) && Lock::put_bytes_in_file(run, bytes).is_ok() {
                continue;
            }
            let pages = run.iter_mut().zip(bytes.chunks_exact(PAGE_BYTES));
            let absent = pages.filter(|(page, _)| !page.is_in_file());
            absent.for_each(|(page, bytes)| page.write(0, bytes));
        }
        run[1..].iter().for_each(|page| self.note_mapped(cpu, mapping, page));
    }

    /// Records an access of a mapped page after readahead, because mapped accesses leave no trace.
    pub(crate) fn note_mapped<H: PageHandle>(&self, cpu: CpuId, mapping: &Mapping, page: &Lock<H>) {
        let Some(frame) = page.frame().filter(|_| page.is_where_mapped()) else { return };
        self.record(mapping, page.page().index().0, record::AccessKind::Read);
        self.counters.count(Event::Hit);
        self.folios[frame].clear(Flags::PREFETCHED);
        self.mark_accessed(cpu, frame);
    }

    pub(crate) fn count_read(&self, mapping: &Mapping, nr_pages: usize) {
        self.counters.count(Event::DeviceRead);
        self.count_read_pages(mapping, nr_pages);
    }

    /// Counts pages of a read that is counted as a request elsewhere.
    pub(crate) fn count_read_pages(&self, mapping: &Mapping, nr_pages: usize) {
        self.counters.add(Event::DeviceReadBytes, (nr_pages * PAGE_BYTES) as u64);
        mapping.nr_read.fetch_add(nr_pages as u64, Relaxed);
    }

    /// Runs, counts and times a read that a thread waits for.
    pub(crate) fn timed_read<T>(
        &self,
        mapping: &Mapping,
        nr_pages: usize,
        read: impl FnOnce() -> T,
    ) -> T {
        self.count_read(mapping, nr_pages);
        let begun = Instant::now();
        let done = read();
        self.read_times.count(begun.elapsed());
        done
    }

    pub(crate) fn count_write(&self, nr_bytes: usize) {
        self.counters.count(Event::DeviceWrite);
        self.counters.add(Event::DeviceWriteBytes, nr_bytes as u64);
    }

    /// Checks for a truncation by another program.
    pub(crate) fn check_length(
        &self,
        mapping: &Mapping,
        offset: u64,
        nr_pages: usize,
        nr_bytes: usize,
    ) {
        let end = offset + nr_bytes as u64;
        let expected = mapping.stored_len().min(offset + (nr_pages * PAGE_BYTES) as u64);
        if end < expected
            && let Some(len) = mapping.believe_shrunk(end)
        {
            // Bytes past the end would come back if the file grew again.
            self.drop_clean_pages(mapping, PageIndex(len >> PAGE_SHIFT)..PageIndex(u64::MAX));
        }
    }

    /// Records a page's event if this run is recorded. Call before any consequence, to keep the
    /// order of decisions.
    #[inline]
    pub(crate) fn record(&self, mapping: &Mapping, index: u64, kind: record::AccessKind) {
        if let Some(recorder) = &self.recorder {
            let page = PageId { mapping: mapping.id, index: PageIndex(index) };
            recorder.record(page, kind);
        }
    }
}

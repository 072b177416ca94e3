//! Write-back of dirty pages, and its errors.
//!
//! One thread at a time writes back a mapping (`mapping.flush`), front to back, once. A pass ends
//! at a page that a guard has locked. A sync waits for the guard between passes, to block no other
//! call.

pub(crate) mod pass;
pub(crate) mod scope;

use self::pass::{Flushed, Pass, RUN_MAX};
use self::scope::{Chosen, OnLocked, PassScope};
use crate::engine::mapping::Mapping;
use crate::engine::pages::Pages;
use crate::engine::registry::Registry;
use crate::memory::io_pool::IoPool;
use crate::memory::locks::{Signal, Wake, lock};
use pagetide_core::ids::PageIndex;
use pagetide_core::writeback::Balance;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// Fraction of the frames written at a time in swapped mappings.
pub(crate) const SWAP_PART: u64 = 8;

pub(crate) struct Flusher {
    pub(crate) pages: Arc<Pages>,
    mappings: Arc<Registry>,
    pub(crate) io: Arc<IoPool>,
    signal: Signal,
    has_thread: bool,
}

impl Flusher {
    pub(crate) fn new(
        pages: &Arc<Pages>,
        mappings: &Arc<Registry>,
        io: &Arc<IoPool>,
        has_thread: bool,
    ) -> Flusher {
        Flusher {
            pages: Arc::clone(pages),
            mappings: Arc::clone(mappings),
            io: Arc::clone(io),
            signal: Signal::default(),
            has_thread,
        }
    }

    pub(crate) fn wake(&self) {
        self.signal.notify();
    }

    pub(crate) fn wait(&self, timeout: Duration) -> Wake {
        self.signal.wait(timeout)
    }

    pub(crate) fn stop(&self) {
        self.signal.stop();
    }

    /// Waits for locked pages. Records errors in the mapping, and leaves the pages concerned dirty.
    pub(crate) fn flush(&self, mapping: &Mapping, range: Range<u64>) -> Flushed {
        let mut total = Flushed::default();
        let mut from = range.start;
        loop {
            let turn = lock(&mapping.flush);
            let flushed = self.flush_locked(mapping, from..range.end, OnLocked::End, u64::MAX);
            drop(turn);
            total.add(flushed);
            let Some(index) = flushed.ended_at else { return total };
            if let Some(page) = mapping.table.page(PageIndex(index)) {
                page.wait_while_locked();
            }
            from = index;
        }
    }

    pub(crate) fn flush_unlocked(&self, mapping: &Mapping) -> Flushed {
        let _turn = lock(&mapping.flush);
        self.flush_locked(mapping, 0..u64::MAX, OnLocked::Skip, u64::MAX)
    }

    /// Runs one pass for a caller that holds `mapping.flush`.
    pub(crate) fn flush_locked(
        &self,
        mapping: &Mapping,
        range: Range<u64>,
        on_locked: OnLocked,
        nr_max: u64,
    ) -> Flushed {
        self.pass(mapping, range, PassScope { chosen: Chosen::All, on_locked, nr_max })
    }

    fn pass(&self, mapping: &Mapping, range: Range<u64>, scope: PassScope) -> Flushed {
        if mapping.dirty.is_empty() {
            mapping.note_pass(0);
            return Flushed::default();
        }
        let Ok(backing) = mapping.backing() else { return Flushed::default() };
        if let Err(shrunk) = mapping.check_not_shrunk() {
            mapping.record_error(&shrunk);
        }
        span!("write_back", file = mapping.id.0);
        let pass = Pass::new(&self.pages, &self.io, mapping, &backing, scope);
        let flushed = self.with_change(mapping, &backing, || pass.run(range));
        mapping.note_pass(flushed.nr_failed);
        self.settle_idle(mapping);
        flushed
    }

    /// Writes back all mappings that are not swapped.
    pub(crate) fn flush_all(&self, on_locked: OnLocked) -> Flushed {
        self.flush_each(on_locked, |_| {})
    }

    /// Does [`Flusher::flush_all`], and calls `on_failure` for each mapping with pages that could
    /// not be written.
    pub(crate) fn flush_each(
        &self,
        on_locked: OnLocked,
        mut on_failure: impl FnMut(&Arc<Mapping>),
    ) -> Flushed {
        let mut total = Flushed::default();
        for mapping in self.mappings.snapshot().iter().filter(|mapping| mapping.swap.is_none()) {
            let flushed = match on_locked {
                OnLocked::End => self.flush(mapping, 0..u64::MAX),
                OnLocked::Skip => self.flush_unlocked(mapping),
            };
            if flushed.nr_failed > 0 {
                on_failure(mapping);
            }
            total.add(flushed);
            self.close_if_idle(mapping);
        }
        total
    }

    /// Writes back pages that keep frames from being reclaimed, of mappings not in write-back
    /// already. In swapped mappings, writes pages that reclaim has met or else a part at a time.
    /// Never blocks, as the caller may be serving a fault.
    pub(crate) fn flush_for_room(&self) -> Flushed {
        let mut total = Flushed::default();
        for mapping in self.mappings.snapshot() {
            let Ok(turn) = mapping.flush.try_lock() else { continue };
            let Some(swap) = &mapping.swap else {
                total.add(self.flush_locked(&mapping, 0..u64::MAX, OnLocked::Skip, u64::MAX));
                drop(turn);
                self.close_if_idle(&mapping);
                continue;
            };
            let nr_max = (self.pages.nodes.nr_frames() / SWAP_PART).max(RUN_MAX);
            let scope = PassScope { chosen: Chosen::Met, on_locked: OnLocked::Skip, nr_max };
            let met = self.pass(&mapping, 0..u64::MAX, scope);
            total.add(met);
            if met.nr_written > 0 {
                continue;
            }
            let from = swap.begin_part();
            for range in [from..u64::MAX, 0..from] {
                let nr_left = nr_max.saturating_sub(total.nr_written);
                if nr_left > 0 {
                    total.add(self.flush_locked(&mapping, range, OnLocked::Skip, nr_left));
                }
            }
        }
        total
    }

    /// Does [`Mapping::close_if_idle`], and drops the pages of a file that has no name.
    pub(crate) fn close_if_idle(&self, mapping: &Mapping) {
        if mapping.close_if_idle() {
            self.pages.drop_clean_pages(mapping, PageIndex::ALL);
        }
    }

    /// Closes a file that has no name, no handle, and no other open file description. Drops its
    /// pages, also dirty ones, because no program can read them any more. Otherwise returns false.
    pub(crate) fn drop_unreachable(&self, mapping: &Mapping) -> bool {
        let _no_write_back = lock(&mapping.flush);
        if !mapping.close_if_sole() {
            return false;
        }
        let drop_page = |page, _| self.pages.drop_page(mapping, page);
        mapping.table.for_each_present(PageIndex::ALL, drop_page);
        if let Some(pool) = &self.pages.pool {
            pool.forget_range(mapping.copied(), PageIndex::ALL);
        }
        true
    }

    /// Does the work of [`Flusher::balance_dirty`] without blocking. Returns false if another
    /// thread has to do it.
    pub(crate) fn balances_at_once(&self) -> bool {
        match self.pages.dirty.balance() {
            Balance::Continue => true,
            Balance::WakeFlusher if self.has_thread => {
                self.wake();
                true
            }
            Balance::WakeFlusher | Balance::Wait => false,
        }
    }

    /// Wakes the flusher or waits for it, by the dirty limits. Calls `flush` if there is no
    /// flusher.
    pub(crate) fn balance_dirty(&self, flush: impl FnOnce(&Flusher) -> Flushed) {
        match self.pages.dirty.balance() {
            Balance::Continue => {}
            Balance::WakeFlusher | Balance::Wait if !self.has_thread => {
                flush(self);
            }
            Balance::WakeFlusher => self.wake(),
            Balance::Wait => self.pages.dirty.wait_below_hard(|| self.wake()),
        }
    }
}

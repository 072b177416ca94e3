//! Duplicate mappings: pages that occupy both their mapping and their frame for a while.
//!
//! Problem: a fault on a resident page copies the page and frees its frame's memory. The TLB flush
//! on each CPU of the user dominates the fault with many threads. Idea: free the memory of several
//! frames together.
//!
//! Data and invariants: one frame without memory is set aside for each possible duplicate, so that
//! the limit holds. Small caches set none aside.
//!
//! Ignored: pages that are locked when a batch is freed. They wait for the next batch.

use crate::engine::frame_source::FrameSource;
use crate::engine::mapping::Mapping;
use crate::memory::locks::lock;
use pagetide_core::ids::PageIndex;
use pagetide_sys::{ClaimedFrame, Lock, PageHandle, PageRef, UserAccess, current_cpu};
use std::sync::Mutex;
use std::sync::atomic::Ordering::Relaxed;

/// Maximum number of duplicate pages, and the number of frames for one of them.
const NR_MAX: usize = 32;
const FRAMES_FOR_ONE: u32 = 256;
const NR_MIN: usize = 8;

#[derive(Default)]
pub(super) struct Twice(Mutex<State>);

#[derive(Default)]
struct State {
    /// Frames without memory.
    aside: Vec<ClaimedFrame>,
    /// Duplicate pages, at most as many.
    pages: Vec<u64>,
}

impl Twice {
    pub(super) fn begin(&self, source: &FrameSource) {
        let (frames, arena) = (&source.pages.nodes.first().frames, &source.pages.arena);
        let nr = NR_MAX.min((frames.nr_managed() / FRAMES_FOR_ONE) as usize);
        if nr < NR_MIN {
            return;
        }
        let mut aside = frames.take_free(nr as u32);
        aside.iter_mut().for_each(|claimed| arena.empty(claimed));
        source.here.nr_aside.fetch_add(aside.len() as u64, Relaxed);
        let pages = Vec::with_capacity(aside.len());
        *lock(&self.0) = State { aside, pages };
    }

    pub(super) fn end(&self, source: &FrameSource, mapping: &Mapping) {
        let State { aside, pages } = std::mem::take(&mut *lock(&self.0));
        for index in pages {
            let page = mapping.table.page(PageIndex(index)).map(PageRef::lock);
            Lock::empty_behind_users(page.iter());
        }
        let (nodes, arena) = (&source.pages.nodes, &source.pages.arena);
        source.here.nr_aside.fetch_sub(aside.len() as u64, Relaxed);
        let frames: Vec<_> = aside.into_iter().map(|claimed| arena.release(claimed)).collect();
        nodes.free(current_cpu(), frames.into_iter());
    }

    /// Maps an unmapped page, and leaves its frame's memory for now. Returns false, with no effect,
    /// if that is not possible. Never allocates or blocks.
    pub(super) fn map<H: PageHandle>(
        &self,
        mapping: &Mapping,
        page: &mut Lock<H>,
        is_write: bool,
    ) -> bool {
        if page.user_access() != UserAccess::None {
            return false;
        }
        let State { aside, pages } = &mut *lock(&self.0);
        if pages.len() == aside.len() {
            give_back(mapping, pages);
        }
        let is_mapped = pages.len() < aside.len() && page.map_user_beside(is_write);
        if is_mapped {
            pages.push(page.page().index().0);
        }
        is_mapped
    }
}

/// Frees the duplicates that can be locked.
fn give_back(mapping: &Mapping, pages: &mut Vec<u64>) {
    let mut locks: [Option<Lock<PageRef<'_>>>; NR_MAX] = [const { None }; NR_MAX];
    let mut nr = 0;
    pages.retain(|index| {
        let page = mapping.table.page(PageIndex(*index));
        locks[nr] = page.and_then(|page| page.try_lock().ok());
        let is_locked = locks[nr].is_some();
        nr += usize::from(is_locked);
        !is_locked
    });
    Lock::empty_behind_users(locks.iter().flatten());
}

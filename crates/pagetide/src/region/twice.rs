//! Pages that are mapped, and in their frames as well, for a while.
//!
//! Problem: a page that is touched again is copied out of its frame, whose memory is given back
//! then. For that, each CPU that runs the user forgets the address, which takes longer than all
//! else of the fault where threads are many. Idea: some frames' memory is given back together.
//!
//! Data and invariants: as many frames as may have memory for nothing are set aside without any,
//! so that the limit holds. Small memory sets none aside.
//!
//! Ignored: pages that are locked when the others' turn comes; they wait for the next.

use crate::engine::frame_source::FrameSource;
use crate::engine::mapping::Mapping;
use crate::memory::locks::lock;
use pagetide_core::ids::PageIndex;
use pagetide_sys::{ClaimedFrame, Lock, PageHandle, PageRef, UserAccess, current_cpu};
use std::sync::Mutex;
use std::sync::atomic::Ordering::Relaxed;

/// Pages in memory twice, at most, and of how many frames one is set aside for that.
const NR_MAX: usize = 32;
const FRAMES_FOR_ONE: u32 = 256;
/// Fewer are not worth it.
const NR_MIN: usize = 8;

/// A region's.
#[derive(Default)]
pub(super) struct Twice(Mutex<State>);

#[derive(Default)]
struct State {
    /// Frames without memory.
    aside: Vec<ClaimedFrame>,
    /// No more pages than these.
    pages: Vec<u64>,
}

impl Twice {
    /// Sets frames aside.
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

    /// No page is in memory twice any more; gives the frames back.
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

    /// Maps a page that is not, whose memory stays behind for now; `false`, and nothing has
    /// happened, if that will not do. Allocates nothing, and waits for no page.
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

/// Gives back what is in memory twice, of the pages that can be locked, and forgets them.
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

//! Open files.
//!
//! A [`File`] is a cheap clone of one open handle. Handles of one file share its pages. Each has
//! its own access rights, readahead stream and view of write-back errors, as in POSIX.

mod advise;
mod cursor;
mod guard;
mod many;
mod mapped;
mod pin;
mod read;
mod resize;
mod share;
mod sync;
mod write;

pub use advise::Advice;
pub use cursor::FileCursor;
pub use guard::{PageGuard, PageGuardMut};
pub use pin::PinnedRange;
pub(crate) use sync::store_durably;
pub(crate) use write::from_read;

use crate::engine::Engine;
use crate::engine::errors::ReadError;
use crate::engine::held;
use crate::engine::mapping::Mapping;
use crate::engine::pages::Pages;
use crate::engine::prefetch::Wish;
use crate::engine::stats::counters::{Counters, Event};
use crate::memory::locks::lock;
use crate::memory::percpu::PerCpu;
use crate::workers::CacheShared;
use pagetide_core::extents::Extents;
use pagetide_core::folio::Flags;
use pagetide_core::ids::{FrameId, PageIndex};
use pagetide_core::readahead::{Readahead, ReadaheadRun};
use pagetide_core::units::PAGE_SHIFT;
use pagetide_sys::{Lock, PageRef, PageTable};
use std::fmt;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

/// No read on this CPU yet.
const NO_PAGE: u64 = u64::MAX;

/// Flags of pages with recorded use.
const NOTED: Flags = Flags::READAHEAD.with(Flags::PREFETCHED).with(Flags::SAMPLED);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Access {
    pub(crate) read: bool,
    pub(crate) write: bool,
}

/// An open file. Clones are the same handle. [`File::reopen`] opens another.
///
/// # Concurrency
/// All calls are thread-safe. A call is atomic within one page, not across pages. It waits for
/// another thread's [`PageGuardMut`] of its pages, for a [`PageGuard`] if it writes them, and for
/// any guard of its pages that were truncated or changed by another program. It waits for no guard
/// of other pages. Instead of waiting for a guard of its own thread, it fails with
/// `WouldDeadlock`.
///
/// # Other programs
/// Close-to-open consistency: the next [`PageCache::open`](crate::PageCache::open) here, and every
/// handle from then on, sees all writes of programs that have closed the file. Other programs see
/// writes made here after a [`File::flush`] or a sync. Only bytes written here are stored, so
/// programs that write different bytes lose none. If two programs write the same byte, the last
/// store wins. The file takes the longer of both lengths. Stores through another program's shared
/// mapping are seen after the kernel's write-back. A page changed through a [`PageGuardMut`] is
/// written from the first to the last changed byte.
///
/// # Deleted files
/// The pages of a file without a name leave memory when its last handle is dropped. Dirty pages are
/// dropped unwritten if no other open file description of the file exists, in any process, and are
/// written back otherwise. A lease (fcntl(2), `F_SETLEASE`) tells. Without leases, as on some
/// network file systems and for files of other users, dirty pages are written back.
#[derive(Clone)]
pub struct File {
    handle: Arc<Handle>,
}

/// The state of one open handle. A hit reads one cache line of it.
#[repr(C, align(64))]
struct Handle {
    mapping: Arc<Mapping>,
    /// The mapping's page table, one step nearer for hits.
    table: Arc<PageTable>,
    /// The counters of the group the mapping was in when it was opened, or of all mappings without
    /// a group.
    counters: Arc<Counters>,
    /// The engine's pages, one step nearer for hits.
    pages: Arc<Pages>,
    access: Access,
    /// True if reads are allowed and not recorded.
    reads_plainly: bool,
    no_reuse: AtomicBool,
    /// Last page read on each CPU: a read that continues there counts once.
    last_page: PerCpu<AtomicU64>,
    readahead: Mutex<Readahead>,
    /// Page of the last miss, for the prefetcher.
    reached: Arc<AtomicU64>,
    /// The streams of faults, if pages are put into the memory file, for other processes to map.
    extents: Option<Mutex<Extents>>,
    shared: Arc<CacheShared>,
    errors_seen: AtomicU64,
    /// The caller's descriptor, for its locks.
    kept: Option<Arc<std::fs::File>>,
}

impl File {
    /// Takes over a handle that the caller has counted.
    pub(crate) fn new(
        shared: Arc<CacheShared>,
        mapping: Arc<Mapping>,
        access: Access,
        kept: Option<Arc<std::fs::File>>,
    ) -> File {
        let nr_cpus = shared.limits.pcp.nr_cpus as usize;
        let readahead_pages = shared.devices.window_of(&mapping, &shared.limits);
        let errors_seen = AtomicU64::new(mapping.reported_errors());
        let counters = shared.engine.source.counters_of(&mapping);
        let reads_plainly = access.read && shared.engine.pages.recorder.is_none();
        File {
            handle: Arc::new(Handle {
                pages: Arc::clone(&shared.engine.pages),
                shared,
                table: Arc::clone(&mapping.table),
                mapping,
                access,
                reads_plainly,
                last_page: PerCpu::new(nr_cpus, || AtomicU64::new(NO_PAGE)),
                readahead: Mutex::new(Readahead::new(readahead_pages)),
                reached: Arc::default(),
                no_reuse: AtomicBool::new(false),
                extents: None,
                counters,
                errors_seen,
                kept,
            }),
        }
    }

    /// Opens another handle with the same access, but its own readahead, advice and view of
    /// write-back errors. The only way to a second handle of a custom store.
    pub fn reopen(&self) -> File {
        let handle = &*self.handle;
        handle.mapping.add_handle();
        let kept = handle.kept.clone();
        File::new(Arc::clone(&handle.shared), Arc::clone(&handle.mapping), handle.access, kept)
    }

    /// Returns the length in bytes, including unwritten data. Free.
    pub fn len(&self) -> u64 {
        self.handle.mapping.len()
    }

    /// Returns true if the file has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of resident pages of the byte range. O(pages of the range that were ever
    /// resident).
    pub fn resident_pages(&self, offset: u64, len: u64) -> u64 {
        let range = page_range(offset, len);
        let mut nr = 0;
        self.handle
            .mapping
            .table
            .for_each_present(range, |_, seen| nr += u64::from(seen.is_resident()));
        nr
    }
}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "File({}, {} bytes)", self.handle.mapping.id, self.len())
    }
}

impl Handle {
    fn engine(&self) -> &Engine {
        &self.shared.engine
    }

    /// Drops retiring pages. Call before using pages without their locks.
    #[inline]
    fn settle(&self, pages: RangeInclusive<u64>) -> Result<(), ReadError> {
        if self.mapping.leaving.is_any() {
            let settled = self.engine().flusher.settle(&self.mapping, pages);
            settled.map_err(|in_use| self.in_use(in_use.index))?;
        }
        Ok(())
    }

    /// Fails if a wait for the page might never end.
    fn check_not_own(&self, index: u64) -> Result<(), ReadError> {
        if held::has(&self.mapping, index) || self.mapping.has_owned_pin(index) {
            return Err(self.in_use(index));
        }
        Ok(())
    }

    fn in_use(&self, index: u64) -> ReadError {
        match held::has(&self.mapping, index) {
            true => ReadError::WouldDeadlock { index },
            false => ReadError::Pinned { index },
        }
    }

    /// Locks a page. Waits for other threads that have it locked or pinned.
    fn lock_page<'m>(&self, page: PageRef<'m>) -> Result<Lock<PageRef<'m>>, ReadError> {
        let mut lock = match page.try_lock() {
            Ok(lock) => lock,
            Err(_) => {
                self.check_not_own(page.index().0)?;
                page.lock()
            }
        };
        self.engine().flusher.settle_locked(&self.mapping, &mut lock);
        Ok(lock)
    }

    fn wish(&self, run: ReadaheadRun, reached: &Arc<AtomicU64>) -> Wish {
        let mut wish = Wish::new(&self.mapping, run, reached);
        wish.is_for_maps = self.extents.is_some();
        wish
    }

    /// Handles hits of pages with [`NOTED`] flags, out of line, so that other hits pay for one
    /// test.
    #[cold]
    fn note_flags(&self, index: u64, frame: FrameId, flags: Flags) {
        if flags.any(Flags::SAMPLED) {
            self.pages.reuse.hit(self.mapping.key(PageIndex(index)));
        }
        if flags.any(Flags::READAHEAD.with(Flags::PREFETCHED)) {
            self.note_readahead(index, frame);
        }
    }

    fn note_readahead(&self, index: u64, frame: FrameId) {
        let engine = self.engine();
        let before = engine.pages.folios[frame].clear(Flags::READAHEAD.with(Flags::PREFETCHED));
        if !before.any(Flags::READAHEAD) {
            return;
        }
        let wasted = self.mapping.wasted.load(Relaxed);
        let room = engine.source.group_room(&self.mapping);
        let run = match &self.extents {
            Some(extents) => lock(extents).on_marker(index, room),
            None => lock(&self.readahead).on_marker(index, wasted, room),
        };
        if let Some(run) = run
            && run.start < self.mapping.nr_pages()
        {
            self.mapping.note_marker(run.marker);
            engine.prefetcher.prefetch(self.wish(run, &self.reached));
        }
    }

    fn count_hit(&self) {
        self.counters.count(Event::Hit);
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let kept = self.kept.take().and_then(Arc::into_inner);
        if self.mapping.drop_handle() {
            self.shared.engine.last_handle_dropped(&self.mapping, kept);
        } else if kept.is_some() {
            // Skips locked pages: this thread may have a guard of another handle.
            self.shared.engine.flusher.flush_unlocked(&self.mapping);
        }
    }
}

fn page_range(offset: u64, len: u64) -> std::ops::Range<PageIndex> {
    let end = offset.saturating_add(len).div_ceil(1 << PAGE_SHIFT);
    PageIndex(offset >> PAGE_SHIFT)..PageIndex(end)
}

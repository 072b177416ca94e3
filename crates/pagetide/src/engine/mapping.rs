//! A mapping: one file's pages, shared by all open handles of the file.
//!
//! ```text
//!   handle --+
//!   handle --+--> Mapping --> page table --> page words --> frames
//!   handle --+        |-----> backing (the open store, while it is needed)
//!                     |-----> dirty index, write-back errors
//! ```
//!
//! Readers see `len`. The store has `stored_len` bytes, fewer while the file has grown in memory
//! only. A mapping outlives its handles while pages are resident. The store is closed once the
//! mapping has no handle and no dirty page.

use crate::engine::agreement::Agreement;
use crate::engine::dirty::DirtyIndex;
use crate::engine::longest::Longest;
use crate::engine::owned_pins::OwnedPins;
use crate::engine::swap::SwapMap;
use crate::engine::write_errors::WriteErrors;
use crate::engine::{leaving::Leaving, locked::LockedPages};
use crate::memory::compressed::Copied;
use crate::memory::locks::lock;
use crate::memory::store::{Backing, Identity, hash};
use crossbeam_utils::CachePadded;
use pagetide_core::folio::Flags;
use pagetide_core::ids::{GroupId, MappingId, PageIndex};
use pagetide_core::sizing::PageKey;
use pagetide_core::units::{Millis, PAGE_BYTES, PAGE_SHIFT};
use pagetide_sys::shared::SharedFile;
use pagetide_sys::{FaultDelivery, Fingerprint, FrameArena, Look, PageTable, RegionMemory};
use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock};

pub(crate) struct Mapping {
    pub(crate) id: MappingId,
    pub(crate) table: Arc<PageTable>,
    public: Public,
    stored_len: AtomicU64,
    /// Length of a region over a file, in bytes.
    region_len: Option<u64>,
    pub(crate) longest: Longest,
    pub(crate) identity: Option<Identity>,
    /// Identifies the file in a sample of pages, equal at each open.
    pub(crate) name_hash: u64,
    backing: RwLock<Option<Arc<Backing>>>,
    /// The file's last known state.
    pub(crate) agreement: Agreement,
    /// Pages to drop before their next use.
    pub(crate) leaving: Leaving,
    pub(crate) locked: LockedPages,
    pub(crate) owned_pins: OwnedPins,
    /// Held shared by writers, and exclusively by `set_len`, to keep writes and truncations apart.
    /// A holder never waits for a page that may be guarded.
    pub(crate) resize: RwLock<()>,
    pub(crate) dirty: DirtyIndex,
    /// Held during write-back and its I/O, so that no write is in flight. A holder never waits for
    /// a page that may be guarded.
    pub(crate) flush: Mutex<()>,
    /// True if some dirty pages could not be written.
    is_failing: AtomicBool,
    errors: WriteErrors,
    /// The time of creation, by the coarse clock.
    pub(crate) created: Millis,
    /// Rises when contents are dropped without visiting each page: see `compressed`.
    pub(crate) epoch: AtomicU64,
    /// Number of prefetched pages evicted unread, for the readahead of all handles.
    pub(crate) wasted: AtomicU64,
    /// Number of pages read from the store, on a cache line that no hit reads.
    pub(crate) nr_read: CachePadded<AtomicU64>,
    /// The path at close.
    closed_path: Mutex<Option<PathBuf>>,
    /// The pages in the store of an anonymous region.
    pub(crate) swap: Option<SwapMap>,
    /// Armed pages of a region that were mapped nevertheless: see `region`.
    pub(crate) rearm: Mutex<Vec<PageIndex>>,
    /// The group charged for pages of this mapping.
    group: AtomicU16,
    open: Mutex<OpenState>,
}

/// The fields that other processes can read in a shared cache.
enum Public {
    Own { len: AtomicU64, writes: AtomicU64 },
    Shared(SharedFile),
}

impl Public {
    #[inline]
    fn len(&self) -> &AtomicU64 {
        match self {
            Public::Own { len, .. } => len,
            Public::Shared(file) => file.len(),
        }
    }

    /// Odd once the cache has changed the file: see `pagetide_sys::shared`.
    #[inline]
    fn writes(&self) -> &AtomicU64 {
        match self {
            Public::Own { writes, .. } => writes,
            Public::Shared(file) => file.writes(),
        }
    }
}

#[derive(Default)]
struct OpenState {
    nr_handles: usize,
}

impl Mapping {
    pub(crate) fn new(
        id: MappingId,
        arena: &Arc<FrameArena>,
        backing: Backing,
        look: Option<&Look>,
        len: u64,
        created: Millis,
    ) -> Mapping {
        let shared = SharedFile::new(arena, len);
        let tag = shared.as_ref().map_or(0, SharedFile::tag);
        let table = PageTable::with_tag(Arc::clone(arena), tag);
        let agreement = Agreement::new(look);
        let mapping = Mapping::with_table(id, table, backing, len, created);
        let public = shared.map_or(mapping.public, Public::Shared);
        Mapping { public, agreement, ..mapping }
    }

    pub(crate) fn of_region(
        id: MappingId,
        table: PageTable,
        backing: Backing,
        len: u64,
        created: Millis,
        swap: Option<SwapMap>,
    ) -> Mapping {
        let dirty = DirtyIndex::of_region(len.div_ceil(PAGE_BYTES as u64));
        let region_len = (swap.is_none() && backing.file().is_some()).then_some(len);
        let mapping = Mapping::with_table(id, table, backing, len, created);
        Mapping { swap, dirty, region_len, ..mapping }
    }

    fn with_table(
        id: MappingId,
        table: PageTable,
        backing: Backing,
        len: u64,
        created: Millis,
    ) -> Mapping {
        let identity = backing.identity().ok();
        Mapping {
            id,
            table: Arc::new(table),
            public: Public::Own { len: AtomicU64::new(len), writes: AtomicU64::new(0) },
            stored_len: AtomicU64::new(len),
            region_len: None,
            longest: Longest::default(),
            name_hash: hash(&(identity, identity.is_none().then_some(id.0))),
            identity,
            backing: RwLock::new(Some(Arc::new(backing))),
            agreement: Agreement::new(None),
            leaving: Leaving::default(),
            locked: LockedPages::default(),
            owned_pins: OwnedPins::default(),
            resize: RwLock::new(()),
            dirty: DirtyIndex::of_file(),
            flush: Mutex::new(()),
            is_failing: AtomicBool::new(false),
            errors: WriteErrors::default(),
            created,
            epoch: AtomicU64::new(0),
            wasted: AtomicU64::new(0),
            nr_read: CachePadded::default(),
            closed_path: Mutex::default(),
            swap: None,
            rearm: Mutex::default(),
            group: AtomicU16::new(GroupId::ROOT.0),
            open: Mutex::default(),
        }
    }

    pub(crate) fn backing_flag(&self) -> Flags {
        let swapped = if self.swap.is_some() { Flags::SWAP_BACKED } else { Flags::NONE };
        // An access record has no event for checking the accessed bit before the dirty bit.
        let is_unrecorded = |region: &Arc<RegionMemory>| region.delivery() == FaultDelivery::Signal;
        match self.table.region().is_some_and(is_unrecorded) {
            true => swapped.with(Flags::MAPPED),
            false => swapped,
        }
    }

    pub(crate) fn is_region(&self) -> bool {
        self.table.region().is_some()
    }

    /// Returns the length for readers, in bytes.
    #[inline]
    pub(crate) fn len(&self) -> u64 {
        self.public.len().load(Ordering::Acquire)
    }

    /// Raises the length to `end`, after the bytes were written to the pages.
    pub(crate) fn grow_to(&self, end: u64) {
        let len = self.public.len();
        if len.load(Ordering::Relaxed) < end {
            len.fetch_max(end, Ordering::AcqRel);
        }
    }

    pub(crate) fn set_len(&self, len: u64) {
        self.public.len().store(len, Ordering::Release);
        self.stored_len.store(len, Ordering::Relaxed);
    }

    /// Returns the file's tag for other processes, if visible.
    pub(crate) fn tag(&self) -> Option<u32> {
        match &self.public {
            Public::Own { .. } => None,
            Public::Shared(file) => Some(file.tag()),
        }
    }

    /// Sets the marker page. Other processes must report reads of this page at once.
    pub(crate) fn note_marker(&self, marker: Option<u64>) {
        if let (Public::Shared(file), Some(marker)) = (&self.public, marker) {
            file.marker().store(marker, Ordering::Relaxed);
        }
    }

    /// Shows all pages to other processes, or hides them.
    pub(crate) fn set_visible(&self, visible: bool) {
        match &self.public {
            Public::Shared(file) if visible => file.show(),
            Public::Shared(file) => file.hide(),
            Public::Own { .. } => {}
        }
    }

    /// Shows `pages` only to one viewer's views. Viewer 0 means all views.
    pub(crate) fn show_only_to(&self, viewer: u32, pages: &Range<u64>) {
        if let Public::Shared(file) = &self.public {
            file.show_only_to(viewer, pages);
        }
    }

    /// Records an imminent change, so that data read past the cache earlier is refused. Call
    /// before taking the page's lock, or with all writers excluded.
    #[inline]
    pub(crate) fn note_writer(&self) {
        let writes = self.public.writes();
        if writes.load(Ordering::Relaxed) & 1 == 0 {
            writes.fetch_or(1, Ordering::SeqCst);
        }
    }

    /// Returns the count of changes, an even number if the store is current.
    pub(crate) fn writes(&self) -> u64 {
        self.public.writes().load(Ordering::SeqCst)
    }

    /// Makes the count of changes an even number at a reopen, when the store is current and nobody
    /// writes.
    pub(crate) fn forget_writes(&self) {
        let even = |writes: u64| Some(writes.next_multiple_of(2));
        let _ = self.public.writes().fetch_update(Ordering::SeqCst, Ordering::SeqCst, even);
    }

    /// Records a change of the file by another program.
    pub(crate) fn note_foreign_writer(&self) {
        self.public.writes().fetch_add(2, Ordering::SeqCst);
    }

    pub(crate) fn stored_len(&self) -> u64 {
        self.stored_len.load(Ordering::Relaxed)
    }

    /// Records a write to the store up to `end`.
    pub(crate) fn note_stored(&self, end: u64) {
        self.stored_len.fetch_max(end, Ordering::Relaxed);
    }

    /// Accepts a length set by another program, but keeps dirty bytes beyond in the file. Only
    /// raises the length while there are writers.
    pub(crate) fn believe_len(&self, len: u64) {
        if let Ok(_no_writers) = self.resize.try_write() {
            self.stored_len.store(len, Ordering::Relaxed);
            self.public.len().store(len.max(self.dirty.end()), Ordering::Release);
        } else if let Ok(_no_cut) = self.resize.try_read() {
            self.note_stored(len);
            self.grow_to(len);
        }
    }

    /// Fails if the file is shorter than the region over it. Sets the length to the file's, so that
    /// write-back does not let the file grow back. Succeeds for all other mappings.
    pub(crate) fn check_not_shrunk(&self) -> io::Result<()> {
        let Some(region_len) = self.region_len else { return Ok(()) };
        let len = self.backing()?.read_len()?.min(region_len);
        self.public.len().store(len, Ordering::Release);
        if len == region_len {
            return Ok(());
        }
        let message =
            format!("the file has shrunk to {len} bytes, under a region of {region_len} bytes");
        Err(io::Error::new(io::ErrorKind::UnexpectedEof, message))
    }

    /// Checks a read of a region's file that ended at `end`. Fails if the last page has no bytes
    /// any more: see [`Mapping::check_not_shrunk`].
    pub(crate) fn check_end(&self, end: u64, offset: u64, nr_pages: usize) -> io::Result<()> {
        let last = offset + (nr_pages.saturating_sub(1) * PAGE_BYTES) as u64;
        match self.region_len {
            Some(region_len) if end <= last && end < region_len => self.check_not_shrunk(),
            _ => Ok(()),
        }
    }

    /// Checks for a truncation by another program after a read that ended early at `end`. Skips the
    /// check during writes and write-back, which look the same. Returns a new length for readers.
    /// Keeps the old length while there are dirty pages.
    pub(crate) fn believe_shrunk(&self, end: u64) -> Option<u64> {
        if self.region_len.is_some() {
            return None;
        }
        let _no_writers = self.resize.try_write().ok()?;
        let _no_write_back = self.flush.try_lock().ok()?;
        let len = self.backing().and_then(|backing| backing.read_len()).unwrap_or(end);
        let known = self.stored_len.swap(len, Ordering::Relaxed);
        if known <= len || !self.dirty.is_empty() {
            return None;
        }
        let shrink = |seen| (seen <= known && seen > len).then_some(len);
        self.public.len().fetch_update(Ordering::AcqRel, Ordering::Acquire, shrink).ok()?;
        Some(len)
    }

    #[inline]
    pub(crate) fn key(&self, index: PageIndex) -> PageKey {
        PageKey::of(self.name_hash, index)
    }

    pub(crate) fn copied(&self) -> Copied<'_> {
        Copied { mapping: self.id, epoch: &self.epoch }
    }

    /// Returns the number of pages, including a partial last page.
    pub(crate) fn nr_pages(&self) -> u64 {
        self.len().div_ceil(PAGE_BYTES as u64)
    }

    /// Returns the size of page `index` in the file: 4096, less in the last page, 0 past the end.
    pub(crate) fn bytes_in_page(&self, index: PageIndex) -> usize {
        let start = index.0 << PAGE_SHIFT;
        self.len().saturating_sub(start).min(PAGE_BYTES as u64) as usize
    }

    /// Returns the open store.
    ///
    /// # Errors
    /// Fails if the store was closed with the last handle, which is a bug.
    pub(crate) fn backing(&self) -> io::Result<Arc<Backing>> {
        let backing = self.backing.read().expect("no holder panics");
        backing.clone().ok_or_else(|| io::Error::other("the file is closed"))
    }

    /// Returns true if a page is pinned for an unknown time.
    pub(crate) fn has_owned_pin(&self, index: u64) -> bool {
        let is_pinned = || self.table.page(PageIndex(index)).is_some_and(|it| it.load().pins() > 0);
        self.owned_pins.holds(index) && is_pinned()
    }

    /// Returns the fingerprint, now or at close, and the path while open. Returns `None` for
    /// regions and stores that are not files.
    pub(crate) fn fingerprint(&self) -> Option<(Fingerprint, Option<PathBuf>)> {
        self.identity.filter(|_| !self.is_region())?;
        let backing = self.backing().ok();
        let file = backing.as_ref().and_then(|backing| backing.file());
        let now = file.and_then(|file| file.look().ok()).map(|look| look.fingerprint);
        let fingerprint = now.or_else(|| self.agreement.lock().last())?;
        Some((fingerprint, file.and_then(|file| file.read_path())))
    }

    /// Replaces the store after a reopen, which may add write access.
    pub(crate) fn set_backing(&self, backing: Option<Backing>) {
        *self.backing.write().expect("no holder panics") = backing.map(Arc::new);
    }

    /// Returns the path, now or at close. Returns `None` for a file without a name.
    pub(crate) fn path(&self) -> Option<PathBuf> {
        let backing = self.backing().ok();
        backing.map_or_else(|| lock(&self.closed_path).clone(), |it| it.file()?.read_path())
    }

    pub(crate) fn is_writable(&self) -> bool {
        self.backing.read().expect("no holder panics").as_ref().is_some_and(|one| one.is_writable())
    }

    pub(crate) fn is_open(&self) -> bool {
        self.backing.read().expect("no holder panics").is_some()
    }

    pub(crate) fn record_error(&self, error: &io::Error) {
        self.errors.record(error);
    }

    /// Records the number of pages that a write-back pass failed to write.
    pub(crate) fn note_pass(&self, nr_failed: u64) {
        let is_failing = nr_failed > 0 || self.is_failing() && !self.dirty.is_empty();
        self.is_failing.store(is_failing, Ordering::Relaxed);
    }

    /// Returns true if some dirty bytes may have failed to be written.
    pub(crate) fn is_failing(&self) -> bool {
        self.is_failing.load(Ordering::Relaxed)
    }

    /// Returns the number of the last reported failure. A new handle skips reported failures.
    pub(crate) fn reported_errors(&self) -> u64 {
        self.errors.reported()
    }

    pub(crate) fn error_count(&self) -> u64 {
        self.errors.count()
    }

    pub(crate) fn last_error(&self) -> Option<io::Error> {
        self.errors.last()
    }

    /// Returns the last failure if newer than `seen`, and marks all failures as seen.
    pub(crate) fn take_error(&self, seen: &AtomicU64) -> Option<io::Error> {
        self.errors.take(seen)
    }

    /// Adds a handle to an open mapping, or to a mapping without a group.
    pub(crate) fn add_handle(&self) {
        self.add_handle_in(GroupId::ROOT);
    }

    /// Adds a handle. The first handle sets the mapping's group, and returns true.
    pub(crate) fn add_handle_in(&self, group: GroupId) -> bool {
        let mut open = lock(&self.open);
        open.nr_handles += 1;
        let is_first = open.nr_handles == 1;
        if is_first {
            self.group.store(group.0, Ordering::SeqCst);
        }
        is_first
    }

    /// Returns the group charged for this mapping's pages, or the root without groups.
    pub(crate) fn group(&self) -> GroupId {
        GroupId(self.group.load(Ordering::SeqCst))
    }

    /// Moves the mapping from a removed group to the group's parent.
    pub(crate) fn leave_group(&self, group: GroupId, parent: GroupId) {
        let order = Ordering::SeqCst;
        let _ = self.group.compare_exchange(group.0, parent.0, order, order);
    }

    /// Removes a handle. Returns true if it was the last.
    pub(crate) fn drop_handle(&self) -> bool {
        let mut open = lock(&self.open);
        open.nr_handles -= 1;
        open.nr_handles == 0
    }

    pub(crate) fn has_handles(&self) -> bool {
        lock(&self.open).nr_handles > 0
    }

    /// Closes the store if there is no handle and no dirty page. First waits for writes in flight,
    /// because a failed write leaves pages dirty. Returns true if the closed file has no name.
    pub(crate) fn close_if_idle(&self) -> bool {
        let _no_write_back = lock(&self.flush);
        let open = lock(&self.open);
        let is_idle = open.nr_handles == 0 && self.dirty.is_empty();
        let is_unlinked = is_idle && self.is_unlinked();
        if is_idle {
            *lock(&self.closed_path) = self.path();
            self.set_backing(None);
        }
        is_unlinked
    }

    /// Returns true if the open file has no name any more. False for a held file.
    pub(crate) fn is_unlinked(&self) -> bool {
        let backing = self.backing().ok();
        let file = backing.as_ref().and_then(|backing| backing.file());
        file.is_some_and(|file| file.is_unlinked())
    }

    /// Closes the store if it is a file that no program has open otherwise, this one included. The
    /// caller holds `flush`. Returns true if the file was closed.
    pub(crate) fn close_if_sole(&self) -> bool {
        let open = lock(&self.open);
        let mut place = self.backing.write().expect("no holder panics");
        if open.nr_handles > 0 {
            return false;
        }
        let Some(backing) = place.take() else { return false };
        let left = Arc::try_unwrap(backing).map(Backing::close_if_sole);
        match left {
            Ok(None) => {}
            Ok(Some(backing)) => *place = Some(Arc::new(backing)),
            Err(backing) => *place = Some(backing),
        }
        place.is_none()
    }
}

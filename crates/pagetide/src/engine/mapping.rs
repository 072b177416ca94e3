//! A mapping: one file's pages, shared by all its open handles.
//!
//! ```text
//!   handle --+
//!   handle --+--> Mapping --> page table --> page words --> frames
//!   handle --+        |-----> backing (the open store, while it is needed)
//!                     |-----> dirty index, write-back errors
//! ```
//!
//! `len` is the length readers see; `stored_len` is how long the store is known to be. They differ
//! while a file has grown in memory only. A mapping outlives its handles for as long as its pages
//! are worth keeping; its store is closed once it has no handle and nothing is dirty.

use crate::engine::agreement::Agreement;
use crate::engine::dirty::DirtyIndex;
use crate::engine::longest::Longest;
use crate::engine::swap::SwapMap;
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

/// One file's pages.
pub(crate) struct Mapping {
    pub(crate) id: MappingId,
    pub(crate) table: Arc<PageTable>,
    public: Public,
    stored_len: AtomicU64,
    pub(super) longest: Longest,
    pub(crate) identity: Option<Identity>,
    /// Tells the file from others in a sample of pages, by its identity: the same whenever it is
    /// opened again.
    pub(crate) name_hash: u64,
    backing: RwLock<Option<Arc<Backing>>>,
    /// What the file was when we last looked.
    pub(crate) agreement: Agreement,
    /// Pages to be dropped before they are used again.
    pub(crate) leaving: Leaving,
    pub(crate) locked: LockedPages,
    /// Writers share it, `set_len` has it alone: a write never meets a truncation half-way. Under
    /// it, no page is waited for that a guard may have.
    pub(crate) resize: RwLock<()>,
    pub(crate) dirty: DirtyIndex,
    /// Held by a pass of write-back, I/O included: after taking it, no write of this mapping is in
    /// flight. Under it, no page is waited for that a guard may have.
    pub(crate) flush: Mutex<()>,
    /// Some of what is dirty could not be written.
    is_failing: AtomicBool,
    errors: Mutex<WriteErrors>,
    /// When it was made, by the coarse clock.
    pub(crate) created: Millis,
    /// Rises whenever contents are dropped without looking at each page: see `compressed`.
    pub(crate) epoch: AtomicU64,
    /// Prefetched pages evicted unread, for the readahead of all handles.
    pub(crate) wasted: AtomicU64,
    /// Pages that were read from the store. Hits read nothing beside it.
    pub(crate) nr_read: CachePadded<AtomicU64>,
    /// What the file was called when its store was closed.
    closed_path: Mutex<Option<PathBuf>>,
    /// What of it the store has, where the store only lends room: an anonymous region's.
    pub(crate) swap: Option<SwapMap>,
    /// Pages of a region that are armed and mapped all the same: see `region`.
    pub(crate) rearm: Mutex<Vec<PageIndex>>,
    /// The group that pays for the pages it brings in.
    group: AtomicU16,
    open: Mutex<OpenState>,
}

/// What of a mapping other processes may look at, where the cache is shared.
enum Public {
    Own { len: AtomicU64, writes: AtomicU64 },
    Shared(SharedFile),
}

impl Public {
    /// The length readers see.
    #[inline]
    fn len(&self) -> &AtomicU64 {
        match self {
            Public::Own { len, .. } => len,
            Public::Shared(file) => file.len(),
        }
    }

    /// Odd once the file was changed through the cache: see `pagetide_sys::shared`.
    #[inline]
    fn writes(&self) -> &AtomicU64 {
        match self {
            Public::Own { writes, .. } => writes,
            Public::Shared(file) => file.writes(),
        }
    }
}

/// Write-back failures, numbered, so that each handle can tell which it has reported.
#[derive(Default)]
struct WriteErrors {
    count: u64,
    /// The last of those that some handle has reported.
    reported: u64,
    last: Option<StoredError>,
}

/// An I/O error that can be reported more than once.
#[derive(Clone, Copy)]
enum StoredError {
    Os(i32),
    Kind(io::ErrorKind),
}

impl From<&io::Error> for StoredError {
    fn from(error: &io::Error) -> StoredError {
        match error.raw_os_error() {
            Some(code) => StoredError::Os(code),
            None => StoredError::Kind(error.kind()),
        }
    }
}

impl From<StoredError> for io::Error {
    fn from(error: StoredError) -> io::Error {
        match error {
            StoredError::Os(code) => io::Error::from_raw_os_error(code),
            StoredError::Kind(kind) => kind.into(),
        }
    }
}

/// The handles there are.
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

    /// The pages of a region: `table` is over it.
    pub(crate) fn of_region(
        id: MappingId,
        table: PageTable,
        backing: Backing,
        len: u64,
        created: Millis,
        swap: Option<SwapMap>,
    ) -> Mapping {
        let dirty = DirtyIndex::of_region(len.div_ceil(PAGE_BYTES as u64));
        Mapping { swap, dirty, ..Mapping::with_table(id, table, backing, len, created) }
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
            longest: Longest::default(),
            name_hash: hash(&(identity, identity.is_none().then_some(id.0))),
            identity,
            backing: RwLock::new(Some(Arc::new(backing))),
            agreement: Agreement::new(None),
            leaving: Leaving::default(),
            locked: LockedPages::default(),
            resize: RwLock::new(()),
            dirty: DirtyIndex::of_file(),
            flush: Mutex::new(()),
            is_failing: AtomicBool::new(false),
            errors: Mutex::default(),
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

    /// What its pages' folios say of where they are kept.
    pub(crate) fn backing_flag(&self) -> Flags {
        let swapped = if self.swap.is_some() { Flags::SWAP_BACKED } else { Flags::NONE };
        // A record has no place for what is asked of these first.
        let is_unrecorded = |region: &Arc<RegionMemory>| region.delivery() == FaultDelivery::Signal;
        match self.table.region().is_some_and(is_unrecorded) {
            true => swapped.with(Flags::MAPPED),
            false => swapped,
        }
    }

    /// Whether its pages are a region's.
    pub(crate) fn is_region(&self) -> bool {
        self.table.region().is_some()
    }

    /// The length readers see, bytes.
    #[inline]
    pub(crate) fn len(&self) -> u64 {
        self.public.len().load(Ordering::Acquire)
    }

    /// Makes the file at least `end` long in memory; the caller has put the bytes there.
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

    /// The tag that other processes know the file by, if they may look at it.
    pub(crate) fn tag(&self) -> Option<u32> {
        match &self.public {
            Public::Own { .. } => None,
            Public::Shared(file) => Some(file.tag()),
        }
    }

    /// Other processes are to tell at once when one of them reads this page.
    pub(crate) fn note_marker(&self, marker: Option<u64>) {
        if let (Public::Shared(file), Some(marker)) = (&self.public, marker) {
            file.marker().store(marker, Ordering::Relaxed);
        }
    }

    /// Other processes find its pages, or none of them.
    pub(crate) fn set_visible(&self, visible: bool) {
        match &self.public {
            Public::Shared(file) if visible => file.show(),
            Public::Shared(file) => file.hide(),
            Public::Own { .. } => {}
        }
    }

    /// Only views of this viewer find these pages; 0 is for all.
    pub(crate) fn show_only_to(&self, viewer: u32, pages: &Range<u64>) {
        if let Public::Shared(file) = &self.public {
            file.show_only_to(viewer, pages);
        }
    }

    /// The contents are about to change: what was read past the cache before is not to be admitted.
    /// Called before the page's lock is taken, or with all writers kept out.
    #[inline]
    pub(crate) fn note_writer(&self) {
        let writes = self.public.writes();
        if writes.load(Ordering::Relaxed) & 1 == 0 {
            writes.fetch_or(1, Ordering::SeqCst);
        }
    }

    /// The count of changes; even if the store has what readers are to see.
    pub(crate) fn writes(&self) -> u64 {
        self.public.writes().load(Ordering::SeqCst)
    }

    /// The store has all there is, and nothing can write: it was closed, and is opened again.
    pub(crate) fn forget_writes(&self) {
        let even = |writes: u64| Some(writes.next_multiple_of(2));
        let _ = self.public.writes().fetch_update(Ordering::SeqCst, Ordering::SeqCst, even);
    }

    /// Another program has changed the file.
    pub(crate) fn note_foreign_writer(&self) {
        self.public.writes().fetch_add(2, Ordering::SeqCst);
    }

    /// How long the store is known to be, bytes.
    pub(crate) fn stored_len(&self) -> u64 {
        self.stored_len.load(Ordering::Relaxed)
    }

    /// A write to the store ended at `end`.
    pub(crate) fn note_stored(&self, end: u64) {
        self.stored_len.fetch_max(end, Ordering::Relaxed);
    }

    /// Others have made the file this long. What was written here and is not stored yet is of the
    /// file all the same. While writers are under way, it only grows.
    pub(crate) fn believe_len(&self, len: u64) {
        if let Ok(_no_writers) = self.resize.try_write() {
            self.stored_len.store(len, Ordering::Relaxed);
            self.public.len().store(len.max(self.dirty.end()), Ordering::Release);
        } else if let Ok(_no_cut) = self.resize.try_read() {
            self.note_stored(len);
            self.grow_to(len);
        }
    }

    /// A read ended at `end`, before where the store was known to: perhaps the file shrank under
    /// us. Looks, and believes it; not while we change its length ourselves, which looks the same.
    /// Returns the new length if the file's end has moved for readers: not where something of ours
    /// is still to be written.
    pub(crate) fn believe_shrunk(&self, end: u64) -> Option<u64> {
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

    /// What a sample of pages knows a page by.
    #[inline]
    pub(crate) fn key(&self, index: PageIndex) -> PageKey {
        PageKey::of(self.name_hash, index)
    }

    /// What the compressed tier knows the mapping by.
    pub(crate) fn copied(&self) -> Copied<'_> {
        Copied { mapping: self.id, epoch: &self.epoch }
    }

    /// Pages the file has, the last one perhaps partial.
    pub(crate) fn nr_pages(&self) -> u64 {
        self.len().div_ceil(PAGE_BYTES as u64)
    }

    /// Bytes of the file in page `index`: 4096, fewer in the last, none past the end.
    pub(crate) fn bytes_in_page(&self, index: PageIndex) -> usize {
        let start = index.0 << PAGE_SHIFT;
        self.len().saturating_sub(start).min(PAGE_BYTES as u64) as usize
    }

    /// The open store.
    ///
    /// # Errors
    /// The store was closed with its last handle: a bug, reported as an error all the same.
    pub(crate) fn backing(&self) -> io::Result<Arc<Backing>> {
        let backing = self.backing.read().expect("no holder panics");
        backing.clone().ok_or_else(|| io::Error::other("the file is closed"))
    }

    /// How the file looks, now or when it was closed, and its path while it is open; `None` for
    /// what is no file, and for regions.
    pub(crate) fn fingerprint(&self) -> Option<(Fingerprint, Option<PathBuf>)> {
        self.identity.filter(|_| !self.is_region())?;
        let backing = self.backing().ok();
        let file = backing.as_ref().and_then(|backing| backing.file());
        let now = file.and_then(|file| file.look().ok()).map(|look| look.fingerprint);
        let fingerprint = now.or_else(|| self.agreement.lock().last())?;
        Some((fingerprint, file.and_then(|file| file.read_path())))
    }

    /// Replaces the store: the file was opened again, perhaps with more access.
    pub(crate) fn set_backing(&self, backing: Option<Backing>) {
        *self.backing.write().expect("no holder panics") = backing.map(Arc::new);
    }

    /// What the file is called now, or was when it was closed; `None` of what has no name.
    pub(crate) fn path(&self) -> Option<PathBuf> {
        let backing = self.backing().ok();
        backing.map_or_else(|| lock(&self.closed_path).clone(), |it| it.file()?.read_path())
    }

    /// Whether the store can be written.
    pub(crate) fn is_writable(&self) -> bool {
        self.backing.read().expect("no holder panics").as_ref().is_some_and(|one| one.is_writable())
    }

    pub(crate) fn is_open(&self) -> bool {
        self.backing.read().expect("no holder panics").is_some()
    }

    /// Numbers a write-back failure.
    pub(crate) fn record_error(&self, error: &io::Error) {
        let mut errors = lock(&self.errors);
        errors.count += 1;
        errors.last = Some(error.into());
    }

    /// So many pages could not be written by a pass of write-back.
    pub(crate) fn note_pass(&self, nr_failed: u64) {
        let is_failing = nr_failed > 0 || self.is_failing() && !self.dirty.is_empty();
        self.is_failing.store(is_failing, Ordering::Relaxed);
    }

    /// Whether there may be bytes that could not be written.
    pub(crate) fn is_failing(&self) -> bool {
        self.is_failing.load(Ordering::Relaxed)
    }

    /// The failures that a new handle need not report: those that some handle has reported.
    pub(crate) fn reported_errors(&self) -> u64 {
        lock(&self.errors).reported
    }

    /// How many failures there have been.
    pub(crate) fn error_count(&self) -> u64 {
        lock(&self.errors).count
    }

    /// The last failure, reported or not.
    pub(crate) fn last_error(&self) -> Option<io::Error> {
        lock(&self.errors).last.map(io::Error::from)
    }

    /// The last failure, if there was one since `seen`; marks it as seen.
    pub(crate) fn take_error(&self, seen: &AtomicU64) -> Option<io::Error> {
        let mut errors = lock(&self.errors);
        if seen.swap(errors.count, Ordering::Relaxed) == errors.count {
            return None;
        }
        errors.reported = errors.count;
        errors.last.map(io::Error::from)
    }

    /// Adds a handle beside others, or one of a mapping that is in no group.
    pub(crate) fn add_handle(&self) {
        self.add_handle_in(GroupId::ROOT);
    }

    /// Adds a handle; the first of those that are open now says which group the mapping is in.
    /// Returns whether it was.
    pub(crate) fn add_handle_in(&self, group: GroupId) -> bool {
        let mut open = lock(&self.open);
        open.nr_handles += 1;
        let is_first = open.nr_handles == 1;
        if is_first {
            self.group.store(group.0, Ordering::SeqCst);
        }
        is_first
    }

    /// The group that pays for the pages it brings in; the root where there are no groups.
    pub(crate) fn group(&self) -> GroupId {
        GroupId(self.group.load(Ordering::SeqCst))
    }

    /// The group was removed: another takes its place.
    pub(crate) fn leave_group(&self, group: GroupId, parent: GroupId) {
        let order = Ordering::SeqCst;
        let _ = self.group.compare_exchange(group.0, parent.0, order, order);
    }

    /// Returns whether it was the last.
    pub(crate) fn drop_handle(&self) -> bool {
        let mut open = lock(&self.open);
        open.nr_handles -= 1;
        open.nr_handles == 0
    }

    pub(crate) fn has_handles(&self) -> bool {
        lock(&self.open).nr_handles > 0
    }

    /// Closes the store if there is no handle and nothing waits to be written. Waits for
    /// writes in flight: one that fails makes its pages dirty again.
    pub(crate) fn close_if_idle(&self) {
        let _no_write_back = lock(&self.flush);
        let open = lock(&self.open);
        if open.nr_handles == 0 && self.dirty.is_empty() {
            *lock(&self.closed_path) = self.path();
            self.set_backing(None);
        }
    }
}

//! Regions: address ranges that may be larger than memory.
//!
//! Problem: a program wants to load and store anywhere in more memory than there is, or in a file,
//! under a limit of its own.
//!
//! Idea: a region is a mapping like a file's, and its pages compete for the same frames.
//!
//! ```text
//!   user's code --access--> fault --> page locked, filled in its frame, mapped --> resumes
//!   reclaim     --claims a page that is old and clean--> unmapped, and its frame is free
//!   aging, hint scan --> unmapped: the next access faults
//!   write-back  --> write-protected, copied, written: the next store faults
//! ```
//!
//! Data and invariants: a thread that serves a fault blocks on one page's lock only, and on no
//! thread that may wait for a fault. See `service`, `fault`, and `pagetide_sys`'s region.
//!
//! Ignored: memory for the process's own allocator (the helper allocates).
//!
//! Source: Linux documentation, "Userfaultfd" (admin-guide/mm/userfaultfd). umap and vmcache show
//! uses of such ranges.

mod fault;
mod gather;
mod huge;
mod options;
mod owned;
mod service;
mod stats;
mod streams;
mod twice;

pub use options::RegionOptions;
#[cfg(feature = "allocator-api2")]
pub use owned::RegionAllocator;
pub use owned::{OwnedRegion, RegionArray};
pub use stats::RegionStats;

use crate::api::cache::PageCache;
use crate::api::file::{Access, Advice, File, from_read};
use crate::engine::Engine;
use crate::engine::errors::{
    AdviseError, CreateRegionError, OpenError, ReadError, SyncError, WriteError,
};
use crate::engine::fill::Filled;
use crate::engine::flush::Flusher;
use crate::engine::mapping::Mapping;
use crate::workers::CacheShared;
use fault::{Faults, note_used};
use options::Opened;
use pagetide_core::ids::PageIndex;
use pagetide_core::record::AccessKind;
use pagetide_core::units::{Millis, PAGE_BYTES, PAGE_SHIFT};
use pagetide_sys::{FaultDelivery, PageTable, RegionError, RegionMemory, Served, UffdError};
use service::{FaultService, Serving, runs_other_code};
use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use streams::{Streams, ZEROS_MAX};

/// An address range that is paged on demand.
///
/// Any thread may load from and store to `as_ptr()..as_ptr() + len()` while the region lives. If a
/// page cannot be provided, the access ends with SIGBUS, as in a mapped file, and is counted.
/// [`Region::sync`] and [`RegionOptions::on_failure`] return the cause.
///
/// # Faults
/// By default the accessing thread serves a fault, in a SIGBUS handler that the first region
/// installs ([`RegionStats::delivery`] tells). Then
/// - a system call fails with `EFAULT` on an unmapped address: call [`Region::populate`] first,
/// - an earlier SIGBUS handler still gets all other addresses. A later one must chain to it,
/// - a thread that accesses pages must not block SIGBUS, and needs 64 KiB of free stack.
///
/// [`RegionOptions::handlers`] has threads of the region serve faults instead, at several times the
/// cost. This is automatic if the cache has tiers, groups or a record, if the region is over a
/// [`Store`](crate::Store) of the caller, and if the kernel lacks such signals.
///
/// Not for children after `fork` (the range is not inherited), the process's own allocator, or
/// device writes, as in direct I/O (no faults). Do not access the range while holding a
/// [`PageGuardMut`](crate::PageGuardMut) of this cache: a fault may wait for the guard.
///
/// Dropping the region unmaps the range. An anonymous region loses its contents. A file's dirty
/// pages are written back without an error report: call [`Region::sync`] first.
pub struct Region {
    /// `Some` until the region is dropped.
    file: Option<File>,
    memory: Arc<RegionMemory>,
    mapping: Arc<Mapping>,
    shared: Arc<CacheShared>,
    faults: Arc<Faults>,
    service: FaultService,
    len: u64,
}

impl PageCache {
    /// Creates a region. See [`Region`].
    ///
    /// # Errors
    /// [`CreateRegionError`], with the remedy.
    ///
    /// # Cost
    /// An address reservation of any length, and threads that serve faults.
    ///
    /// ```
    /// # use pagetide::{Bytes, PageCache, RegionOptions};
    /// let cache = PageCache::builder().memory(Bytes(1 << 20)).build()?;
    /// # if cache.region(RegionOptions::anonymous(Bytes(4096))).is_err() { return Ok(()) }
    /// let region = cache.region(RegionOptions::anonymous(Bytes(8 << 20)))?;
    /// region.write(5 << 20, b"four times as much as there is memory")?;
    /// let mut word = [0; 4];
    /// region.read(5 << 20, &mut word)?;
    /// assert_eq!(&word, b"four");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn region(&self, options: RegionOptions) -> Result<Region, CreateRegionError> {
        Region::create(&self.shared, options, Arc::new)
    }
}

impl Region {
    fn create(
        shared: &Arc<CacheShared>,
        options: RegionOptions,
        keep: impl FnOnce(RegionMemory) -> Arc<RegionMemory>,
    ) -> Result<Region, CreateRegionError> {
        if shared.engine.pages.arena.shared_files().is_some() {
            return Err(CreateRegionError::Shared);
        }
        let direct = shared.limits.direct_io;
        let engine = &shared.engine;
        let nr_handlers = options.nr_handlers();
        let reads_ahead = !runs_other_code(engine, false);
        let delivery = match nr_handlers {
            None if !runs_other_code(engine, options.is_custom()) => FaultDelivery::Signal,
            _ => FaultDelivery::Message,
        };
        let on_failure = options.on_failure.clone();
        let opened = options.open(direct)?;
        let nr_pages = opened.len.div_ceil(PAGE_BYTES as u64);
        opened.take_from_cache(engine)?;
        let memory = keep(make_memory(engine, nr_pages, delivery)?);
        engine.source.expect_faults();
        let now = engine.source.tiering.as_ref().map_or(Millis(0), |tiering| tiering.now());
        let table = PageTable::over_region(Arc::clone(&memory));
        let Opened { backing, len, swap, .. } = opened;
        let mapping = engine.mappings.change(|slots| {
            let make = |id| Mapping::of_region(id, table, backing, len, now, swap);
            slots.insert_with(make).inspect(|mapping| engine.source.join(mapping, None))
        });
        let mapping = mapping.ok_or(OpenError::TooManyMappings)?;
        let access = Access { read: true, write: true };
        let file = File::new(Arc::clone(shared), Arc::clone(&mapping), access, None);
        let faults = Arc::new(Faults { on_failure, ..Faults::default() });
        let reads_ahead = reads_ahead && engine.source.has_workers;
        let nr_ahead_max = shared.devices.window_of(&mapping, &shared.limits);
        let streams = reads_ahead.then(|| Arc::new(Streams::new(nr_ahead_max)));
        let begins_as_zeros = reads_ahead && mapping.swap.is_some();
        let stores = begins_as_zeros.then(|| Arc::new(Streams::new(nr_ahead_max.min(ZEROS_MAX))));
        let upgrades = reads_ahead.then(|| Arc::new(Streams::new(nr_ahead_max.min(ZEROS_MAX))));
        let wants_huge = shared.limits.huge_pages && engine.source.has_workers;
        let makes_huge = wants_huge && memory.nr_blocks() > 0;
        let serving = Serving {
            engine: Arc::clone(engine),
            memory: Arc::clone(&memory),
            mapping: Arc::clone(&mapping),
            faults: Arc::clone(&faults),
            streams,
            stores,
            upgrades,
            makes_huge,
        };
        let service = FaultService::start(serving, nr_handlers.unwrap_or(1));
        let service = service.map_err(CreateRegionError::Thread)?;
        if memory.delivery() == FaultDelivery::Signal {
            faults.twice.begin(&engine.source);
        }
        let (file, shared) = (Some(file), Arc::clone(shared));
        Ok(Region { file, memory, mapping, shared, faults, service, len })
    }

    /// Returns the page-aligned start of the range. Valid until the region is dropped.
    pub fn as_ptr(&self) -> *mut u8 {
        self.memory.base()
    }

    /// Returns the range as atomic words, for loads and stores in safe code. An access to an
    /// unmapped page faults.
    pub fn words(&self) -> &[AtomicU64] {
        self.memory.words()
    }

    /// Returns the length in bytes. Stores past a file's end, in a partial last page, reach no
    /// store.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Returns false: a region has at least one byte.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Copies bytes out, without faults. Atomic to stores of other threads within a page at most.
    ///
    /// # Errors
    /// [`ReadError::PastEnd`] if the range leaves the region. [`ReadError::Store`] if a page cannot
    /// be provided.
    pub fn read(&self, offset: u64, target: &mut [u8]) -> Result<(), ReadError> {
        self.check_range(offset, target.len())?;
        let mut done = 0;
        for piece in pieces(offset, target.len()) {
            let part = &mut target[done..done + piece.within.len()];
            self.with_page(piece.index, AccessKind::Table, |run| {
                run[0].read(piece.within.start, part);
            })?;
            done += piece.within.len();
        }
        Ok(())
    }

    /// Copies bytes in, without faults, page by page. Waits for write-back above the hard dirty
    /// limit.
    ///
    /// # Errors
    /// As for [`Region::read`].
    pub fn write(&self, offset: u64, source: &[u8]) -> Result<(), WriteError> {
        self.check_range(offset, source.len()).map_err(from_read)?;
        let mut done = 0;
        for piece in pieces(offset, source.len()) {
            self.shared.engine.flusher.balance_dirty(Flusher::flush_for_room);
            let part = &source[done..done + piece.within.len()];
            let written = self.with_page(piece.index, AccessKind::TableWrite, |run| {
                run[0].write(piece.within.start, part);
                let frame = run[0].frame().expect("a page brought in is resident");
                self.shared.engine.pages.mark_whole_dirty(&self.mapping, piece.index, frame);
            });
            written.map_err(from_read)?;
            done += piece.within.len();
        }
        Ok(())
    }

    /// Maps the pages of a byte range for reading, as far as they fit, so that a system call can
    /// read from their addresses. The pages may be evicted again: repeat if the call still fails
    /// with `EFAULT`.
    ///
    /// # Errors
    /// As for [`Region::read`].
    ///
    /// # Cost
    /// A fill for each absent page, and a system call for each unmapped page.
    pub fn populate(&self, range: Range<u64>) -> Result<(), ReadError> {
        self.map_pages(range, false)
    }

    /// Maps pages as [`Region::populate`] does, for a system call that writes to them.
    ///
    /// # Errors
    /// As for [`Region::populate`].
    pub fn populate_for_writes(&self, range: Range<u64>) -> Result<(), ReadError> {
        self.map_pages(range, true)
    }

    fn map_pages(&self, range: Range<u64>, is_write: bool) -> Result<(), ReadError> {
        let len = range.end.saturating_sub(range.start);
        self.check_range(range.start, usize::try_from(len).unwrap_or(usize::MAX))?;
        let kind = if is_write { AccessKind::TableWrite } else { AccessKind::Table };
        for index in range.start >> PAGE_SHIFT..range.end.div_ceil(PAGE_BYTES as u64) {
            let (engine, mapping) = (&self.shared.engine, &self.mapping);
            let mut served = Served::No;
            self.with_page(index, kind, |run| {
                served = self.faults.map_page(engine, mapping, &mut run[0], is_write);
            })?;
            if served == Served::No {
                return Err(self.store_error(index, io::ErrorKind::OutOfMemory.into()));
            }
        }
        Ok(())
    }

    /// Makes dirty pages durable. For an anonymous region, writes nothing, and reports whether its
    /// pages could be swapped out.
    ///
    /// # Errors
    /// As for [`File::sync_data`]. For an anonymous region, [`SyncError::Writeback`] if a page
    /// could not be swapped out since the last sync: the message names the folder and its free
    /// space. [`SyncError::Store`] with [`io::ErrorKind::UnexpectedEof`] if another program has
    /// made the file shorter than the region. The file does not grow back, and bytes past its end
    /// are lost.
    pub fn sync(&self) -> Result<(), SyncError> {
        match &self.mapping.swap {
            Some(swap) => {
                swap.take_failure().map_or(Ok(()), |full| Err(SyncError::Writeback(full)))
            }
            None => {
                let synced = self.file().sync_data();
                self.mapping.check_not_shrunk().map_err(SyncError::Store)?;
                synced
            }
        }
    }

    /// Writes back the dirty pages of a file without making them durable. Does nothing for an
    /// anonymous region.
    ///
    /// # Errors
    /// As for [`File::flush`].
    pub fn flush(&self) -> Result<(), SyncError> {
        match &self.mapping.swap {
            Some(_) => Ok(()),
            None => self.file().flush(),
        }
    }

    /// Returns the bytes that are not written back yet, in whole pages.
    pub fn dirty_bytes(&self) -> u64 {
        self.file().dirty_bytes()
    }

    /// Applies advice to a byte range. [`Advice::WillNeed`] reads pages in without mapping them.
    /// [`Advice::DontNeed`] writes back dirty pages and frees the memory, but keeps the contents.
    /// Other advice has no effect. `len` 0 means to the end.
    ///
    /// # Errors
    /// As for [`File::advise`].
    pub fn advise(&self, advice: Advice, offset: u64, len: u64) -> Result<(), AdviseError> {
        self.file().advise(advice, offset, len)
    }

    /// Returns the number of faults on unmapped pages, resident or not.
    pub fn nr_faults(&self) -> u64 {
        self.faults.nr_served[..2].iter().map(|nr| nr.load(Relaxed)).sum()
    }

    /// Returns fault counts and the memory in use.
    ///
    /// # Cost
    /// A visit to every page that was ever accessed.
    pub fn stats(&self) -> RegionStats {
        let [missing_faults, minor_faults, wp_faults] =
            [0, 1, 2].map(|kind| self.faults.nr_served[kind].load(Relaxed));
        RegionStats {
            missing_faults,
            minor_faults,
            wp_faults,
            failed_faults: self.faults.nr_failed.load(Relaxed),
            helped_faults: self.faults.nr_helped.load(Relaxed),
            resident_bytes: self.count_resident_bytes(),
            delivery: self.memory.delivery(),
            uffd: self.memory.uffd_source(),
        }
    }

    fn count_resident_bytes(&self) -> u64 {
        let mut nr_pages = 0;
        let table = &self.mapping.table;
        table.for_each_present(PageIndex::ALL, |_, seen| nr_pages += u64::from(seen.is_resident()));
        nr_pages << PAGE_SHIFT
    }

    fn file(&self) -> &File {
        self.file.as_ref().expect("a region has its handle until it is dropped")
    }

    fn check_range(&self, offset: u64, len: usize) -> Result<(), ReadError> {
        match offset.checked_add(len as u64) {
            Some(end) if end <= self.len => Ok(()),
            end => {
                let last = end.unwrap_or(u64::MAX).saturating_sub(1) >> PAGE_SHIFT;
                Err(ReadError::PastEnd { index: last, len: self.len })
            }
        }
    }

    fn with_page(
        &self,
        index: u64,
        kind: AccessKind,
        use_it: impl FnOnce(&mut Filled<'_>),
    ) -> Result<(), ReadError> {
        let engine = &self.shared.engine;
        let page = self.mapping.table.page_or_make(PageIndex(index));
        let mut run: Filled<'_> = vec![page.expect("checked to be in the region").lock()];
        let brought = self.faults.bring_in(engine, &self.mapping, &mut run, kind);
        brought.map_err(|source| self.store_error(index, source))?;
        run[0].set_young();
        note_used(engine, &run[0]);
        use_it(&mut run);
        drop(run);
        engine.pages.record(&self.mapping, index, AccessKind::Unpin);
        Ok(())
    }

    fn store_error(&self, index: u64, source: io::Error) -> ReadError {
        ReadError::Store { offset: index << PAGE_SHIFT, len: PAGE_BYTES as u64, source }
    }
}

/// Falls back to messages if the kernel lacks signals.
fn make_memory(
    engine: &Engine,
    nr_pages: u64,
    delivery: FaultDelivery,
) -> Result<RegionMemory, RegionError> {
    let lender = engine.lender()?;
    match RegionMemory::new(nr_pages, &lender, delivery) {
        Err(RegionError::Uffd(UffdError::Lacks { .. })) if delivery == FaultDelivery::Signal => {
            RegionMemory::new(nr_pages, &lender, FaultDelivery::Message)
        }
        made => made,
    }
}

impl fmt::Debug for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Region({} bytes at {:p})", self.len, self.as_ptr())
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        self.service.stop();
        let (engine, mapping) = (&self.shared.engine, &self.mapping);
        self.faults.twice.end(&engine.source, mapping);
        if mapping.swap.is_some() {
            let _no_write_back = crate::memory::locks::lock(&mapping.flush);
            mapping
                .table
                .for_each_present(PageIndex::ALL, |page, _| engine.pages.drop_page(mapping, page));
        } else {
            engine.flusher.flush(mapping, 0..u64::MAX);
            engine.pages.drop_clean_pages(mapping, PageIndex::ALL);
        }
        // Only dirty pages keep a mapping without a handle.
        self.file = None;
        engine.mappings.change(|slots| engine.forget_empty(slots));
    }
}

struct Piece {
    index: u64,
    within: Range<usize>,
}

fn pieces(offset: u64, len: usize) -> impl Iterator<Item = Piece> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let at = offset + done as u64;
        let start = at as usize % PAGE_BYTES;
        let nr = (PAGE_BYTES - start).min(len - done);
        done += nr;
        (nr > 0).then_some(Piece { index: at >> PAGE_SHIFT, within: start..start + nr })
    })
}

#[cfg(test)]
mod tests;

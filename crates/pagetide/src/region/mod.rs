//! Regions: address ranges of which only what the limit allows is in memory.
//!
//! Problem: a program wants plain memory, to load from and store to, from any code; more of it than
//! there is, or a file's bytes in place, without leaving the limit to the kernel.
//!
//! Idea: a region is a mapping like a file's. Its pages compete for frames with all others, by the
//! same policy, over the same tiers; a frame is its allowance. What is not mapped is a fault, which
//! the thread that touched it serves, or threads of the region.
//!
//! ```text
//!   user's code --touch--> fault --> page locked, filled in its frame, moved in --> goes on
//!   reclaim     --claims a page that is not young, clean--> moved back, and its frame is free
//!   aging, hint scan --> moved back: the next touch faults
//!   write-back  --> write-protected, copied, written: the next store faults
//! ```
//!
//! Data and invariants: see `service`, `fault`, and `pagetide_sys`'s region. A thread that serves
//! a fault waits for one page's lock, others it tries, and for no thread that may wait for a fault.
//!
//! Ignored: memory for the allocator of the process itself (the helper allocates).
//!
//! Source: Linux documentation, "Userfaultfd" (admin-guide/mm/userfaultfd); umap and vmcache for
//! what such ranges are good for.

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
use service::{FaultService, Serving, choose_delivery};
use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use streams::{Streams, ZEROS_MAX};

/// An address range whose pages come and go.
///
/// Any code may load from and store to `as_ptr()..as_ptr() + len()` while this lives, from any
/// number of threads. A page that cannot be had (its store fails, or memory is full of pages that
/// cannot be written to theirs) ends the access with SIGBUS, as in a mapped file, and is counted;
/// [`Region::sync`] says why.
///
/// # Faults
/// A touch of what is not mapped is served by the thread that made it, in a handler of SIGBUS that
/// comes with the first region; [`RegionStats::delivery`] tells. Then
/// - a system call that is given an address whose page is not mapped fails with `EFAULT`:
///   [`Region::populate`] first;
/// - a handler of SIGBUS that the process had before is called for what is no region's. One that it
///   installs later has to call the one it replaces in turn;
/// - a thread that touches pages does not block SIGBUS, and has 64 KiB of its stack left.
///
/// Where one of these does not suit, [`RegionOptions::handlers`] has threads of the region serve
/// faults, at several times the cost. So it is without asking where the cache has tiers, groups or
/// a record, where a store of the caller's lies beneath, and where the kernel has no such signals.
///
/// Not for: a child after `fork` (it does not have the range); the process's own allocator; memory
/// that devices write, as by direct I/O (they write past faults). Do not touch the range while
/// holding a [`PageGuardMut`](crate::PageGuardMut) of this cache: a fault may wait for it.
///
/// Dropping it ends the range: an anonymous region's contents are gone, those over a file are
/// written back, whose errors cannot be reported: [`Region::sync`] first.
pub struct Region {
    /// A handle of the mapping, until the region is dropped.
    file: Option<File>,
    memory: Arc<RegionMemory>,
    mapping: Arc<Mapping>,
    shared: Arc<CacheShared>,
    faults: Arc<Faults>,
    service: FaultService,
    len: u64,
}

impl PageCache {
    /// Makes a region: an address range that any code can load from and store to, of which only
    /// what the limit allows is in memory. See [`Region`].
    ///
    /// # Errors
    /// [`CreateRegionError`], with what to change.
    ///
    /// # Cost
    /// A reservation of addresses, whatever its length, and threads that serve its faults.
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
        let delivery = choose_delivery(engine, nr_handlers, options.is_custom());
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
        let file = File::new(Arc::clone(shared), Arc::clone(&mapping), access);
        let faults = Arc::<Faults>::default();
        let reads_ahead = memory.delivery() == FaultDelivery::Signal && engine.source.has_workers;
        let nr_ahead_max = shared.devices.window_of(&mapping, &shared.limits);
        let streams = reads_ahead.then(|| Arc::new(Streams::new(nr_ahead_max)));
        let begins_as_zeros = reads_ahead && mapping.swap.is_some();
        let stores = begins_as_zeros.then(|| Arc::new(Streams::new(nr_ahead_max.min(ZEROS_MAX))));
        let wants_huge = shared.limits.huge_pages && engine.source.has_workers;
        let makes_huge = wants_huge && memory.nr_blocks() > 0;
        let serving = Serving {
            engine: Arc::clone(engine),
            memory: Arc::clone(&memory),
            mapping: Arc::clone(&mapping),
            faults: Arc::clone(&faults),
            streams,
            stores,
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

    /// Where the range begins; page aligned. Good until the region is dropped.
    pub fn as_ptr(&self) -> *mut u8 {
        self.memory.base()
    }

    /// The range as words that may change at any time: loads and stores for safe code. A word of a
    /// page that is not mapped is a fault like any other.
    pub fn words(&self) -> &[AtomicU64] {
        self.memory.words()
    }

    /// Bytes there are. Of a file whose last page is partial, what is stored past this in the range
    /// reaches no store.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Never: a region has a byte at least.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Copies bytes out, without faults. A page at a time: no more is one step beside stores of
    /// other threads.
    ///
    /// # Errors
    /// [`ReadError::PastEnd`] if the range leaves the region, [`ReadError::Store`] if a page could
    /// not be had.
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

    /// Copies bytes in, without faults, a page at a time. Waits for write-back where more than the
    /// hard dirty limit is dirty.
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

    /// Maps the pages of a byte range for reading, as if each had been loaded from, as far as they
    /// fit: a system call that reads from them can then be given their addresses. Nothing keeps
    /// them from leaving again, so one that fails with `EFAULT` all the same is to be repeated.
    ///
    /// # Errors
    /// [`ReadError::PastEnd`] if the range leaves the region, [`ReadError::Store`] if a page could
    /// not be had.
    ///
    /// # Cost
    /// A fill for each absent page, and a system call for each that is not mapped.
    pub fn populate(&self, range: Range<u64>) -> Result<(), ReadError> {
        self.map_pages(range, false)
    }

    /// As [`Region::populate`], for a system call that writes to the pages: as if each had been
    /// stored to.
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

    /// Writes back what is dirty and makes it durable. Of an anonymous region there is nothing that
    /// could outlive it, and nothing is written; but the call says whether its pages could leave
    /// memory.
    ///
    /// # Errors
    /// As for [`File::sync_data`]. Of an anonymous region [`SyncError::Writeback`] if a page could
    /// not be written to where it swaps since the last sync: the sentence names the folder, and how
    /// much room it has.
    pub fn sync(&self) -> Result<(), SyncError> {
        match &self.mapping.swap {
            Some(swap) => {
                swap.take_failure().map_or(Ok(()), |full| Err(SyncError::Writeback(full)))
            }
            None => self.file().sync_data(),
        }
    }

    /// Takes advice about a byte range: [`Advice::WillNeed`] brings it into memory, though not into
    /// the range; [`Advice::DontNeed`] writes back what is dirty and lets the memory go, but keeps
    /// the contents. Other advice has no meaning here. `len` 0 means to the end.
    ///
    /// # Errors
    /// As for [`File::advise`].
    pub fn advise(&self, advice: Advice, offset: u64, len: u64) -> Result<(), AdviseError> {
        self.file().advise(advice, offset, len)
    }

    /// Faults so far on pages that were not mapped, in memory or not.
    pub fn nr_faults(&self) -> u64 {
        self.faults.nr_served[..2].iter().map(|nr| nr.load(Relaxed)).sum()
    }

    /// Faults so far, and memory taken now.
    ///
    /// # Cost
    /// A look at every page that was ever touched.
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

    /// Has `use_it` work on a page, brought in and locked, in `run[0]`.
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

/// Addresses for so many pages, and their faults; as messages where there are no signals.
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
        // Without a handle nothing keeps the mapping, unless it is dirty still.
        self.file = None;
        engine.mappings.change(|slots| engine.forget_empty(slots));
    }
}

/// A part of one page.
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

//! The compressed tier: pages on their way out of memory, kept a while longer, and smaller.
//!
//! Problem: a page that is evicted clean may be wanted again, and reading it from its store takes a
//! hundred times as long as unpacking it.
//!
//! Idea: a pool of LZ4 blocks between the slowest memory and the stores. A miss looks here
//! first. A page is in memory or in the pool, never in both.
//!
//! ```text
//!   evicted, clean --compress--> [ newest ....... pool ....... oldest ] --full--> gone
//!         ^                            |
//!         +--- resident <--unpack------+   admitted: the pool forgets it
//! ```
//!
//! Data and invariants: a copy is what the store has. It enters while its page is locked for
//! eviction and clean; it leaves, under its page's lock, when the page is admitted again or written
//! past the cache; and what drops contents without looking at each page (truncation, a file that
//! changed behind our back) drops a range of copies and raises the mapping's *epoch*, by which an
//! eviction that began before is refused. The limit is of memory: the pool is made with all it will
//! ever have (`cells`), and what keeping a copy takes is in there, too.
//!
//! Ignored: pages that do not become a quarter smaller are not kept.
//!
//! Source: LZ4 block format; the order is first in, first out, as a copy that is used leaves.

mod cells;
mod copies;

use crate::memory::locks::lock;
use copies::Copies;
use pagetide_core::ids::{MappingId, PageId, PageIndex};
use pagetide_core::units::{Bytes, PAGE_BYTES};
use std::fmt;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A compressed page is at most this long, or is not worth keeping.
const COPY_MAX: usize = PAGE_BYTES / 4 * 3;

/// Counts of what happened to the pool; pages unless said otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CompressedStats {
    /// Bytes the pool may take.
    pub limit_bytes: u64,
    /// Bytes it takes now, with what keeping the copies takes.
    pub used_bytes: u64,
    /// Pages in it now.
    pub nr_pages: u64,
    /// Pages that came in.
    pub stored: u64,
    /// Pages that were wanted again while they were here: reads that no store saw.
    pub hits: u64,
    /// Pages that do not compress, and were not kept.
    pub incompressible: u64,
    /// Pages that made room for others.
    pub pushed_out: u64,
}

impl fmt::Display for CompressedStats {
    /// One line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "compressed={}: {} used by {} pages, {} accesses served, {} did not compress",
            Bytes(self.limit_bytes),
            Bytes(self.used_bytes),
            self.nr_pages,
            self.hits,
            self.incompressible,
        )
    }
}

/// A mapping whose pages may have copies here.
#[derive(Clone, Copy)]
pub(crate) struct Copied<'m> {
    pub(crate) mapping: MappingId,
    /// Rises whenever contents are dropped without looking at each page.
    pub(crate) epoch: &'m AtomicU64,
}

/// The pool. All methods may be called by any thread; see the module for which locks they want.
pub(crate) struct CompressedPool {
    limit_bytes: u64,
    copies: Mutex<Copies>,
    nr_stored: AtomicU64,
    nr_hits: AtomicU64,
    nr_incompressible: AtomicU64,
    nr_pushed_out: AtomicU64,
}

impl CompressedPool {
    pub(crate) fn new(limit: Bytes) -> CompressedPool {
        CompressedPool {
            limit_bytes: limit.0,
            copies: Mutex::new(Copies::new(limit.0)),
            nr_stored: AtomicU64::new(0),
            nr_hits: AtomicU64::new(0),
            nr_incompressible: AtomicU64::new(0),
            nr_pushed_out: AtomicU64::new(0),
        }
    }

    /// Keeps a clean page that is being evicted and is still locked, whose mapping's epoch was
    /// `epoch` since it was locked.
    pub(crate) fn store(&self, of: Copied<'_>, index: PageIndex, epoch: u64, bytes: &[u8]) {
        let block = lz4_flex::block::compress(bytes);
        if block.len() > COPY_MAX {
            self.nr_incompressible.fetch_add(1, Relaxed);
            return;
        }
        let page = PageId { mapping: of.mapping, index };
        let mut copies = lock(&self.copies);
        if of.epoch.load(Relaxed) != epoch {
            return;
        }
        if let Some(nr_pushed_out) = copies.insert(page, &block) {
            self.nr_stored.fetch_add(1, Relaxed);
            self.nr_pushed_out.fetch_add(nr_pushed_out, Relaxed);
        }
    }

    /// The contents of a page that is absent and locked, if they are here. They stay until the page
    /// is admitted ([`CompressedPool::forget`]).
    pub(crate) fn read(&self, page: PageId) -> Option<Vec<u8>> {
        let block = lock(&self.copies).read(page)?;
        // A block of ours unpacks; one that does not is as good as none.
        let bytes = lz4_flex::block::decompress(&block, PAGE_BYTES).ok();
        let bytes = bytes.filter(|bytes| bytes.len() == PAGE_BYTES)?;
        self.nr_hits.fetch_add(1, Relaxed);
        Some(bytes)
    }

    /// Forgets a page whose lock the caller holds.
    pub(crate) fn forget(&self, page: PageId) {
        lock(&self.copies).remove(page);
    }

    /// Forgets pages of a mapping, and whatever of it is being evicted now.
    pub(crate) fn forget_range(&self, of: Copied<'_>, range: Range<PageIndex>) {
        let mut copies = lock(&self.copies);
        of.epoch.fetch_add(1, Relaxed);
        copies.remove_range(of.mapping, range);
    }

    /// Forgets what a mapping had whose number will be another's.
    pub(crate) fn forget_mapping(&self, mapping: MappingId) {
        lock(&self.copies).remove_range(mapping, PageIndex::ALL);
    }

    pub(crate) fn collect_stats(&self) -> CompressedStats {
        let copies = lock(&self.copies);
        CompressedStats {
            limit_bytes: self.limit_bytes,
            used_bytes: copies.used_bytes(),
            nr_pages: copies.nr_pages(),
            stored: self.nr_stored.load(Relaxed),
            hits: self.nr_hits.load(Relaxed),
            incompressible: self.nr_incompressible.load(Relaxed),
            pushed_out: self.nr_pushed_out.load(Relaxed),
        }
    }

    /// The pages here, for checks.
    pub(crate) fn collect_pages(&self) -> Vec<PageId> {
        let copies = lock(&self.copies);
        copies.validate();
        assert!(copies.used_bytes() <= self.limit_bytes, "of {} bytes", self.limit_bytes);
        copies.pages().collect()
    }
}

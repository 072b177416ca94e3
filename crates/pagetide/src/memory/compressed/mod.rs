//! The compressed tier: a pool of compressed copies of evicted pages.
//!
//! Problem: rereading an evicted page takes a hundred times as long as decompressing it.
//!
//! Idea: a pool of LZ4 blocks between the slowest memory and the stores, which a miss checks first.
//! A page is in memory or in the pool, never in both.
//!
//! ```text
//!   evicted, clean --compress--> [ newest ....... pool ....... oldest ] --full--> dropped
//!         ^                            |
//!         +--- resident <--decompress--+   admitted: the pool drops its copy
//! ```
//!
//! Data and invariants: a copy equals the store's contents. It is inserted while its page is locked
//! for eviction and clean, and removed, under the page's lock, on admission or a write past the
//! cache. Code that drops contents without a visit to each page also drops a range of copies and
//! increments the mapping's *epoch*, which rejects older evictions. The limit covers all memory of
//! the pool (`cells`), allocated at start.
//!
//! Ignored: pages that do not shrink by a quarter.
//!
//! Source: LZ4 block format. The order is FIFO, as a used copy leaves.

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

/// Maximum length of a copy in bytes.
const COPY_MAX: usize = PAGE_BYTES / 4 * 3;

/// Counters of the compressed pool, in pages unless noted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CompressedStats {
    /// Limit in bytes.
    pub limit_bytes: u64,
    /// Bytes in use, including metadata.
    pub used_bytes: u64,
    /// Pages in the pool.
    pub nr_pages: u64,
    /// Pages inserted.
    pub stored: u64,
    /// Misses served, without a read of the store.
    pub hits: u64,
    /// Pages rejected because they did not compress.
    pub incompressible: u64,
    /// Pages dropped to make room.
    pub pushed_out: u64,
}

impl fmt::Display for CompressedStats {
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

/// A mapping and its epoch.
#[derive(Clone, Copy)]
pub(crate) struct Copied<'m> {
    pub(crate) mapping: MappingId,
    /// Incremented when contents are dropped without a visit to each page.
    pub(crate) epoch: &'m AtomicU64,
}

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

    /// Inserts a clean page that is being evicted and is still locked. `epoch` is from before its
    /// lock.
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

    /// Returns the contents of an absent, locked page. The copy stays until the page is admitted
    /// ([`CompressedPool::forget`]).
    pub(crate) fn read(&self, page: PageId) -> Option<Vec<u8>> {
        let block = lock(&self.copies).read(page)?;
        // Own blocks always decompress. Any other block counts as absent.
        let bytes = lz4_flex::block::decompress(&block, PAGE_BYTES).ok();
        let bytes = bytes.filter(|bytes| bytes.len() == PAGE_BYTES)?;
        self.nr_hits.fetch_add(1, Relaxed);
        Some(bytes)
    }

    pub(crate) fn forget(&self, page: PageId) {
        lock(&self.copies).remove(page);
    }

    /// Removes pages of a mapping, and rejects evictions in progress.
    pub(crate) fn forget_range(&self, of: Copied<'_>, range: Range<PageIndex>) {
        let mut copies = lock(&self.copies);
        of.epoch.fetch_add(1, Relaxed);
        copies.remove_range(of.mapping, range);
    }

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

    pub(crate) fn collect_pages(&self) -> Vec<PageId> {
        let copies = lock(&self.copies);
        copies.validate();
        assert!(copies.used_bytes() <= self.limit_bytes, "of {} bytes", self.limit_bytes);
        copies.pages().collect()
    }
}

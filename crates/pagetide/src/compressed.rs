//! The compressed tier: pages on their way out of memory, kept a while longer, and smaller.
//!
//! Problem: a page that is evicted clean may be wanted again, and reading it from its store takes a
//! hundred times as long as unpacking it.
//!
//! Idea: a pool of LZ4 blocks between the slowest memory and the stores. Who misses looks here
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
//! past the cache; and whoever drops contents without looking at each page (truncation, a file that
//! changed behind our back) drops a range of copies and raises the mapping's *epoch*, by which an
//! eviction that began before is refused. The limit counts each copy with what keeping it takes.
//!
//! Ignored: pages that do not become a quarter smaller are not kept. Memory that the allocator
//! loses between blocks is not counted.
//!
//! Source: LZ4 block format; the order is first in, first out, as a copy that is used leaves.

use crate::locks::lock;
use crate::mapping::Mapping;
use pagetide_core::ids::{MappingId, PageId, PageIndex};
use pagetide_core::units::{Bytes, PAGE_BYTES};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

/// A compressed page is at most this long, or is not worth keeping.
const COPY_MAX: usize = PAGE_BYTES / 4 * 3;
/// What a copy takes besides its bytes: its entries in both trees, their slack, and the counts and
/// the header of its allocation.
const COPY_OVERHEAD: u64 = 144;

/// One page, compressed.
struct Copy {
    /// Its place in the order.
    number: u64,
    block: Arc<[u8]>,
}

impl Copy {
    fn cost(&self) -> u64 {
        self.block.len() as u64 + COPY_OVERHEAD
    }
}

#[derive(Default)]
struct Copies {
    by_page: BTreeMap<PageId, Copy>,
    /// The oldest first.
    order: BTreeMap<u64, PageId>,
    nr_bytes: u64,
    next_number: u64,
}

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
            copies: Mutex::default(),
            nr_stored: AtomicU64::new(0),
            nr_hits: AtomicU64::new(0),
            nr_incompressible: AtomicU64::new(0),
            nr_pushed_out: AtomicU64::new(0),
        }
    }

    /// Keeps a clean page that is being evicted and is still locked, whose mapping's epoch was
    /// `epoch` since it was locked.
    pub(crate) fn store(&self, mapping: &Mapping, index: PageIndex, epoch: u64, bytes: &[u8]) {
        let block = lz4_flex::block::compress(bytes);
        if block.len() > COPY_MAX {
            self.nr_incompressible.fetch_add(1, Relaxed);
            return;
        }
        let page = PageId { mapping: mapping.id, index };
        let mut copies = lock(&self.copies);
        if mapping.epoch.load(Relaxed) != epoch {
            return;
        }
        let copy = Copy { number: copies.next_number, block: block.into() };
        if copy.cost() > self.limit_bytes {
            return;
        }
        copies.remove(page);
        copies.add(page, copy);
        self.nr_stored.fetch_add(1, Relaxed);
        while copies.nr_bytes > self.limit_bytes {
            copies.remove_oldest();
            self.nr_pushed_out.fetch_add(1, Relaxed);
        }
    }

    /// The contents of a page that is absent and locked, if they are here. They stay until the page
    /// is admitted ([`CompressedPool::forget`]).
    pub(crate) fn read(&self, page: PageId) -> Option<Vec<u8>> {
        let block = Arc::clone(&lock(&self.copies).by_page.get(&page)?.block);
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
    pub(crate) fn forget_range(&self, mapping: &Mapping, range: Range<PageIndex>) {
        let mut copies = lock(&self.copies);
        mapping.epoch.fetch_add(1, Relaxed);
        let of = |index| PageId { mapping: mapping.id, index };
        while let Some(page) = copies.first_in(of(range.start), of(range.end)) {
            copies.remove(page);
        }
    }

    /// Forgets what a mapping had whose number will be another's.
    pub(crate) fn forget_mapping(&self, mapping: MappingId) {
        let mut copies = lock(&self.copies);
        let of = |index| PageId { mapping, index: PageIndex(index) };
        while let Some(page) = copies.first_in(of(0), of(u64::MAX)) {
            copies.remove(page);
        }
    }

    pub(crate) fn collect_stats(&self) -> CompressedStats {
        let copies = lock(&self.copies);
        CompressedStats {
            limit_bytes: self.limit_bytes,
            used_bytes: copies.nr_bytes,
            nr_pages: copies.by_page.len() as u64,
            stored: self.nr_stored.load(Relaxed),
            hits: self.nr_hits.load(Relaxed),
            incompressible: self.nr_incompressible.load(Relaxed),
            pushed_out: self.nr_pushed_out.load(Relaxed),
        }
    }

    /// The pages here, for checks.
    pub(crate) fn collect_pages(&self) -> Vec<PageId> {
        let copies = lock(&self.copies);
        let nr_bytes: u64 = copies.by_page.values().map(Copy::cost).sum();
        assert_eq!((nr_bytes, copies.by_page.len()), (copies.nr_bytes, copies.order.len()));
        assert!(nr_bytes <= self.limit_bytes, "{nr_bytes} of {} bytes", self.limit_bytes);
        copies.by_page.keys().copied().collect()
    }
}

impl Copies {
    fn add(&mut self, page: PageId, copy: Copy) {
        self.nr_bytes += copy.cost();
        self.next_number += 1;
        self.order.insert(copy.number, page);
        self.by_page.insert(page, copy);
    }

    fn remove(&mut self, page: PageId) {
        if let Some(copy) = self.by_page.remove(&page) {
            self.nr_bytes -= copy.cost();
            self.order.remove(&copy.number);
        }
    }

    fn remove_oldest(&mut self) {
        let oldest = self.order.first_key_value().map(|(_, page)| *page);
        self.remove(oldest.expect("a pool over its limit is not empty"));
    }

    fn first_in(&self, from: PageId, to: PageId) -> Option<PageId> {
        let (page, _) = self.by_page.range(from..).next()?;
        (*page < to).then_some(*page)
    }
}

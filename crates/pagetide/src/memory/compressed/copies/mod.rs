//! Compressed copies in cells, linked by page, by age, and by mapping.
//!
//! ```text
//!   page --hash--> bucket --> copy --> copy          a hash chain, linked by first cells
//!   oldest <-> ... <-> newest                        the order of eviction
//!   mapping --> copy <-> copy <-> copy               dropped with the mapping
//! ```
//!
//! Data and invariants: the links of all three lists are in the copy's own cells, so that all
//! metadata fits into the initial allocation.

use super::cells::{CELL_BYTES, Cells, NONE};
use pagetide_core::ids::{MappingId, PageId, PageIndex};
use std::collections::BTreeMap;
use std::ops::Range;

/// Cells for each bucket: copies are seldom shorter.
const CELLS_PER_BUCKET: u32 = 8;
const BUCKET_BYTES: u64 = size_of::<u32>() as u64;

#[derive(Clone, Copy)]
struct Head {
    page: PageId,
    len: u32,
    next_in_bucket: u32,
    older: u32,
    newer: u32,
    /// Links within a mapping, unordered.
    previous: u32,
    next: u32,
}

const HEAD_BYTES: usize = 36;

impl Head {
    fn to_bytes(self) -> [u8; HEAD_BYTES] {
        let words = [
            self.page.mapping.0,
            self.page.index.0 as u32,
            (self.page.index.0 >> u32::BITS) as u32,
            self.len,
            self.next_in_bucket,
            self.older,
            self.newer,
            self.previous,
            self.next,
        ];
        let mut bytes = [0; HEAD_BYTES];
        for (part, word) in bytes.chunks_exact_mut(4).zip(words) {
            part.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    fn from_bytes(bytes: &[u8; HEAD_BYTES]) -> Head {
        let word = |nth: usize| {
            let word = bytes[nth * 4..].first_chunk().expect("a head has nine words");
            u32::from_le_bytes(*word)
        };
        let index = PageIndex(u64::from(word(1)) | u64::from(word(2)) << u32::BITS);
        Head {
            page: PageId { mapping: MappingId(word(0)), index },
            len: word(3),
            next_in_bucket: word(4),
            older: word(5),
            newer: word(6),
            previous: word(7),
            next: word(8),
        }
    }
}

pub(super) struct Copies {
    cells: Cells,
    /// First copy of each bucket. The length is a power of two.
    buckets: Box<[u32]>,
    oldest: u32,
    newest: u32,
    by_mapping: BTreeMap<MappingId, u32>,
    nr_pages: u64,
}

impl Copies {
    /// `limit` is the total in bytes, including metadata.
    pub(super) fn new(limit: u64) -> Copies {
        let per_bucket = u64::from(CELLS_PER_BUCKET) * CELL_BYTES as u64;
        let nr_buckets = 1 << (limit / per_bucket).max(1).ilog2().min(31);
        let nr_cells = limit.saturating_sub(nr_buckets * BUCKET_BYTES) / CELL_BYTES as u64;
        Copies {
            cells: Cells::new(nr_cells.min(u64::from(NONE - 1)) as u32),
            buckets: vec![NONE; nr_buckets as usize].into(),
            oldest: NONE,
            newest: NONE,
            by_mapping: BTreeMap::new(),
            nr_pages: 0,
        }
    }

    pub(super) fn nr_pages(&self) -> u64 {
        self.nr_pages
    }

    pub(super) fn used_bytes(&self) -> u64 {
        let of_buckets = self.buckets.len() as u64 * BUCKET_BYTES;
        u64::from(self.cells.nr_used()) * CELL_BYTES as u64 + of_buckets
    }

    /// Inserts or replaces a copy. Returns the number of old copies evicted for it, or `None` if it
    /// is larger than the pool.
    pub(super) fn insert(&mut self, page: PageId, bytes: &[u8]) -> Option<u64> {
        self.remove(page);
        let nr_wanted = Cells::nr_for(HEAD_BYTES + bytes.len());
        if nr_wanted > self.cells.nr() {
            return None;
        }
        let mut nr_pushed_out = 0;
        while self.cells.nr() - self.cells.nr_used() < nr_wanted {
            self.remove_at(self.oldest);
            nr_pushed_out += 1;
        }
        self.link(page, bytes);
        Some(nr_pushed_out)
    }

    pub(super) fn read(&self, page: PageId) -> Option<Vec<u8>> {
        let at = self.find(page)?;
        let mut bytes = vec![0; self.head(at).len as usize];
        self.cells.read(at, HEAD_BYTES, &mut bytes);
        Some(bytes)
    }

    pub(super) fn remove(&mut self, page: PageId) {
        if let Some(at) = self.find(page) {
            self.remove_at(at);
        }
    }

    /// Removes pages of a mapping, by page or by list, whichever is shorter.
    pub(super) fn remove_range(&mut self, mapping: MappingId, range: Range<PageIndex>) {
        if range.end.0.saturating_sub(range.start.0) <= self.nr_pages {
            for index in range.start.0..range.end.0 {
                self.remove(PageId { mapping, index: PageIndex(index) });
            }
            return;
        }
        let mut at = self.by_mapping.get(&mapping).copied().unwrap_or(NONE);
        while at != NONE {
            let head = self.head(at);
            if range.contains(&head.page.index) {
                self.remove_at(at);
            }
            at = head.next;
        }
    }

    pub(super) fn pages(&self) -> impl Iterator<Item = PageId> {
        let of = |at: u32| (at != NONE).then(|| self.head(at));
        std::iter::successors(of(self.oldest), move |head| of(head.newer)).map(|head| head.page)
    }

    /// Panics unless all lists agree, and account for all used cells.
    pub(super) fn validate(&self) {
        let mut nr_cells = 0;
        for page in self.pages() {
            let at = self.find(page).expect("what is in the order is found");
            nr_cells += Cells::nr_for(HEAD_BYTES + self.head(at).len as usize);
        }
        assert_eq!(nr_cells, self.cells.nr_used());
        assert_eq!(self.pages().count() as u64, self.nr_pages);
        let mut nr_of_mappings = 0;
        for (mapping, first) in &self.by_mapping {
            let mut at = *first;
            while at != NONE {
                let head = self.head(at);
                assert_eq!(head.page.mapping, *mapping);
                (at, nr_of_mappings) = (head.next, nr_of_mappings + 1);
            }
        }
        assert_eq!(nr_of_mappings, self.nr_pages);
    }

    fn link(&mut self, page: PageId, bytes: &[u8]) {
        let bucket = self.bucket(page);
        let first = self.by_mapping.get(&page.mapping).copied().unwrap_or(NONE);
        let head = Head {
            page,
            len: bytes.len() as u32,
            next_in_bucket: self.buckets[bucket],
            older: self.newest,
            newer: NONE,
            previous: NONE,
            next: first,
        };
        let at = self.cells.put(&head.to_bytes(), bytes);
        self.buckets[bucket] = at;
        match self.newest {
            NONE => self.oldest = at,
            newest => self.change(newest, |head| head.newer = at),
        }
        self.newest = at;
        if first != NONE {
            self.change(first, |head| head.previous = at);
        }
        self.by_mapping.insert(page.mapping, at);
        self.nr_pages += 1;
    }

    fn remove_at(&mut self, at: u32) {
        let head = self.head(at);
        self.unlink_from_bucket(at, head);
        match head.older {
            NONE => self.oldest = head.newer,
            older => self.change(older, |other| other.newer = head.newer),
        }
        match head.newer {
            NONE => self.newest = head.older,
            newer => self.change(newer, |other| other.older = head.older),
        }
        if head.next != NONE {
            self.change(head.next, |other| other.previous = head.previous);
        }
        match (head.previous, head.next) {
            (NONE, NONE) => drop(self.by_mapping.remove(&head.page.mapping)),
            (NONE, next) => drop(self.by_mapping.insert(head.page.mapping, next)),
            (previous, next) => self.change(previous, |other| other.next = next),
        }
        self.cells.free(at);
        self.nr_pages -= 1;
    }

    fn unlink_from_bucket(&mut self, at: u32, head: Head) {
        let bucket = self.bucket(head.page);
        if self.buckets[bucket] == at {
            self.buckets[bucket] = head.next_in_bucket;
            return;
        }
        let mut before = self.buckets[bucket];
        while self.head(before).next_in_bucket != at {
            before = self.head(before).next_in_bucket;
        }
        self.change(before, |other| other.next_in_bucket = head.next_in_bucket);
    }

    fn find(&self, page: PageId) -> Option<u32> {
        let mut at = self.buckets[self.bucket(page)];
        while at != NONE {
            let head = self.head(at);
            if head.page == page {
                return Some(at);
            }
            at = head.next_in_bucket;
        }
        None
    }

    fn bucket(&self, page: PageId) -> usize {
        // Fibonacci hashing: the upper bits of a product with 2^64 over the golden ratio.
        let key = page.index.0 ^ u64::from(page.mapping.0).rotate_right(24);
        let mixed = key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> u32::BITS;
        mixed as usize & (self.buckets.len() - 1)
    }

    fn head(&self, at: u32) -> Head {
        Head::from_bytes(self.cells.head(at))
    }

    fn change(&mut self, at: u32, change: impl FnOnce(&mut Head)) {
        let mut head = self.head(at);
        change(&mut head);
        *self.cells.head_mut(at) = head.to_bytes();
    }
}

#[cfg(test)]
mod tests;

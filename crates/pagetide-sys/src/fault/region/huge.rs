//! Huge pages in a region's user mapping.
//!
//! **Problem.** Pages that are mapped one by one are small: a sum takes 1.6 times as long as over
//! huge pages.
//!
//! **Idea.** The kernel can collapse a block of mapped pages, but refuses protected ones. Read-only
//! pages are therefore made writable meanwhile, and compared afterwards to find stores.
//!
//! ```text
//!   locked, R R R .. R --bytes kept--> W W W .. W --collapsed--> W --protected--> R, compared
//! ```
//!
//! **Data and invariants.** S25: while a block is unprotected, all its pages are locked, and
//! recorded as writable. A huge page is split before one of its pages leaves, or the kernel would
//! keep the memory.
//!
//! **Ignored.** Blocks with mixed access. Kernels that cannot move pages, or cannot collapse on
//! request (before 6.1).
//!
//! Source: madvise(2), `MADV_COLLAPSE`, `MADV_COLD`, and measurements.

use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

use crate::memory::frames::FRAME_BYTES;

use super::{AccessPart, PART_PAGES, RegionMemory, UserAccess};

/// Pages per huge page.
pub const BLOCK_PAGES: usize = 512;

/// Small pages, unless the kernel made a huge page by itself.
const SMALL: u8 = 0;
/// Requested huge, and perhaps mapped as one.
const HUGE: u8 = 1;
/// As [`HUGE`], but mapped in parts, some of them protected.
const IN_PARTS: u8 = 2;

impl RegionMemory {
    /// Returns the number of blocks that may become huge pages.
    pub fn nr_blocks(&self) -> u32 {
        if self.lender.moves() { self.user.nr_frames() / BLOCK_PAGES as u32 } else { 0 }
    }

    /// Returns true if the block is fully mapped with one access, and not huge yet. Stable only for
    /// the holder of all its locks.
    pub fn could_be_huge(&self, block: u32) -> bool {
        let pages = pages_of(block);
        let Some(part) = self.part_of(pages.start) else { return false };
        let first = self.access(pages.start.into());
        part.block_of(pages.start).load(Relaxed) == SMALL
            && first != UserAccess::None
            && pages.into_iter().all(|page| self.access(page.into()) == first)
    }

    /// Requests a huge page for a block. Returns the pages written while it was unprotected.
    ///
    /// # Safety
    /// The caller has all pages of the block locked (S25).
    pub(crate) unsafe fn make_huge(&self, block: u32) -> Vec<u32> {
        let pages = pages_of(block);
        // Reading a page that the user dropped (madvise) would fault.
        if !(self.could_be_huge(block) && self.user.is_full(block)) {
            return Vec::new();
        }
        let is_protected = self.access(pages.start.into()) == UserAccess::Read;
        let mut written = Vec::new();
        if is_protected {
            // SAFETY: S25 (by the caller's word).
            written = unsafe { self.make_protected_huge(block) };
        } else {
            self.user.collapse_one(block);
        }
        if let Some(part) = self.part_of(pages.start) {
            part.block_of(pages.start).store(HUGE, Relaxed);
        }
        written
    }

    /// # Safety
    /// As of [`RegionMemory::make_huge`].
    unsafe fn make_protected_huge(&self, block: u32) -> Vec<u32> {
        let (pages, all) = (pages_of(block), self.user.addresses(pages_of(block)));
        let mut kept = vec![0; all.len()];
        for (page, bytes) in pages.clone().zip(kept.chunks_mut(FRAME_BYTES)) {
            self.user.read(page, 0, bytes);
        }
        pages.clone().for_each(|page| self.note(page, UserAccess::Write));
        if self.uffd.protect(all.clone(), false).is_ok() {
            self.user.collapse_one(block);
        }
        let protected = self.uffd.protect(all, true);
        protected.expect("S25: what cannot be protected cannot be called protected");
        pages.clone().for_each(|page| self.note(page, UserAccess::Read));
        if !self.user.is_full(block) {
            return Vec::new();
        }
        let mut now = [0; FRAME_BYTES];
        let is_other = |(page, before): &(u32, &[u8])| {
            self.user.read(*page, 0, &mut now);
            now != **before
        };
        pages.zip(kept.chunks(FRAME_BYTES)).filter(is_other).map(|(page, _)| page).collect()
    }

    pub(super) fn split_around(&self, page: u32) {
        let Some(part) = self.part_of(page) else { return };
        if part.block_of(page).load(Relaxed) != SMALL {
            part.block_of(page).store(SMALL, Relaxed);
            self.user.split(page);
        }
    }

    /// Records that a part of a huge page was protected or unprotected.
    pub(super) fn note_in_parts(&self, page: u32) {
        if let Some(part) = self.part_of(page) {
            let _ = part.block_of(page).compare_exchange(HUGE, IN_PARTS, Relaxed, Relaxed);
        }
    }

    fn part_of(&self, page: u32) -> Option<&AccessPart> {
        self.access.get(page as usize / PART_PAGES)?.get()
    }
}

fn pages_of(block: u32) -> Range<u32> {
    block * BLOCK_PAGES as u32..(block + 1) * BLOCK_PAGES as u32
}

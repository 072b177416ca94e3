//! Huge pages at a region's user.
//!
//! **Problem.** Pages that come one by one are small, and a user that goes over many of them misses
//! its translations: a sum takes 1.6 times as long as over huge pages.
//!
//! **Idea.** The kernel makes a huge page of a block whose pages are all mapped, without a change
//! of its contents. It refuses what is protected: so of pages that are only read, the protection is
//! taken away meanwhile, and their bytes are compared with what they were.
//!
//! ```text
//!   locked, R R R .. R --bytes kept--> W W W .. W --collapsed--> W --protected--> R, compared
//! ```
//!
//! **Data and invariants.** S25: while a block is not protected, all its pages are locked, and
//! noted as writable. A huge page is split before a page of it leaves: the kernel would keep the
//! memory of a part.
//!
//! **Ignored.** Blocks of which some pages may be written, and some not. Kernels that do not move
//! pages, or cannot be told to make a huge one (before 6.1).
//!
//! Source: madvise(2), `MADV_COLLAPSE`, `MADV_COLD`; measured for what it does not say.

use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

use crate::memory::frames::FRAME_BYTES;

use super::{AccessPart, PART_PAGES, RegionMemory, UserAccess};

/// Pages of a huge one.
pub const BLOCK_PAGES: usize = 512;

// What is known of a block.
/// Of small pages, as far as was asked for.
const SMALL: u8 = 0;
/// A huge page was asked for, and may be mapped as one.
const HUGE: u8 = 1;
/// As [`HUGE`], but it is mapped in parts, some of which are protected.
const IN_PARTS: u8 = 2;

impl RegionMemory {
    /// Blocks that may be made huge pages.
    pub fn nr_blocks(&self) -> u32 {
        if self.lender.moves() { self.user.nr_frames() / BLOCK_PAGES as u32 } else { 0 }
    }

    /// Whether a block is mapped whole, all of it to be read, or all of it to be written as well,
    /// and is not huge already. Only the holder of its pages' locks can rely on it.
    pub fn could_be_huge(&self, block: u32) -> bool {
        let pages = pages_of(block);
        let Some(part) = self.part_of(pages.start) else { return false };
        let first = self.access(pages.start.into());
        part.block_of(pages.start).load(Relaxed) == SMALL
            && first != UserAccess::None
            && pages.into_iter().all(|page| self.access(page.into()) == first)
    }

    /// Asks for a huge page in place of a block's. Returns the pages that the user has written
    /// while that could not be heard of.
    ///
    /// # Safety
    /// The caller has all pages of the block locked (S25).
    pub(crate) unsafe fn make_huge(&self, block: u32) -> Vec<u32> {
        let pages = pages_of(block);
        // What its user has dropped (madvise) would be a fault here.
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

    /// A page is to leave: no huge page has it from now on.
    pub(super) fn split_around(&self, page: u32) {
        let Some(part) = self.part_of(page) else { return };
        if part.block_of(page).load(Relaxed) != SMALL {
            part.block_of(page).store(SMALL, Relaxed);
            self.user.split(page);
        }
    }

    /// A page of what may be a huge one is protected, or is not any more, and others are not.
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

//! Ranks of pages, in order of first appearance.
//!
//! Problem: each look-up waits twice for memory, half of the read time with many pages. Idea: look
//! up many pages together, so that the waits overlap.
//!
//! ```text
//!   pages    a  b  c  d      slot of each, at once --> page of each, at once --> ranks
//!                            pages in other slots, and new pages: one by one, in order
//! ```
//!
//! Data and invariants: `pages[rank_of(page)] == page`. The index is an open-addressing table, at
//! most half full, with a fixed hash, so ranks are deterministic. A rank never changes.

use pagetide_core::ids::PageId;

/// Pages looked up together, about a CPU's parallel cache misses.
const TOGETHER: usize = 32;

/// Pages and their ranks, in order of first appearance.
///
/// # Cost
/// 24 to 32 bytes per page. A look-up is one hash and about two probes.
#[derive(Clone, Debug, Default)]
pub struct PageRanks {
    /// `[power of two]`, rank + 1, or 0 for an empty slot.
    slots: Vec<u32>,
    pages: Vec<PageId>,
}

impl PageRanks {
    /// Returns an empty set of pages.
    pub fn new() -> PageRanks {
        PageRanks::default()
    }

    /// Returns the rank of the page. A new page gets the next rank.
    ///
    /// # Panics
    /// Panics at the 2^32nd distinct page.
    pub fn rank_of(&mut self, page: PageId) -> u32 {
        if self.slots.len() <= 2 * self.pages.len() {
            self.grow();
        }
        let slot = self.slot_of(page);
        if self.slots[slot] == 0 {
            self.pages.push(page);
            let marked = u32::try_from(self.pages.len()).expect("fewer than 2^32 distinct pages");
            self.slots[slot] = marked;
        }
        self.slots[slot] - 1
    }

    /// Appends the ranks of `pages` to `ranks`. New pages get the next ranks, in order.
    pub fn append_ranks(&mut self, pages: &[PageId], ranks: &mut Vec<u32>) {
        for together in pages.chunks(TOGETHER) {
            let guesses = self.guess(together);
            ranks.extend(together.iter().zip(guesses).map(|(page, guess)| match guess {
                Some(rank) => rank,
                None => self.rank_of(*page),
            }));
        }
    }

    /// Returns the ranks of the pages found in their first slot. Independent iterations overlap the
    /// memory waits.
    fn guess(&self, pages: &[PageId]) -> [Option<u32>; TOGETHER] {
        let mut marked = [0; TOGETHER];
        let mut guesses = [None; TOGETHER];
        let (Some(mask), Some(first)) = (self.slots.len().checked_sub(1), self.pages.first())
        else {
            return guesses;
        };
        for (marked, page) in marked.iter_mut().zip(pages) {
            *marked = self.slots[hash(*page) as usize & mask];
        }
        for (guess, (&marked, page)) in guesses.iter_mut().zip(marked.iter().zip(pages)) {
            let there = self.pages.get((marked as usize).wrapping_sub(1));
            let is_it = (marked != 0) & (there.unwrap_or(first) == page);
            *guess = is_it.then_some(marked.wrapping_sub(1));
        }
        guesses
    }

    pub(super) fn bytes_held(&self) -> usize {
        4 * self.slots.capacity() + self.pages.capacity() * size_of::<PageId>()
    }

    /// Returns the rank of the page, if known.
    pub fn find(&self, page: PageId) -> Option<u32> {
        if self.slots.is_empty() {
            return None;
        }
        self.slots[self.slot_of(page)].checked_sub(1)
    }

    /// Returns the pages, indexed by rank.
    pub fn pages(&self) -> &[PageId] {
        &self.pages
    }

    /// Returns the slot of the page, or the empty slot for a new page.
    fn slot_of(&self, page: PageId) -> usize {
        let mask = self.slots.len() - 1;
        let mut slot = hash(page) as usize & mask;
        loop {
            match self.slots[slot] {
                0 => return slot,
                marked if self.pages[marked as usize - 1] == page => return slot,
                _ => slot = (slot + 1) & mask,
            }
        }
    }

    fn grow(&mut self) {
        let nr_slots = (self.slots.len() * 2).max(64);
        self.slots = vec![0; nr_slots];
        for rank in 0..self.pages.len() {
            let slot = self.slot_of(self.pages[rank]);
            self.slots[slot] = rank as u32 + 1;
        }
    }
}

/// Mixes mapping and index so that runs of pages spread (the finalizer of SplitMix64).
fn hash(page: PageId) -> u64 {
    let mut mixed = page.index.0 ^ u64::from(page.mapping.0).rotate_left(40);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

//! Ranks of pages, in order of first appearance.
//!
//! Problem: each entry of a trace is a look-up, which is two waits for memory where there are many
//! pages: half of the time that reading takes. Idea: look many up together, so that
//! their waits are one.
//!
//! ```text
//!   pages    a  b  c  d      slot of each, at once --> page of each, at once --> ranks
//!                            those that are elsewhere, or new: one by one, in their order
//! ```
//!
//! Data and invariants: `pages[rank_of(page)] == page`. The index is an open-addressing table of
//! ranks, at most half full, with a fixed hash: the same trace gives the same ranks, always. A rank
//! never changes, so that what was found stays right while others come in.

use pagetide_core::ids::PageId;

/// Pages looked up together: as many as a processor waits for at once.
const TOGETHER: usize = 32;

/// Pages and their ranks, in order of first appearance.
///
/// # Cost
/// 24 to 32 bytes a page; a look-up is a hash and about two probes.
#[derive(Clone, Debug, Default)]
pub struct PageRanks {
    /// `[power of two]`, rank + 1, or 0 for an empty slot.
    slots: Vec<u32>,
    pages: Vec<PageId>,
}

impl PageRanks {
    /// No pages yet.
    pub fn new() -> PageRanks {
        PageRanks::default()
    }

    /// The page's rank; a new page gets the next one.
    ///
    /// # Panics
    /// At the 2^32nd distinct page.
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

    /// Appends the ranks of `pages` to `ranks`; new pages get the next ones, in their order.
    pub fn append_ranks(&mut self, pages: &[PageId], ranks: &mut Vec<u32>) {
        for together in pages.chunks(TOGETHER) {
            let guesses = self.guess(together);
            ranks.extend(together.iter().zip(guesses).map(|(page, guess)| match guess {
                Some(rank) => rank,
                None => self.rank_of(*page),
            }));
        }
    }

    /// The ranks of those pages that are in the first slot looked at. No step waits for another,
    /// so that the processor has all of them wait for memory at once.
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

    /// The memory they take now, in bytes.
    pub(super) fn bytes_held(&self) -> usize {
        4 * self.slots.capacity() + self.pages.capacity() * size_of::<PageId>()
    }

    /// The page's rank, if it has one.
    pub fn find(&self, page: PageId) -> Option<u32> {
        if self.slots.is_empty() {
            return None;
        }
        self.slots[self.slot_of(page)].checked_sub(1)
    }

    /// The pages, by rank.
    pub fn pages(&self) -> &[PageId] {
        &self.pages
    }

    /// The slot that holds the page, or the empty one where it belongs.
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

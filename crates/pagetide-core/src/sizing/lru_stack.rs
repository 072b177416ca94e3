//! An exact LRU stack of bounded size, O(1) per use.
//!
//! **Problem.** Count the pages used since a page's last use, without a walk or a tree. **Idea.**
//! Each use gets a slot in time. Slots of last uses are marked, and marks counted at three levels.
//!
//! ```text
//!   slots    0 1 2 3 4 5 ...   64 a word      marks after slot 1: the rest of its word,
//!   marks    . x . x x .                      the words left in its block,
//!   words    [ones]  [ones] ... 16 a block    the blocks after it
//!   blocks   [sum of ones] ...
//! ```
//!
//! Marked slots are compacted when the slots (twice the pages) run out. A table maps pages to
//! slots.
//!
//! **Invariants.** `slot_of` has each page once. `key_in[slot]` is its key, and the slot is marked.
//! Sums are exact. At most `capacity` pages.
//!
//! **Ignored.** Collisions of 32-bit keys. Unbounded stacks: the lab uses a tree.

use crate::key_table::KeyTable;
use alloc::boxed::Box;
use alloc::vec;

const WORD_SLOTS: usize = 64;
const BLOCK_WORDS: usize = 16;
const BLOCK_SLOTS: usize = WORD_SLOTS * BLOCK_WORDS;

#[derive(Clone, Debug)]
pub(super) struct LruStack {
    /// At most half full.
    slot_of: KeyTable<u32>,
    key_in: Box<[u32]>,
    marks: Box<[u64]>,
    in_word: Box<[u8]>,
    in_block: Box<[u16]>,
    next: usize,
    /// No earlier slot is marked.
    oldest: usize,
    nr_pages: u32,
    capacity: u32,
}

impl LruStack {
    /// Creates room for `capacity` pages, a power of two.
    pub(super) fn new(capacity: u32) -> LruStack {
        let nr_slots = (2 * capacity as usize).max(WORD_SLOTS);
        let nr_words = nr_slots / WORD_SLOTS;
        LruStack {
            slot_of: KeyTable::new(2 * capacity as usize, 0),
            key_in: vec![0; nr_slots].into(),
            marks: vec![0; nr_words].into(),
            in_word: vec![0; nr_words].into(),
            in_block: vec![0; nr_words.div_ceil(BLOCK_WORDS)].into(),
            next: 0,
            oldest: 0,
            nr_pages: 0,
            capacity,
        }
    }

    /// Moves the page to the top. Returns the old position, from 1.
    pub(super) fn use_page(&mut self, key: u32) -> Option<u32> {
        let distance = self.forget(key);
        if self.nr_pages == self.capacity {
            self.drop_oldest();
        }
        if self.next == self.key_in.len() {
            self.move_together();
        }
        let slot = self.next;
        self.next += 1;
        self.key_in[slot] = key;
        self.set_mark(slot);
        self.slot_of.put(key, slot as u32);
        self.nr_pages += 1;
        distance
    }

    pub(super) fn forget(&mut self, key: u32) -> Option<u32> {
        let slot = self.slot_of.remove_if(key, |_| true)? as usize;
        let distance = 1 + self.nr_marked_after(slot);
        self.clear_mark(slot);
        self.nr_pages -= 1;
        Some(distance)
    }

    fn drop_oldest(&mut self) {
        while self.key_in[self.oldest] == 0 {
            self.oldest += 1;
        }
        self.forget(self.key_in[self.oldest]);
    }

    fn set_mark(&mut self, slot: usize) {
        self.marks[slot / WORD_SLOTS] |= 1 << (slot % WORD_SLOTS);
        self.in_word[slot / WORD_SLOTS] += 1;
        self.in_block[slot / BLOCK_SLOTS] += 1;
    }

    fn clear_mark(&mut self, slot: usize) {
        self.key_in[slot] = 0;
        self.marks[slot / WORD_SLOTS] &= !(1 << (slot % WORD_SLOTS));
        self.in_word[slot / WORD_SLOTS] -= 1;
        self.in_block[slot / BLOCK_SLOTS] -= 1;
    }

    fn nr_marked_after(&self, slot: usize) -> u32 {
        let word = slot / WORD_SLOTS;
        let block = slot / BLOCK_SLOTS;
        let last_block = (self.next - 1) / BLOCK_SLOTS;
        // Shifted twice, because a shift by 64 overflows.
        let in_own = (self.marks[word] >> (slot % WORD_SLOTS) >> 1).count_ones();
        let words_end = ((block + 1) * BLOCK_WORDS).min(self.in_word.len());
        let words = self.in_word[word + 1..words_end].iter().map(|nr| u32::from(*nr));
        let blocks = self.in_block[block + 1..=last_block.max(block)].iter();
        in_own + words.sum::<u32>() + blocks.map(|nr| u32::from(*nr)).sum::<u32>()
    }

    #[cold]
    fn move_together(&mut self) {
        let mut to = 0;
        for from in 0..self.key_in.len() {
            let key = self.key_in[from];
            if key == 0 {
                continue;
            }
            if from != to {
                self.clear_mark(from);
                self.key_in[to] = key;
                self.set_mark(to);
                self.slot_of.put(key, to as u32);
            }
            to += 1;
        }
        self.next = to;
        self.oldest = 0;
    }

    pub(super) fn validate(&self) {
        let mut nr_pages = 0;
        for (key, slot) in self.slot_of.validate() {
            nr_pages += 1;
            let slot = slot as usize;
            assert_eq!(self.key_in[slot], key, "two ideas of slot {slot}");
            assert!(slot >= self.oldest && slot < self.next, "slot {slot} is out of the stack");
        }
        assert_eq!(nr_pages, self.nr_pages, "pages in the table");
        assert!(self.nr_pages <= self.capacity, "too many pages");
        let is_marked = |slot: usize| self.marks[slot / WORD_SLOTS] >> (slot % WORD_SLOTS) & 1 == 1;
        for (slot, key) in self.key_in.iter().enumerate() {
            assert_eq!(is_marked(slot), *key != 0, "the mark of slot {slot}");
        }
        for (word, nr) in self.marks.iter().zip(&self.in_word) {
            assert_eq!(word.count_ones(), u32::from(*nr), "marks of a word");
        }
        for (words, nr) in self.in_word.chunks(BLOCK_WORDS).zip(&self.in_block) {
            let sum: u32 = words.iter().map(|nr| u32::from(*nr)).sum();
            assert_eq!(sum, u32::from(*nr), "marks of a block");
        }
    }
}

//! Frames with freed memory, and the huge pages that must not bring it back.
//!
//! **Problem.** With huge pages enabled, the kernel sooner or later makes a huge page of any partly
//! used 2 MiB, which brings back freed memory.
//!
//! **Idea.** A block with a freed frame is advised to use small pages until all its frames are in
//! use again.
//!
//! ```text
//!   freed frames        |.........|..##...#.|#########|.........|     one bit each
//!   advice for a block  |  huge   |  small  |  small  |  huge   |
//! ```
//!
//! **Data and invariants.** Bits and advice change under one lock: a block with a bit has small
//! pages. Each change of advice between neighbours costs a kernel mapping, which are limited. After
//! a refusal, all memory uses small pages.
//!
//! **Ignored.** An existing huge page that is partly freed: the kernel splits it.
//!
//! Source: Linux documentation, "Transparent Hugepage Support" (admin-guide/mm/transhuge):
//! `khugepaged`, `max_ptes_none`. madvise(2), `MADV_NOHUGEPAGE`.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use super::FRAME_BYTES;

pub(super) const BLOCK_BYTES: usize = crate::memory::addresses::HUGE_BYTES;
pub(super) const BLOCK_FRAMES: usize = BLOCK_BYTES / FRAME_BYTES;
const WORDS_PER_BLOCK: usize = BLOCK_FRAMES / u64::BITS as usize;

pub(super) struct GivenBack {
    blocks: Mutex<Blocks>,
}

struct Blocks {
    given_back: Box<[[u64; WORDS_PER_BLOCK]]>,
    /// True once the kernel has refused an advice, or pages leave one by one.
    all_small: bool,
}

/// Returns false if the kernel refused.
pub(super) type Advise<'a> = &'a dyn Fn(Range<usize>, PageSize) -> bool;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum PageSize {
    Small,
    Huge,
}

impl GivenBack {
    pub(super) fn new(len: usize) -> GivenBack {
        let given_back = vec![[0; WORDS_PER_BLOCK]; len.div_ceil(BLOCK_BYTES)].into();
        GivenBack { blocks: Mutex::new(Blocks { given_back, all_small: false }) }
    }

    /// `advise` gets whole blocks, in bytes.
    pub(super) fn give(&self, bytes: Range<usize>, advise: Advise<'_>) {
        self.change(bytes, PageSize::Small, advise);
    }

    pub(super) fn take(&self, bytes: Range<usize>, advise: Advise<'_>) {
        self.change(bytes, PageSize::Huge, advise);
    }

    pub(super) fn give_all(&self, advise: Advise<'_>) {
        let mut blocks = self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        if !std::mem::replace(&mut blocks.all_small, true) {
            advise(0..blocks.given_back.len() * BLOCK_BYTES, PageSize::Small);
        }
    }

    fn change(&self, bytes: Range<usize>, size: PageSize, advise: Advise<'_>) {
        let mut blocks = self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        let blocks = &mut *blocks;
        let mut changed: Option<Range<usize>> = None;
        for block in bytes.start / BLOCK_BYTES..bytes.end.div_ceil(BLOCK_BYTES) {
            let was_whole = is_whole(&blocks.given_back[block]);
            set(&mut blocks.given_back[block], within(&bytes, block), size == PageSize::Small);
            if was_whole == is_whole(&blocks.given_back[block]) {
                continue;
            }
            match &mut changed {
                Some(run) if run.end == block => run.end += 1,
                _ => {
                    let run = changed.replace(block..block + 1);
                    run.into_iter().for_each(|run| blocks.advise(run, size, advise));
                }
            }
        }
        changed.into_iter().for_each(|run| blocks.advise(run, size, advise));
    }
}

impl Blocks {
    fn advise(&mut self, run: Range<usize>, size: PageSize, advise: Advise<'_>) {
        let is_taken =
            self.all_small || advise(run.start * BLOCK_BYTES..run.end * BLOCK_BYTES, size);
        if !is_taken {
            self.all_small = true;
            advise(0..self.given_back.len() * BLOCK_BYTES, PageSize::Small);
        }
    }
}

/// Counted from the block's first frame.
fn within(bytes: &Range<usize>, block: usize) -> Range<usize> {
    let first = block * BLOCK_BYTES;
    let frame = |at: usize| at.saturating_sub(first).min(BLOCK_BYTES) / FRAME_BYTES;
    frame(bytes.start)..frame(bytes.end)
}

fn is_whole(block: &[u64; WORDS_PER_BLOCK]) -> bool {
    block.iter().all(|word| *word == 0)
}

fn set(block: &mut [u64; WORDS_PER_BLOCK], frames: Range<usize>, value: bool) {
    for frame in frames {
        let (word, bit) = (frame / u64::BITS as usize, 1 << (frame % u64::BITS as usize));
        if value { block[word] |= bit } else { block[word] &= !bit }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    const FRAME: usize = FRAME_BYTES;

    /// In blocks.
    #[derive(Default)]
    struct Advice(RefCell<Vec<(Range<usize>, PageSize)>>);

    impl Advice {
        fn note(&self, bytes: Range<usize>, size: PageSize) -> bool {
            let blocks = bytes.start / BLOCK_BYTES..bytes.end / BLOCK_BYTES;
            self.0.borrow_mut().push((blocks, size));
            true
        }

        fn told(&self) -> Vec<(Range<usize>, PageSize)> {
            self.0.take()
        }
    }

    #[test]
    fn a_block_is_small_as_long_as_a_frame_of_it_is_away() {
        let (memory, advice) = (GivenBack::new(4 * BLOCK_BYTES), Advice::default());
        let note = |bytes: Range<usize>, size| advice.note(bytes, size);
        memory.give(BLOCK_BYTES - FRAME..BLOCK_BYTES + FRAME, &note);
        assert_eq!(advice.told(), [(0..2, PageSize::Small)]);
        memory.give(0..FRAME, &note);
        assert_eq!(advice.told(), [], "it is already");
        memory.take(BLOCK_BYTES - FRAME..4 * BLOCK_BYTES, &note);
        assert_eq!(advice.told(), [(1..2, PageSize::Huge)], "the first frame is away");
        memory.take(0..FRAME, &note);
        assert_eq!(advice.told(), [(0..1, PageSize::Huge)]);
        memory.give(0..4 * BLOCK_BYTES, &note);
        assert_eq!(advice.told(), [(0..4, PageSize::Small)], "one call");
    }

    #[test]
    fn runs_of_blocks_are_told_apart() {
        let (memory, advice) = (GivenBack::new(4 * BLOCK_BYTES), Advice::default());
        let note = |bytes: Range<usize>, size| advice.note(bytes, size);
        memory.give(BLOCK_BYTES..BLOCK_BYTES + FRAME, &note);
        memory.give(0..4 * BLOCK_BYTES, &note);
        let small = [1..2, 0..1, 2..4].map(|blocks| (blocks, PageSize::Small));
        assert_eq!(advice.told(), small);
    }

    #[test]
    fn what_is_given_for_good_is_never_taken_again() {
        let (memory, advice) = (GivenBack::new(4 * BLOCK_BYTES), Advice::default());
        let note = |bytes: Range<usize>, size| advice.note(bytes, size);
        memory.give_all(&note);
        assert_eq!(advice.told(), [(0..4, PageSize::Small)]);
        memory.give_all(&note);
        memory.give(0..FRAME, &note);
        memory.take(0..4 * BLOCK_BYTES, &note);
        assert_eq!(advice.told(), []);
    }

    #[test]
    fn a_refused_advice_makes_all_of_it_small_for_good() {
        let (memory, advice) = (GivenBack::new(4 * BLOCK_BYTES), Advice::default());
        let refuse = |bytes: Range<usize>, size| {
            advice.note(bytes.clone(), size);
            bytes.len() > BLOCK_BYTES
        };
        memory.give(0..FRAME, &refuse);
        assert_eq!(advice.told(), [(0..1, PageSize::Small), (0..4, PageSize::Small)]);
        memory.take(0..FRAME, &refuse);
        memory.give(0..FRAME, &refuse);
        assert_eq!(advice.told(), []);
    }
}

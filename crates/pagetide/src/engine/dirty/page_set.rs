//! An ordered set of pages as bits, for insertion in a fault handler.
//!
//! ```text
//!   parts    | . | * | . |        allocated when their pages are first prepared or inserted
//!                  |
//!                  '--> nr, [ word ][ word ] ...
//! ```
//!
//! Data and invariants: a part's count is raised before a bit is set, and lowered after it is
//! cleared, so that a part with pages never counts as empty. A page is inserted and removed by the
//! thread that has it locked.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const WORD_PAGES: u64 = u64::BITS as u64;
/// Pages of a part: 4 KiB of bits for 128 MiB.
const PART_PAGES: u64 = 1 << 15;
const PART_WORDS: usize = (PART_PAGES / WORD_PAGES) as usize;

pub(crate) struct PageSet {
    parts: Box<[OnceLock<Box<Part>>]>,
}

struct Part {
    nr: AtomicU64,
    words: [AtomicU64; PART_WORDS],
}

impl PageSet {
    pub(crate) fn new(nr_pages: u64) -> PageSet {
        PageSet { parts: (0..nr_pages.div_ceil(PART_PAGES)).map(|_| OnceLock::new()).collect() }
    }

    /// Returns true if inserting the page allocates nothing.
    pub(crate) fn is_prepared(&self, index: u64) -> bool {
        self.parts.get((index / PART_PAGES) as usize).is_some_and(|part| part.get().is_some())
    }

    pub(crate) fn insert(&self, index: u64) {
        let new =
            || Box::new(Part { nr: AtomicU64::new(0), words: [const { AtomicU64::new(0) }; _] });
        let part = self.parts[(index / PART_PAGES) as usize].get_or_init(new);
        part.nr.fetch_add(1, Relaxed);
        if part.words[word_of(index)].fetch_or(bit_of(index), Relaxed) & bit_of(index) != 0 {
            part.nr.fetch_sub(1, Relaxed);
        }
    }

    pub(crate) fn remove(&self, index: u64) -> bool {
        let Some(part) = self.parts.get((index / PART_PAGES) as usize).and_then(OnceLock::get)
        else {
            return false;
        };
        let before = part.words[word_of(index)].fetch_and(!bit_of(index), Relaxed);
        let was_there = before & bit_of(index) != 0;
        part.nr.fetch_sub(u64::from(was_there), Relaxed);
        was_there
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.used_parts(0).next().is_none()
    }

    /// Returns the number of pages, which may change meanwhile.
    pub(crate) fn nr(&self) -> u64 {
        self.used_parts(0).map(|(_, part)| part.nr.load(Relaxed)).sum()
    }

    pub(crate) fn last(&self) -> Option<u64> {
        self.used_parts(0).rev().find_map(|(first, part)| {
            let mut words = part.words.iter().map(|word| word.load(Relaxed)).enumerate().rev();
            let (nth, word) = words.find(|(_, word)| *word != 0)?;
            Some(first + nth as u64 * WORD_PAGES + u64::from(word.ilog2()))
        })
    }

    /// Returns the pages from `from` on, in order, each as of the time of the call to `next`.
    ///
    /// # Cost
    /// A look at each word of the parts with pages.
    pub(crate) fn iter_from(&self, from: u64) -> impl Iterator<Item = u64> {
        self.used_parts((from / PART_PAGES) as usize).flat_map(move |(first, part)| {
            let skipped = from.saturating_sub(first) / WORD_PAGES;
            part.words.iter().enumerate().skip(skipped as usize).flat_map(move |(nth, word)| {
                let first = first + nth as u64 * WORD_PAGES;
                let bits = word.load(Relaxed) & u64::MAX << from.saturating_sub(first).min(63);
                set_bits(bits).map(move |nth| first + nth)
            })
        })
    }

    /// Returns the non-empty parts after `nr_skipped` parts, with their first pages.
    fn used_parts(&self, nr_skipped: usize) -> impl DoubleEndedIterator<Item = (u64, &Part)> {
        let parts = self.parts.iter().enumerate().skip(nr_skipped);
        parts.filter_map(|(nth, part)| {
            let part = part.get().filter(|part| part.nr.load(Relaxed) > 0)?;
            Some((nth as u64 * PART_PAGES, &**part))
        })
    }
}

fn word_of(index: u64) -> usize {
    (index % PART_PAGES / WORD_PAGES) as usize
}

fn bit_of(index: u64) -> u64 {
    1 << (index % WORD_PAGES)
}

fn set_bits(mut bits: u64) -> impl Iterator<Item = u64> {
    std::iter::from_fn(move || {
        let nth = (bits != 0).then(|| u64::from(bits.trailing_zeros()))?;
        bits &= bits - 1;
        Some(nth)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn is_a_set(
            changes in proptest::collection::vec((any::<bool>(), 0..3 * PART_PAGES), 0..200),
            near in 0..3 * PART_PAGES - 200,
            from in 0..3 * PART_PAGES,
        ) {
            let (set, mut twin) = (PageSet::new(3 * PART_PAGES), BTreeSet::new());
            let neighbours = (near..near + 200).map(|index| (index % 7 != 0, index));
            for (is_in, index) in changes.into_iter().chain(neighbours) {
                match is_in {
                    true => {
                        set.insert(index);
                        twin.insert(index);
                        prop_assert!(set.is_prepared(index));
                    }
                    false => prop_assert_eq!(set.remove(index), twin.remove(&index)),
                }
            }
            prop_assert_eq!(set.last(), twin.last().copied());
            for from in [from, near, near + 63, near + 100] {
                let pages: Vec<u64> = twin.range(from..).copied().collect();
                prop_assert_eq!(set.iter_from(from).collect::<Vec<_>>(), pages);
            }
            prop_assert!(!set.is_empty());
            twin.iter().for_each(|index| assert!(set.remove(*index)));
            prop_assert!(set.is_empty() && set.last().is_none());
        }
    }
}

//! The window of generations: the sequence numbers in use.
//!
//! ```text
//!   anon   min_seq ----------------- max_seq        2 to 4 generations a type
//!   file             min_seq ------- max_seq        the young end is shared
//!          evicted here              aging adds here
//! ```
//!
//! The index of a generation's lists and counters is its sequence number modulo 4. So starting a
//! generation only increments `max_seq`. Source: `Documentation/mm/multigen_lru.rst`,
//! "Workflow overview".

use super::swappiness::Swappiness;
use crate::folio::Flags;
use crate::ids::PageType;

/// Minimum number of generations per type. Pages in the youngest two are not evicted.
pub(super) const MIN_NR_GENS: u64 = 2;
/// Maximum number of generations per type.
pub const MAX_NR_GENS: usize = 4;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Window {
    /// For both types.
    pub(super) max_seq: u64,
    /// By type.
    pub(super) min_seq: [u64; 2],
}

impl Window {
    pub(super) const fn new() -> Window {
        Window { max_seq: MAX_NR_GENS as u64 - 1, min_seq: [0, 0] }
    }

    pub(super) const fn oldest(&self, page_type: PageType) -> u64 {
        self.min_seq[page_type.index()]
    }

    /// Counts from the oldest, 1. Returns 0 for none.
    pub(super) fn nth_of(&self, flags: Flags) -> u64 {
        let Some(index) = flags.generation() else { return 0 };
        let oldest = self.oldest(flags.page_type());
        let seq = (oldest..=self.max_seq).find(|&seq| index_of(seq) == index as usize);
        seq.map_or(0, |seq| seq - oldest + 1)
    }

    pub(super) const fn nr_gens(&self, page_type: PageType) -> u64 {
        self.max_seq - self.oldest(page_type) + 1
    }

    /// Returns the longer window.
    pub(super) fn nr_gens_evictable(&self, swappiness: Swappiness) -> u64 {
        evictable(swappiness).map(|page_type| self.nr_gens(page_type)).max().unwrap_or(MIN_NR_GENS)
    }

    /// Skips empty generations. At least two remain.
    pub(super) fn drained(
        &self,
        swappiness: Swappiness,
        is_empty: impl Fn(PageType, u64) -> bool,
    ) -> [u64; 2] {
        let mut min_seq = self.min_seq;
        for page_type in evictable(swappiness) {
            let oldest = &mut min_seq[page_type.index()];
            while *oldest + MIN_NR_GENS <= self.max_seq && is_empty(page_type, *oldest) {
                *oldest += 1;
            }
        }
        min_seq
    }
}

pub(super) fn evictable(swappiness: Swappiness) -> impl Iterator<Item = PageType> {
    PageType::ALL.into_iter().filter(move |page_type| swappiness.evicts(*page_type))
}

pub(super) const fn index_of(seq: u64) -> usize {
    (seq % MAX_NR_GENS as u64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Window = Window { max_seq: 10, min_seq: [7, 7] };

    fn drained(swappiness: u8, anon_populated: &[u64], file_populated: &[u64]) -> [u64; 2] {
        WINDOW.drained(swappiness.into(), |page_type, seq| match page_type {
            PageType::Anon => !anon_populated.contains(&seq),
            PageType::File => !file_populated.contains(&seq),
        })
    }

    /// Covers `try_to_inc_min_seq()`.
    #[test]
    fn empty_generations_are_skipped() {
        assert_eq!(drained(60, &[8], &[9]), [8, 9]);
        assert_eq!(drained(60, &[7], &[9]), [7, 9]);
        assert_eq!(drained(60, &[], &[]), [9, 9], "two generations remain");
    }

    #[test]
    fn a_type_out_of_bounds_does_not_move() {
        assert_eq!(drained(0, &[], &[]), [7, 9]);
        assert_eq!(drained(201, &[], &[]), [9, 7]);
    }

    #[test]
    fn the_longer_window_counts() {
        let window = Window { max_seq: 10, min_seq: [7, 9] };
        assert_eq!(window.nr_gens_evictable(60.into()), 4);
        assert_eq!(window.nr_gens_evictable(0.into()), 2);
        assert_eq!(window.nr_gens_evictable(201.into()), 4);
    }
}

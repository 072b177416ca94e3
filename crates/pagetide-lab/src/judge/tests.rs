//! Tests of the judges by hand, by brute force, and against each other.

use super::{naive_clock, naive_fifo, naive_lru, opt};
use crate::trace::{Access, AccessKind, DenseTrace};
use pagetide_core::ids::{PageId, PageIndex};
use proptest::prelude::*;
use std::collections::BTreeSet;

/// Belady's own example of an anomaly: FIFO gets worse with a fourth frame.
const ANOMALY: [u64; 12] = [1, 2, 3, 4, 1, 2, 5, 1, 2, 3, 4, 5];

#[test]
fn fifo_shows_the_anomaly_and_lru_and_opt_do_not() {
    let trace = DenseTrace::from_reads(ANOMALY);
    assert_eq!([3, 4].map(|frames| naive_fifo::count_misses(&trace, frames)), [9, 10]);
    assert_eq!([3, 4].map(|frames| naive_lru::count_misses(&trace, frames)), [10, 8]);
    assert_eq!([3, 4].map(|frames| opt::count_misses(&trace, frames)), [7, 6]);
}

#[test]
fn a_loop_longer_than_memory_defeats_lru_fifo_and_clock_alike() {
    let trace = DenseTrace::from_reads((0..1000).map(|i| i % 10));
    for misses in [naive_lru::count_misses, naive_fifo::count_misses, naive_clock::count_misses] {
        assert_eq!(misses(&trace, 9), 1000);
        assert_eq!(misses(&trace, 10), 10);
    }
    // After the first round OPT misses once in every 9 accesses.
    assert_eq!(opt::count_misses(&trace, 9), 10 + 990 / 9);
}

#[test]
fn clock_gives_a_used_page_a_second_chance() {
    // 2 frames: 1 and 2 arrive, 1 is used, 3 comes: the hand spares 1 and takes 2.
    let trace = DenseTrace::from_reads([1, 2, 1, 3, 1, 2]);
    assert_eq!(naive_clock::count_misses(&trace, 2), 4);
    assert_eq!(naive_fifo::count_misses(&trace, 2), 5);
}

#[test]
fn next_uses_point_forward_to_the_same_page() {
    let trace = DenseTrace::from_reads([7, 8, 7, 9, 8]);
    assert_eq!(opt::next_uses(&trace), [2, 4, u32::MAX, u32::MAX, u32::MAX]);
}

fn entry(index: u64, kind: AccessKind) -> Access {
    let page = PageId { index: PageIndex(index), ..PageId::default() };
    Access { page, kind, thread: 0 }
}

#[test]
fn naive_judges_know_accesses_alone_and_opt_all_there_is() {
    let mut trace = DenseTrace::from_reads([1, 2]);
    trace.push(entry(3, AccessKind::Readahead));
    trace.push(entry(1, AccessKind::Discard));
    trace.push(entry(1, AccessKind::ReadAgain));
    trace.push(entry(3, AccessKind::TableWrite));
    assert_eq!((trace.nr_accesses(), trace.nr_pages()), (4, 3));
    for misses in [naive_lru::count_misses, naive_fifo::count_misses] {
        assert_eq!(misses(&trace, 3), 3, "1, 2 and 3 are new");
    }
    assert_eq!(opt::count_misses(&trace, 3), 3, "1 is new twice, and 3 was read ahead");
    trace.drop_readahead();
    assert_eq!(opt::count_misses(&trace, 3), 4);
}

/// Follows every choice of victims at once. Readahead and bypassing reads may also be left out.
fn brute_force(entries: &[(u64, AccessKind)], frames: usize) -> u64 {
    let mut reachable = BTreeSet::from([(0u64, BTreeSet::<u64>::new())]);
    for &(page, kind) in entries {
        let mut next = BTreeSet::new();
        for (mut misses, mut memory) in reachable {
            if kind == AccessKind::Discard {
                memory.remove(&page);
            } else if !memory.contains(&page) {
                misses += u64::from(kind.is_access());
                let mut with_page = memory.clone();
                with_page.insert(page);
                let victims = memory.iter().filter(|_| memory.len() == frames);
                next.extend(victims.map(|victim| {
                    let mut memory = with_page.clone();
                    memory.remove(victim);
                    (misses, memory)
                }));
                if memory.len() < frames {
                    next.insert((misses, with_page));
                }
                if !kind.is_unasked() && kind != AccessKind::Bypass {
                    continue;
                }
            }
            next.insert((misses, memory));
        }
        reachable = next;
    }
    reachable.first().expect("at least one memory is reachable").0
}

fn any_kind() -> impl Strategy<Value = AccessKind> {
    prop_oneof![
        4 => Just(AccessKind::Read),
        2 => Just(AccessKind::Readahead),
        1 => Just(AccessKind::Around),
        1 => Just(AccessKind::Discard),
        1 => Just(AccessKind::Bypass),
    ]
}

proptest! {
    #[test]
    fn opt_is_the_best_of_all_choices(
        pages in prop::collection::vec(0..6u64, 1..12),
        frames in 1..4usize,
    ) {
        let trace = DenseTrace::from_reads(pages.iter().copied());
        let entries: Vec<_> = pages.iter().map(|page| (*page, AccessKind::Read)).collect();
        prop_assert_eq!(opt::count_misses(&trace, frames), brute_force(&entries, frames));
    }

    #[test]
    fn opt_is_the_best_with_readahead_and_discards_as_well(
        entries in prop::collection::vec((0..6u64, any_kind()), 1..14),
        frames in 1..4usize,
    ) {
        let mut trace = DenseTrace::default();
        entries.iter().for_each(|&(index, kind)| trace.push(entry(index, kind)));
        prop_assert_eq!(opt::count_misses(&trace, frames), brute_force(&entries, frames));
    }

    #[test]
    fn nobody_beats_opt_and_nobody_misses_less_than_once_a_page(
        pages in prop::collection::vec(0..40u64, 1..400),
        frames in 1..50usize,
    ) {
        let trace = DenseTrace::from_reads(pages);
        let best = opt::count_misses(&trace, frames);
        prop_assert!(best >= trace.nr_pages() as u64);
        let lru = naive_lru::count_misses(&trace, frames);
        prop_assert!(lru >= best);
        prop_assert!(naive_fifo::count_misses(&trace, frames) >= best);
        prop_assert!(naive_clock::count_misses(&trace, frames) >= best);
        // LRU and OPT are stack algorithms: one more frame never hurts.
        let more = frames + 1;
        prop_assert!(naive_lru::count_misses(&trace, more) <= lru);
        prop_assert!(opt::count_misses(&trace, more) <= best);
    }
}

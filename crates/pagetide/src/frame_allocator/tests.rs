//! The allocator as a program sees it.

use super::*;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

fn allocator(memory: u64, nr_cpus: u32) -> FrameAllocator {
    FrameAllocator::builder()
        .memory(Bytes(memory))
        .huge_pages(false)
        .nr_cpus(nr_cpus)
        .build()
        .expect("a few megabytes")
}

fn check_all_free(allocator: &FrameAllocator) {
    allocator.drain();
    let stats = allocator.stats();
    assert_eq!((stats.nr_free, stats.nr_listed), (stats.nr_managed, 0));
}

#[test]
fn blocks_come_in_all_orders_and_go_back_when_dropped() {
    let allocator = allocator(16 << 20, 2);
    let blocks: Vec<_> =
        (0..=10).map(|order| allocator.alloc(Order(order)).expect("16 MiB are free")).collect();
    for block in &blocks {
        assert_eq!(block.first().0 % block.order().nr_frames(), 0);
        assert_eq!(block.as_ptr() as usize % 4096, 0);
        assert_eq!(block.len_bytes(), 4096 << block.order().0);
    }
    let stats = allocator.stats();
    assert_eq!(stats.nr_managed - stats.nr_free - stats.nr_listed, (1 << 11) - 1);
    drop(blocks);
    check_all_free(&allocator);
}

#[test]
fn the_last_frame_can_be_had_wherever_it_lies() {
    let allocator = allocator(1 << 20, 3);
    for _ in 0..2 {
        let all: Vec<_> = std::iter::from_fn(|| allocator.alloc(Order::BASE)).collect();
        assert_eq!(all.len(), 256);
    }
    check_all_free(&allocator);
}

#[test]
fn memory_of_no_or_too_few_frames_is_refused() {
    assert!(matches!(FrameAllocator::builder().build(), Err(BuildError::NoMemory)));
    let small = FrameAllocator::builder().memory(Bytes(4096));
    assert!(matches!(small.build(), Err(BuildError::TooSmall { .. })));
}

#[test]
fn every_tuning_serves_threads_that_share_few_lists() {
    // More threads than lists: try-locks fail, and everything still adds up.
    for tuning in PcpTuning::ALL {
        let builder = FrameAllocator::builder().memory(Bytes(16 << 20)).pcp_tuning(tuning);
        let allocator = builder.nr_cpus(1).huge_pages(false).build().expect("16 MiB");
        std::thread::scope(|scope| {
            for name in 1..=4_u8 {
                let allocator = &allocator;
                scope.spawn(move || {
                    for round in 0..200_u32 {
                        let order = Order((round % 4) as u8);
                        let blocks: Vec<_> =
                            (0..50).filter_map(|_| allocator.alloc(order)).collect();
                        // The addresses are this thread's alone.
                        let mut firsts: Vec<_> = blocks.iter().map(FrameBlock::first).collect();
                        firsts.sort_unstable();
                        firsts.dedup();
                        assert_eq!(firsts.len(), blocks.len(), "thread {name}");
                        if round % 64 == 0 {
                            allocator.drain();
                        }
                        allocator.tick();
                    }
                });
            }
        });
        check_all_free(&allocator);
    }
}

/// Whatever the threads do meanwhile: each frame is free, on a list, or somebody's. While they
/// work, no look at all three can be at one moment, so each round ends with everybody standing
/// still.
#[test]
fn free_listed_and_allocated_frames_are_all_there_are() {
    const NR_THREADS: usize = 3;
    for tuning in PcpTuning::ALL {
        let builder = FrameAllocator::builder().memory(Bytes(64 << 20)).pcp_tuning(tuning);
        let allocator = builder.nr_cpus(2).huge_pages(false).build().expect("64 MiB");
        let nr_held = AtomicU64::new(0);
        let meeting = Barrier::new(NR_THREADS + 1);
        std::thread::scope(|scope| {
            for name in 0..NR_THREADS {
                let (allocator, nr_held, meeting) = (&allocator, &nr_held, &meeting);
                scope.spawn(move || {
                    let mut held = Vec::new();
                    for round in 0..40 {
                        // Up and down, in all orders that have lists and some that have none.
                        for nth in 0..300 + 700 * (round % 3) {
                            let order = Order([0, 0, 0, 1, 3, 5, 0, 2][(nth + name) % 8]);
                            held.extend(allocator.alloc(order));
                        }
                        held.drain(..held.len() * (round % 4) / 3);
                        let mine = held.iter().map(|block| u64::from(block.order().nr_frames()));
                        nr_held.fetch_add(mine.sum(), Relaxed);
                        meeting.wait();
                        meeting.wait();
                    }
                });
            }
            for round in 0..40 {
                allocator.tick();
                let seen = allocator.stats();
                assert!(seen.nr_free <= seen.nr_managed, "{tuning}, round {round}");
                meeting.wait();
                let stats = allocator.stats();
                let sum = stats.nr_free + stats.nr_listed + nr_held.swap(0, Relaxed);
                assert_eq!(sum, stats.nr_managed, "{tuning}, round {round}");
                meeting.wait();
            }
        });
        check_all_free(&allocator);
    }
}

use super::*;
use pagetide_core::ids::CpuId;
use proptest::prelude::*;
use proptest::sample::Index;
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
    // More threads than lists, so that try-locks fail.
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
                        // Addresses are unique to this thread.
                        let mut firsts: Vec<_> = blocks.iter().map(FrameBlock::first).collect();
                        firsts.sort_unstable();
                        firsts.dedup();
                        assert_eq!(firsts.len(), blocks.len(), "thread {name}");
                        // Every third round frees parts, some of them rejoined.
                        if round % 3 == 0 {
                            let mut parts = blocks.into_iter().flat_map(|b| b.split(Order(1)));
                            while let (Some(one), Some(two)) = (parts.next(), parts.next()) {
                                assert_eq!(one.order(), order.min(Order(1)), "thread {name}");
                                let halves = one.buddy() == Some(two.first());
                                assert_eq!(one.join(two).is_ok(), halves, "thread {name}");
                            }
                        }
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

#[derive(Clone, Debug)]
enum Op {
    Alloc {
        order: u8,
    },
    /// Freed by a thread of this CPU, and so absent from other CPUs' lists.
    Free {
        which: Index,
        cpu: u32,
    },
    Split {
        which: Index,
        into: u8,
    },
    Tick,
}

const NR_LISTS: u32 = 4;

fn ops() -> impl Strategy<Value = Op> {
    let orders = prop_oneof![8 => 0..4u8, 2 => 4..9u8, 2 => Just(9u8), 1 => Just(10u8)];
    let free = (any::<Index>(), 0..NR_LISTS).prop_map(|(which, cpu)| Op::Free { which, cpu });
    prop_oneof![
        8 => orders.prop_map(|order| Op::Alloc { order }),
        7 => free,
        1 => (any::<Index>(), 0..9u8).prop_map(|(which, into)| Op::Split { which, into }),
        1 => Just(Op::Tick),
    ]
}

fn has_room(is_used: &[bool], order: Order) -> bool {
    let mut runs = is_used.chunks_exact(order.nr_frames() as usize);
    runs.any(|run| run.iter().all(|used| !used))
}

fn mark(is_used: &mut [bool], block: &FrameBlock<'_>, used: bool) {
    let first = block.first().0 as usize;
    let frames = &mut is_used[first..first + block.order().nr_frames() as usize];
    assert!(frames.iter().all(|&was| was != used), "{block:?} changes hands twice");
    frames.fill(used);
}

/// With frames on every CPU's lists, an allocation fails only if no free run is large enough.
fn fails_only_without_room(tuning: PcpTuning, nr_frames: u32, ops: &[Op]) {
    let memory = Bytes::from_pages(nr_frames.into());
    let builder = FrameAllocator::builder().memory(memory).pcp_tuning(tuning);
    let builder = builder.nr_cpus(NR_LISTS).percpu_pagelist_high_fraction(8).huge_pages(false);
    let allocator = builder.build().expect("a few megabytes");
    let mut is_used = vec![false; nr_frames as usize];
    let mut held: Vec<FrameBlock<'_>> = Vec::new();
    for op in ops {
        match op {
            Op::Alloc { order } => {
                // Many at a time, so that the lists run dry.
                for _ in 0..40 >> order {
                    let block = allocator.alloc(Order(*order));
                    assert_eq!(block.is_some(), has_room(&is_used, Order(*order)), "{op:?}");
                    let Some(block) = block else { break };
                    mark(&mut is_used, &block, true);
                    held.push(block);
                }
            }
            Op::Free { which, cpu } => {
                for _ in 0..30.min(held.len()) {
                    let block = held.swap_remove(which.index(held.len()));
                    mark(&mut is_used, &block, false);
                    allocator.zone.free(CpuId(*cpu), block.order(), [block.first()]);
                    std::mem::forget(block);
                }
            }
            Op::Split { which, into } if !held.is_empty() => {
                let block = held.swap_remove(which.index(held.len()));
                held.extend(block.split(Order(*into)));
            }
            Op::Split { .. } => {}
            Op::Tick => allocator.tick(),
        }
    }
    drop(held);
    check_all_free(&allocator);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn an_allocation_fails_only_where_no_list_holds_its_block(
        nr_frames in 64..5000_u32, ops in prop::collection::vec(ops(), 1..120)
    ) {
        for tuning in PcpTuning::ALL {
            fails_only_without_room(tuning, nr_frames, &ops);
        }
    }
}

/// The memory equals the threads' maximum, so a block is always free, on a list or on the way to
/// one: no call may fail.
#[test]
fn threads_that_share_the_last_blocks_are_never_refused() {
    const NR_THREADS: usize = 4;
    const EACH: usize = 12;
    for order in [0, 3, 5, 9].map(Order) {
        let builder = FrameAllocator::builder().memory(Bytes(128 << 20)).nr_cpus(3);
        let builder = builder.percpu_pagelist_high_fraction(8).huge_pages(false);
        let allocator = builder.build().expect("128 MiB of addresses");
        let mut all: Vec<_> = std::iter::from_fn(|| allocator.alloc(order)).collect();
        assert_eq!(all.len(), 32768 >> order.0);
        all.truncate(all.len() - NR_THREADS * EACH);
        std::thread::scope(|scope| {
            for name in 0..NR_THREADS {
                let allocator = &allocator;
                scope.spawn(move || {
                    let mut held = Vec::new();
                    for round in 0..3000 {
                        while held.len() < EACH {
                            held.push(allocator.alloc(order).expect("a block is free"));
                        }
                        // Freed as by a thread of another CPU.
                        for (nth, block) in held.drain((round + name) % EACH..).enumerate() {
                            let cpu = CpuId((nth + round) as u32 % 3);
                            allocator.zone.free(cpu, order, [block.first()]);
                            std::mem::forget(block);
                        }
                    }
                });
            }
        });
        drop(all);
        check_all_free(&allocator);
    }
}

/// Each frame is free, on a list, or allocated. Rounds end with all threads paused, to read the
/// three counts consistently.
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
                        // Up and down, in orders with and without lists.
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

#[test]
fn a_split_block_goes_back_in_parts_and_merges() {
    let allocator = allocator(16 << 20, 2);
    let huge = allocator.alloc(Order(9)).expect("16 MiB are free");
    let (first, start) = (huge.first(), huge.as_ptr() as usize);
    assert_eq!(start % (2 << 20), 0, "a huge page's place");
    let mut parts = huge.split(Order(3));
    assert_eq!(parts.len(), 64);
    let kept: Vec<_> = parts.by_ref().take(10).collect();
    for (nth, part) in kept.iter().enumerate() {
        assert_eq!((part.order(), part.first().0), (Order(3), first.0 + 8 * nth as u32));
        assert_eq!(part.as_ptr() as usize, start + nth * part.len_bytes());
    }
    assert_eq!(allocator.stats().nr_in_use(), 512, "the iterator holds the others");
    drop(parts);
    assert_eq!(allocator.stats().nr_in_use(), 80);
    let singles: Vec<_> = kept.into_iter().flat_map(|part| part.split(Order::BASE)).collect();
    assert_eq!(singles.len(), 80);
    let singles: Vec<_> = singles.into_iter().flat_map(|single| single.split(Order(4))).collect();
    assert_eq!((singles.len(), allocator.stats().zone.nr_blocks_split), (80, 11));
    drop(singles);
    check_all_free(&allocator);
    assert_eq!(allocator.stats().free_blocks.nr_blocks(Order::MAX), 4);
}

#[test]
fn parts_join_to_the_block_they_were() {
    let allocator = allocator(16 << 20, 2);
    let whole = allocator.alloc(Order::MAX).expect("16 MiB are free");
    let first = whole.first();
    let mut blocks: Vec<_> = whole.split(Order::BASE).collect();
    while blocks.len() > 1 {
        let mut halves = blocks.into_iter();
        let mut joined = Vec::new();
        while let (Some(one), Some(two)) = (halves.next(), halves.next()) {
            assert_eq!(one.buddy(), Some(two.first()));
            joined.push(one.join(two).expect("neighbours"));
        }
        blocks = joined;
    }
    let whole = blocks.pop().expect("one is left");
    assert_eq!((whole.first(), whole.order(), whole.buddy()), (first, Order::MAX, None));
    assert_eq!(allocator.stats().zone.nr_blocks_joined, 1023);
    drop(whole);
    check_all_free(&allocator);
}

#[test]
fn blocks_that_do_not_join_come_back_with_a_reason() {
    let (allocator, stranger) = (allocator(1 << 20, 1), allocator(1 << 20, 1));
    let mut quarters = allocator.alloc(Order(2)).expect("1 MiB is free").split(Order::BASE);
    let [one, two, three, four] = [(); 4].map(|()| quarters.next().expect("of four"));
    let elsewhere = stranger.alloc(Order::BASE).expect("1 MiB is free");
    let pair = three.join(four).expect("neighbours");

    let error = one.join(pair).expect_err("they differ in length");
    assert!(error.to_string().contains("of order 0 and Fx2 of order 1 differ"), "{error}");
    let [one, pair] = error.into_blocks();
    let error = two.join(elsewhere).expect_err("they are not of one allocator");
    assert!(error.to_string().contains("are of two allocators"), "{error}");
    let [two, elsewhere] = error.into_blocks();
    let other = allocator.alloc(Order::BASE).expect("1 MiB is free");
    let error = two.join(other).expect_err("they are not buddies");
    assert!(error.to_string().contains("the other half of Fx1 is Fx0"), "{error}");
    let [two, other] = error.into_blocks();

    let pair = one.join(two).expect("neighbours").join(pair).expect("neighbours");
    assert_eq!(pair.order(), Order(2));
    drop((pair, other, elsewhere));
    check_all_free(&allocator);
    check_all_free(&stranger);

    let large = self::allocator(8 << 20, 1);
    let [one, two] = [(); 2].map(|()| large.alloc(Order::MAX).expect("8 MiB are free"));
    let error = one.join(two).expect_err("nothing is larger");
    assert!(error.to_string().contains("as large as blocks get, order 10"), "{error}");
}

#[test]
fn orders_that_no_block_has_are_refused() {
    let allocator = allocator(16 << 20, 1);
    for order in [11, 32, 64, 255] {
        assert!(allocator.alloc(Order(order)).is_none(), "order {order}");
    }
    check_all_free(&allocator);
}

#[test]
fn a_fraction_bounds_the_lists_and_is_checked() {
    let builder = FrameAllocator::builder().memory(Bytes(64 << 20)).nr_cpus(2).huge_pages(false);
    let allocator = builder.percpu_pagelist_high_fraction(16).build().expect("64 MiB");
    assert_eq!(allocator.stats().nr_listed_max, 16384 / 16);
    let error = builder.percpu_pagelist_high_fraction(7).build().expect_err("too large");
    let expected = "knob percpu_pagelist_high_fraction is 7, outside its range 8 to 65535";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn stats_explain_themselves() {
    let allocator = allocator(16 << 20, 2);
    let blocks: Vec<_> = (0..3).filter_map(|_| allocator.alloc(Order(5))).collect();
    let single = allocator.alloc(Order::BASE).expect("free");
    let mut parts = allocator.alloc(Order(4)).expect("free").split(Order(3));
    let pair = [parts.next().expect("of two"), parts.next().expect("of two")];
    let expected = "\
16M in 4096 frames: 113 in use, 3983 free
lists       2 hold 0 frames, and may hold 161
free blocks     4K     8K    16K    32K    64K   128K   256K   512K     1M     2M     4M
                 1      1      1      1      0      0      0      1      1      1      3
fragments   10.0 % of the free frames in pieces under 2M, the largest piece 4M
zone        5 visits took 113 frames, 0 returned 0; 0 found the lock taken
blocks      1 split, 0 joined";
    assert_eq!(allocator.stats().to_string(), expected);
    drop((blocks, single, pair));
    check_all_free(&allocator);
}

#[test]
fn a_panic_gives_back_what_its_thread_held_and_breaks_nothing() {
    let allocator = allocator(16 << 20, 1);
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _single = allocator.alloc(Order::BASE).expect("16 MiB are free");
        let mut parts = allocator.alloc(Order(5)).expect("16 MiB are free").split(Order(2));
        let _part = parts.next().expect("of eight");
        panic!("expected: in the program, not in the allocator");
    }));
    assert!(panicked.is_err());
    drop(allocator.alloc(Order::BASE).expect("16 MiB are free"));
    check_all_free(&allocator);
}

/// The tuning loses its state if two seconds pass between clock updates, and sees nothing below one
/// second.
#[test]
fn the_depth_tuning_is_told_the_time_often_enough_to_find_each_second() {
    let builder = FrameAllocator::builder().memory(Bytes(64 << 20)).pcp_tuning(PcpTuning::Depth);
    let allocator = builder.nr_cpus(1).huge_pages(false).build().expect("64 MiB");
    let period_ms = allocator.zone.tick_period().as_millis() as u64;
    let mut now = Millis(10_000);
    for call in 0..80 {
        // In time, or late on a busy machine.
        now = Millis(now.0 + period_ms + call % 3 * 60);
        allocator.zone.tick(now);
        let held: Vec<_> = (0..1000).map(|_| allocator.alloc(Order::BASE)).collect();
        drop(held);
    }
    let limit = allocator.stats().nr_listed_max;
    assert!((980..=1000).contains(&limit), "runs of 1000, a limit of {limit}");
}

#[test]
fn statistics_answer_after_a_double_free() {
    for order in [Order::BASE, Order::MAX] {
        let allocator = allocator(64 << 20, 1);
        let (cpu, first) = (current_cpu(), allocator.alloc(order).unwrap().first);
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            allocator.zone.free(cpu, order, [first, first]);
            allocator.drain();
        }));
        assert!(panicked.is_err(), "{order:?}: freed once more than it was taken");
        assert_eq!(allocator.stats().nr_managed, (64 << 20) / 4096);
    }
}

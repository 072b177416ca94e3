//! The allocator as a program sees it.

use super::*;

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

//! Splits and merges as in Linux 6.18, and odd zones.

use alloc::vec::Vec;

use super::*;

fn take(buddy: &mut Buddy, order: u8) -> u32 {
    let frame = buddy.take(Order(order)).expect("a free block");
    buddy.table.set_allocated(frame, Order(order));
    frame.0
}

fn put(buddy: &mut Buddy, frame: u32, order: u8) {
    buddy.put(FrameId(frame), Order(order));
    buddy.validate();
}

fn free_list(buddy: &Buddy, order: u8) -> Vec<u32> {
    let mut frames = Vec::new();
    buddy.lists[usize::from(order)].validate(&buddy.table, |frame| frames.push(frame.0));
    frames
}

#[test]
fn taking_one_frame_splits_from_the_left() {
    let mut buddy = Buddy::new(16, 16);
    assert_eq!(take(&mut buddy, 3), 0);
    assert_eq!(free_list(&buddy, 3), [8]);
    assert_eq!(take(&mut buddy, 0), 8);
    assert_eq!(free_list(&buddy, 0), [9]);
    assert_eq!(free_list(&buddy, 1), [10]);
    assert_eq!(free_list(&buddy, 2), [12]);
    buddy.validate();
}

#[test]
fn freeing_next_to_a_free_buddy_merges() {
    let mut buddy = Buddy::new(16, 16);
    assert_eq!(take(&mut buddy, 3), 0);
    assert_eq!(take(&mut buddy, 2), 8);
    assert_eq!(take(&mut buddy, 2), 12);
    put(&mut buddy, 8, 2);
    assert_eq!(free_list(&buddy, 2), [8]);
    put(&mut buddy, 12, 2);
    assert!(free_list(&buddy, 2).is_empty());
    assert_eq!(free_list(&buddy, 3), [8]);
}

#[test]
fn merging_stops_at_the_largest_order() {
    let mut buddy = Buddy::new(4096, 4096);
    let frames: Vec<u32> = (0..4096).map(|_| take(&mut buddy, 0)).collect();
    assert_eq!(buddy.nr_free, 0);
    for frame in frames {
        buddy.put(FrameId(frame), Order(0));
    }
    buddy.validate();
    assert_eq!(buddy.blocks.nr_blocks(Order::MAX), 4);
    assert_eq!(buddy.nr_free, 4096);
}

#[test]
fn freed_blocks_go_to_the_head_unless_they_will_soon_grow() {
    let mut buddy = Buddy::new(16, 16);
    let frames: Vec<u32> = (0..16).map(|_| take(&mut buddy, 0)).collect();
    assert_eq!(frames.len(), 16);
    put(&mut buddy, 4, 0);
    put(&mut buddy, 8, 0);
    assert_eq!(free_list(&buddy, 0), [8, 4], "the latest at the head");
    put(&mut buddy, 12, 0);
    put(&mut buddy, 13, 0);
    assert_eq!(free_list(&buddy, 1), [12]);
    // 14 and 15 would make the buddy of 12, so 15 waits at the tail.
    put(&mut buddy, 15, 0);
    assert_eq!(free_list(&buddy, 0), [8, 4, 15]);
}

#[test]
fn blocks_that_could_only_reach_the_largest_order_go_to_the_head() {
    let mut buddy = Buddy::new(4096, 4096);
    let frames: Vec<u32> = (0..8).map(|_| take(&mut buddy, 9)).collect();
    assert_eq!(frames[..4], [0, 512, 1024, 1536]);
    put(&mut buddy, 2048, 9);
    put(&mut buddy, 1024, 9);
    put(&mut buddy, 1536, 9);
    // Block 0 and 512 would meet the largest block at 1024: no merge.
    put(&mut buddy, 0, 9);
    assert_eq!(free_list(&buddy, 9), [0, 2048]);
}

#[test]
fn the_tail_rule_looks_at_merged_blocks_too() {
    let mut buddy = Buddy::new(32, 32);
    let frames: Vec<u32> = (0..8).map(|_| take(&mut buddy, 2)).collect();
    assert_eq!(frames, [0, 4, 8, 12, 16, 20, 24, 28]);
    put(&mut buddy, 0, 2);
    put(&mut buddy, 24, 2);
    put(&mut buddy, 28, 2);
    assert_eq!(free_list(&buddy, 3), [24]);
    put(&mut buddy, 16, 2);
    assert_eq!(free_list(&buddy, 2), [0, 16], "its buddy's union would meet the block at 24");
}

#[test]
fn any_number_of_frames_becomes_aligned_blocks() {
    for nr_frames in (1..70).chain([511, 512, 513, 1023, 1025, 2047, 5000]) {
        let buddy = Buddy::new(nr_frames, nr_frames);
        buddy.validate();
        assert_eq!(buddy.nr_free, u64::from(nr_frames));
        let nr_blocks: u32 = (0..=Order::MAX.0).map(|o| buddy.blocks.nr_blocks(Order(o))).sum();
        assert_eq!(nr_blocks, nr_frames / 1024 + (nr_frames % 1024).count_ones());
    }
}

#[test]
fn offline_blocks_come_back_in_the_pieces_asked_for() {
    let mut buddy = Buddy::new(100, 37);
    buddy.validate();
    assert_eq!((buddy.nr_free, buddy.nr_offline), (37, 63));
    let mut nr_left = 40;
    while nr_left > 0 {
        let (frame, order) = buddy.take_offline(nr_left).expect("63 frames are offline");
        nr_left -= order.nr_frames();
        put(&mut buddy, frame.0, order.0);
    }
    assert_eq!((buddy.nr_free, buddy.nr_offline), (77, 23));
    while let Some((frame, order)) = buddy.take_offline(u32::MAX) {
        put(&mut buddy, frame.0, order.0);
    }
    assert_eq!(buddy.nr_free, 100);
    assert_eq!(buddy.blocks.nr_blocks(Order(6)), 1, "merged to 64 + 32 + 4");
}

//! Checks, resizing and misuse.

use alloc::vec::Vec;

use super::*;

fn zone(nr_frames: u32) -> Zone {
    Zone::new(ZoneConfig::with_frames(nr_frames))
}

fn any(order: u8) -> AllocRequest {
    AllocRequest::fast(Order(order)).at(None)
}

fn take(zone: &mut Zone, order: u8) -> FrameId {
    zone.alloc(&any(order)).expect("a free block")
}

/// Allocates every frame.
fn fill(zone: &mut Zone) -> Vec<FrameId> {
    core::iter::from_fn(|| zone.alloc(&any(0))).collect()
}

#[test]
fn allocation_stops_at_the_level_asked_for() {
    let mut zone = zone(4096);
    let fast = AllocRequest::fast(Order(0));
    let mut nr_taken = 0;
    let mut take_all = |request: &AllocRequest| {
        while zone.alloc(request).is_some() {
            nr_taken += 1;
        }
        assert_eq!(zone.nr_free(), 4096 - nr_taken);
        zone.nr_free()
    };
    assert_eq!(take_all(&fast), 160);
    assert_eq!(take_all(&fast.at(Some(WatermarkLevel::Min))), 128);
    assert_eq!(take_all(&fast.at(None)), 0);
    zone.validate();
}

#[test]
fn a_batch_is_checked_once_and_stops_when_the_lists_are_dry() {
    let mut zone = zone(4096);
    let request = AllocRequest::fast(Order(2));
    let mut frames = Vec::new();
    assert_eq!(zone.alloc_bulk(&request, 10, |_, frame| frames.push(frame)), 10);
    assert_eq!((frames.len(), zone.nr_free()), (10, 4056));
    assert_eq!(zone.stats().nr_alloc_visits, 1);
    assert_eq!(zone.stats().nr_frames_taken, 40);
    assert_eq!(zone.alloc_bulk(&request, 10_000, |_, _| {}), 1014);
    assert_eq!(zone.alloc_bulk(&request, 1, |_, _| {}), 0);
    assert_eq!(zone.stats().nr_alloc_visits, 2, "a refused visit is not counted");
}

#[test]
fn shrinking_takes_large_free_blocks_and_growing_gives_them_back() {
    let mut zone = zone(4096);
    let held = take(&mut zone, 0);
    let mut nr_told = 0;
    let nr_taken = zone.take_free(3000, |_, order| nr_told += order.nr_frames());
    assert_eq!((nr_taken, nr_told), (3000, 3000));
    assert_eq!((zone.nr_managed(), zone.nr_free()), (1096, 1095));
    zone.rederive_watermarks();
    assert_eq!(zone.watermarks().mark(WatermarkLevel::Min), 66);
    zone.validate();
    assert_eq!(zone.take_free(2000, |_, _| {}), 1095, "only free frames can go");
    assert_eq!((zone.nr_managed(), zone.nr_free()), (1, 0));
    zone.rederive_watermarks();
    zone.validate();
    assert_eq!(zone.give_back(100, |_, _| {}), 100);
    zone.validate();
    assert_eq!(zone.give_back(5000, |_, _| {}), 3995);
    zone.rederive_watermarks();
    assert_eq!(zone.watermarks().mark(WatermarkLevel::Min), 128);
    zone.free(held, Order(0));
    assert_eq!(zone.free_blocks().nr_blocks(Order::MAX), 4, "all merged again");
    zone.validate();
}

#[test]
fn a_zone_can_start_smaller_than_its_arena() {
    let mut zone = Zone::new(ZoneConfig { nr_online: 16, ..ZoneConfig::with_frames(1000) });
    zone.validate();
    assert_eq!((zone.nr_frames(), zone.nr_managed(), zone.nr_free()), (1000, 16, 16));
    let frames = fill(&mut zone);
    assert_eq!(frames.len(), 16);
    assert!(frames.iter().all(|frame| frame.0 < 16));
}

#[test]
fn every_frame_of_the_smallest_zones_but_min_can_be_used() {
    for (nr_frames, usable) in [(1, 1), (2, 2), (15, 15), (16, 15), (64, 60)] {
        let mut zone = zone(nr_frames);
        let direct = AllocRequest::fast(Order(0)).at(Some(WatermarkLevel::Min));
        let nr_taken = core::iter::from_fn(|| zone.alloc(&direct)).count();
        assert_eq!(nr_taken, usable, "{nr_frames} frames");
        zone.validate();
    }
}

#[test]
#[should_panic(expected = "double free: Fx0 is free in the zone already")]
fn a_double_free_is_caught() {
    let mut zone = zone(64);
    let frame = take(&mut zone, 0);
    take(&mut zone, 0);
    zone.free(frame, Order(0));
    zone.free(frame, Order(0));
}

#[test]
#[should_panic(expected = "no block's first frame")]
fn a_double_free_of_a_merged_block_is_caught() {
    let mut zone = zone(64);
    let first = take(&mut zone, 0);
    let second = take(&mut zone, 0);
    zone.free(first, Order(0));
    zone.free(second, Order(0));
    zone.free(second, Order(0));
}

#[test]
#[should_panic(expected = "foreign free: Fx40 is outside this zone's 64 frames")]
fn a_frame_of_another_zone_is_refused() {
    zone(64).free(FrameId(64), Order(0));
}

#[test]
#[should_panic(expected = "foreign free: Fx3f is offline")]
fn an_offline_frame_is_refused() {
    Zone::new(ZoneConfig { nr_online: 63, ..ZoneConfig::with_frames(64) })
        .free(FrameId(63), Order(0));
}

#[test]
#[should_panic(expected = "Fx0 was allocated at order o2 but is freed at order o1")]
fn a_wrong_order_is_refused() {
    let mut zone = zone(64);
    let frame = take(&mut zone, 2);
    zone.free(frame, Order(1));
}

#[test]
fn no_block_is_larger_than_the_largest() {
    let mut zone = zone(4096);
    for order in [11, 31, 32, 64, 255] {
        assert_eq!(zone.alloc(&any(order)), None, "order {order}");
        assert_eq!(zone.alloc(&AllocRequest::fast(Order(order))), None, "order {order}");
    }
    assert_eq!((zone.nr_free(), *zone.stats()), (4096, ZoneStats::default()));
}

//! Drains with a fixed limit as in Linux 6.6, and their order.

use alloc::vec::Vec;

use super::*;
use crate::page_alloc::watermark::WatermarkLevel;
use crate::page_alloc::zone::ZoneConfig;
use crate::units::Millis;

const CALM: ZoneSignals = ZoneSignals { reclaim_active: false, now: Millis(0) };
const RECLAIM: ZoneSignals = ZoneSignals { reclaim_active: true, now: Millis(0) };

fn zone(nr_frames: u32) -> Zone {
    Zone::new(ZoneConfig::with_frames(nr_frames))
}

fn request(order: u8) -> AllocRequest {
    AllocRequest::fast(Order(order)).at(None)
}

fn fixed(limits: PcpLimits) -> Pcp {
    Pcp::with_tuning(limits, PcpTuning::Fixed)
}

/// Takes blocks from the zone, as another CPU would.
fn take(zone: &mut Zone, nr_blocks: u32, order: u8) -> Vec<FrameId> {
    let mut frames = Vec::new();
    zone.alloc_bulk(&request(order), nr_blocks, |_, frame| frames.push(frame));
    assert_eq!(frames.len(), nr_blocks as usize);
    frames
}

fn free(pcp: &mut Pcp, zone: &mut Zone, frame: FrameId, order: u8, flags: ZoneSignals) -> u32 {
    let Some(drain) = pcp.free(zone.table(), frame, Order(order), flags) else { return 0 };
    let before = zone.nr_free();
    pcp.drain(zone, drain);
    (zone.nr_free() - before) as u32
}

fn full_drain(pcp: &mut Pcp, zone: &mut Zone) {
    while let Some(drain) = pcp.full_drain() {
        pcp.drain(zone, drain);
    }
    assert_eq!(pcp.count(), 0);
    pcp.validate(zone.table());
    zone.validate();
}

#[test]
fn lists_are_numbered_by_order() {
    for (list, order) in [0, 1, 2, 3, 9].into_iter().enumerate() {
        assert_eq!(list_of(Order(order)), Some(list));
        assert_eq!(order_of(list), Order(order));
    }
    for order in [4, 5, 8, 10] {
        assert_eq!(list_of(Order(order)), None);
    }
}

#[test]
fn a_run_of_frees_drains_ever_more() {
    let mut zone = zone(16384);
    let mut pcp = fixed(PcpLimits::fixed(63, 1036));
    let frames = take(&mut zone, 8000, 0);
    let (mut drained, mut left) = (Vec::new(), Vec::new());
    for frame in frames {
        let nr_frames = free(&mut pcp, &mut zone, frame, 0, CALM);
        if nr_frames > 0 {
            drained.push(nr_frames);
            left.push(pcp.count());
        }
    }
    assert_eq!(drained[..6], [63, 126, 252, 504, 973, 973]);
    assert_eq!(left[..6], [973, 910, 784, 532, 63, 63]);
    full_drain(&mut pcp, &mut zone);
    assert_eq!(zone.nr_free(), 16384);
}

#[test]
fn the_scale_of_drains_is_capped() {
    let mut zone = zone(100_000);
    let mut pcp = fixed(PcpLimits::fixed(63, 10_000));
    let mut drained = Vec::new();
    for frame in take(&mut zone, 30_000, 0) {
        drained.extend(Some(free(&mut pcp, &mut zone, frame, 0, CALM)).filter(|&n| n > 0));
    }
    assert_eq!(drained[..8], [63, 126, 252, 504, 1008, 2016, 2016, 2016]);
}

#[test]
fn an_allocation_halves_the_drain_scale() {
    let mut zone = zone(16384);
    let mut pcp = fixed(PcpLimits::fixed(63, 1036));
    let mut frames = take(&mut zone, 3000, 0).into_iter();
    let mut next_drain = |pcp: &mut Pcp, zone: &mut Zone| {
        frames.by_ref().find_map(|frame| Some(free(pcp, zone, frame, 0, CALM)).filter(|&n| n > 0))
    };
    assert_eq!(next_drain(&mut pcp, &mut zone), Some(63));
    assert_eq!(next_drain(&mut pcp, &mut zone), Some(126));
    assert_eq!(next_drain(&mut pcp, &mut zone), Some(252));
    // The factor is 3. One allocation makes it 1, another 0.
    assert!(pcp.alloc(zone.table(), &request(0)).is_some());
    assert_eq!(next_drain(&mut pcp, &mut zone), Some(126));
}

#[test]
fn the_drain_scale_stops_growing_where_the_limit_stops_the_drain() {
    let mut zone = zone(16384);
    let mut pcp = fixed(PcpLimits::fixed(63, 252));
    let mut frames = take(&mut zone, 3000, 0).into_iter();
    let mut next_drain = |pcp: &mut Pcp, zone: &mut Zone| {
        frames.by_ref().find_map(|frame| Some(free(pcp, zone, frame, 0, CALM)).filter(|&n| n > 0))
    };
    for nr_frames in [63, 126, 189, 189, 189, 189] {
        assert_eq!(next_drain(&mut pcp, &mut zone), Some(nr_frames));
    }
    // The factor stayed at 2. One allocation makes it 1.
    assert!(pcp.alloc(zone.table(), &request(0)).is_some());
    assert_eq!(next_drain(&mut pcp, &mut zone), Some(126));
}

#[test]
fn a_refill_takes_a_batch_by_frames_but_two_blocks_at_least() {
    let refilled = |batch, high, order| {
        let mut zone = zone(8192);
        let mut pcp = fixed(PcpLimits::fixed(batch, high));
        assert!(pcp.refill(&mut zone, &request(order)).is_some());
        (pcp.count() >> order) + 1
    };
    assert_eq!([0, 1, 2, 3, 9].map(|order| refilled(63, 1036, order)), [63, 31, 15, 7, 2]);
    assert_eq!([0, 3, 9].map(|order| refilled(1, 4, order)), [1, 1, 1]);
}

#[test]
fn refilled_frames_are_not_free_and_come_out_in_order() {
    let mut zone = zone(65536);
    let mut pcp = fixed(PcpLimits::fixed(63, 1036));
    let order_2 = request(2);
    assert_eq!(pcp.alloc(zone.table(), &order_2), None);
    assert_eq!(pcp.refill(&mut zone, &order_2), Some(FrameId(0)));
    assert_eq!((zone.nr_free(), pcp.count()), (65536 - 60, 56));
    assert_eq!(zone.table().state(FrameId(0)), FrameState::Allocated(Order(2)));
    assert_eq!(zone.table().state(FrameId(4)), FrameState::InPcp(Order(2)));
    for frame in 1..15 {
        assert_eq!(pcp.alloc(zone.table(), &order_2), Some(FrameId(4 * frame)));
    }
    assert_eq!(pcp.alloc(zone.table(), &order_2), None);
    assert_eq!((zone.nr_free(), pcp.count()), (65536 - 60, 0));
    pcp.validate(zone.table());
}

#[test]
fn the_hottest_frame_comes_back_first() {
    let mut zone = zone(4096);
    let mut pcp = fixed(PcpLimits::fixed(63, 1036));
    let frames = take(&mut zone, 3, 0);
    for frame in &frames {
        assert_eq!(free(&mut pcp, &mut zone, *frame, 0, CALM), 0);
    }
    for frame in frames.iter().rev() {
        assert_eq!(pcp.alloc(zone.table(), &request(0)), Some(*frame));
    }
}

#[test]
fn drains_empty_the_freed_list_from_its_tail_then_go_around() {
    let mut zone = zone(16384);
    let mut pcp = fixed(PcpLimits::fixed(4, 100));
    let singles = take(&mut zone, 5, 0);
    let pairs = take(&mut zone, 2, 1);
    let huge = take(&mut zone, 1, 9);
    let is_in_pcp =
        |zone: &Zone, frame: &FrameId| matches!(zone.table().state(*frame), FrameState::InPcp(_));
    for (frames, order) in [(&singles, 0), (&pairs, 1)] {
        for frame in frames {
            assert_eq!(free(&mut pcp, &mut zone, *frame, order, CALM), 0);
        }
    }
    // 521 frames exceed the limit of 100. The huge block is enough.
    assert_eq!(free(&mut pcp, &mut zone, huge[0], 9, CALM), 512);
    // First both pairs (list 1), then the coldest single (list 0).
    pcp.drain(&mut zone, Drain(Work::Frames { nr_frames: 5, first_list: 1 }));
    assert!(pairs.iter().all(|frame| !is_in_pcp(&zone, frame)));
    let left: Vec<&FrameId> = singles.iter().filter(|frame| is_in_pcp(&zone, frame)).collect();
    assert_eq!(left, singles[1..].iter().collect::<Vec<_>>());
    full_drain(&mut pcp, &mut zone);
}

#[test]
fn a_run_of_higher_order_frees_sends_everything_back() {
    let mut zone = zone(65536);
    let mut pcp = fixed(PcpLimits::fixed(63, 1036));
    let singles = take(&mut zone, 1036, 0);
    let fours = take(&mut zone, 3, 2);
    assert_eq!(free(&mut pcp, &mut zone, fours[0], 2, CALM), 0, "no run yet");
    let drained: u32 =
        singles[..1032].iter().map(|frame| free(&mut pcp, &mut zone, *frame, 0, CALM)).sum();
    assert_eq!((drained, pcp.count()), (63, 973));
    // The drain made it a run.
    assert_eq!(free(&mut pcp, &mut zone, fours[1], 2, CALM), 977);
    assert_eq!(pcp.count(), 0);
    // The run lasts until an allocation.
    assert_eq!(free(&mut pcp, &mut zone, singles[1032], 0, CALM), 0);
    assert_eq!(pcp.alloc(zone.table(), &request(0)), Some(singles[1032]));
    assert_eq!(free(&mut pcp, &mut zone, fours[2], 2, CALM), 0);
    full_drain(&mut pcp, &mut zone);
}

#[test]
fn lists_keep_little_while_reclaim_is_active() {
    let mut zone = zone(65536);
    let mut pcp = fixed(PcpLimits::fixed(63, 1036));
    let frames = take(&mut zone, 600, 0);
    for frame in &frames[..500] {
        assert_eq!(free(&mut pcp, &mut zone, *frame, 0, CALM), 0);
    }
    // The limit is 4 * 63 = 252, and at most 252 - 63 = 189 go at once.
    let drained: Vec<u32> =
        frames[500..].iter().map(|frame| free(&mut pcp, &mut zone, *frame, 0, RECLAIM)).collect();
    assert_eq!(drained[..3], [63, 126, 189]);
    full_drain(&mut pcp, &mut zone);
}

#[test]
fn disabled_lists_pass_everything_through() {
    let mut zone = zone(64);
    let mut pcp = fixed(PcpLimits::DISABLED);
    let one = request(0);
    assert_eq!(pcp.alloc(zone.table(), &one), None);
    let frame = pcp.refill(&mut zone, &one).expect("an empty zone");
    assert_eq!((zone.nr_free(), pcp.count()), (63, 0));
    assert_eq!(free(&mut pcp, &mut zone, frame, 0, CALM), 1);
    assert_eq!((zone.nr_free(), pcp.count()), (64, 0));
}

#[test]
fn orders_without_a_list_go_past_the_lists() {
    let mut zone = zone(4096);
    let mut pcp = fixed(PcpLimits::fixed(63, 1036));
    let order_5 = request(5);
    assert_eq!(pcp.alloc(zone.table(), &order_5), None);
    let frame = pcp.refill(&mut zone, &order_5).expect("an empty zone");
    assert_eq!((zone.nr_free(), pcp.count()), (4096 - 32, 0));
    assert_eq!(free(&mut pcp, &mut zone, frame, 5, CALM), 32);
    assert_eq!((zone.nr_free(), pcp.count()), (4096, 0));
}

#[test]
fn huge_blocks_are_kept_too() {
    let mut zone = zone(16 * 512);
    let mut pcp = fixed(PcpLimits::fixed(63, 2000));
    let huge = request(9);
    let frame = pcp.refill(&mut zone, &huge).expect("an empty zone");
    assert_eq!(pcp.count(), 512, "a refill takes two");
    assert_eq!(free(&mut pcp, &mut zone, frame, 9, CALM), 0);
    assert_eq!(pcp.alloc(zone.table(), &huge), Some(frame));
    full_drain(&mut pcp, &mut zone);
}

#[test]
fn a_refill_respects_the_level() {
    let mut zone = zone(4096);
    let mut pcp = fixed(PcpLimits::fixed(63, 1036));
    take(&mut zone, 4096 - 160, 0);
    let fast = AllocRequest::fast(Order(0));
    assert_eq!(pcp.refill(&mut zone, &fast), None, "free frames equal LOW");
}

#[test]
fn full_drains_come_in_bounded_pieces() {
    let mut zone = zone(16384);
    let mut pcp = fixed(PcpLimits::fixed(3, 1000));
    for frame in take(&mut zone, 200, 0) {
        assert_eq!(free(&mut pcp, &mut zone, frame, 0, CALM), 0);
    }
    let mut pieces = Vec::new();
    while let Some(drain) = pcp.full_drain() {
        pieces.push(drain.nr_frames());
        pcp.drain(&mut zone, drain);
    }
    assert_eq!(pieces, [96, 96, 8]);
}

#[test]
fn new_limits_apply_from_the_next_free() {
    let mut zone = zone(16384);
    let mut pcp = fixed(PcpLimits::fixed(63, 1036));
    let frames = take(&mut zone, 501, 0);
    for frame in &frames[..500] {
        assert_eq!(free(&mut pcp, &mut zone, *frame, 0, CALM), 0);
    }
    pcp.set_limits(PcpLimits::fixed(15, 60));
    assert_eq!((pcp.high(), pcp.batch(), pcp.count()), (60, 15, 500));
    assert_eq!(free(&mut pcp, &mut zone, frames[500], 0, CALM), 15);
}

#[test]
#[should_panic(expected = "double free: Fx0 is on a per-CPU list already")]
fn a_double_free_is_caught_before_it_ties_a_knot() {
    let mut zone = zone(64);
    let mut pcp = fixed(PcpLimits::fixed(1, 4));
    let frame = take(&mut zone, 1, 0)[0];
    assert_eq!(free(&mut pcp, &mut zone, frame, 0, CALM), 0);
    free(&mut pcp, &mut zone, frame, 0, CALM);
}

#[test]
#[should_panic(expected = "outside this zone")]
fn a_frame_of_another_zone_is_refused() {
    let zone = zone(64);
    let mut pcp = fixed(PcpLimits::fixed(1, 4));
    let _ = pcp.free(zone.table(), FrameId(64), Order(0), CALM);
}

#[test]
fn while_someone_starves_lists_keep_nothing() {
    for tuning in PcpTuning::ALL {
        let mut zone = zone(1 << 15);
        let mut pcp = Pcp::with_tuning(PcpLimits::tuned(63, 1036, 65536), tuning);
        let request = request(0);
        let mut frames = take(&mut zone, 20, 0);
        let starving = crate::page_alloc::Starving::new(zone.table());
        let before = zone.nr_free();
        for frame in frames.drain(..10) {
            assert_eq!(free(&mut pcp, &mut zone, frame, 0, ZoneSignals::default()), 1, "{tuning}");
        }
        assert_eq!((pcp.count(), zone.nr_free()), (0, before + 10), "{tuning}: none is kept");
        frames.extend(pcp.refill(&mut zone, &request));
        assert_eq!((pcp.count(), zone.nr_free()), (0, before + 9), "{tuning}: none is fetched");
        drop(starving);
        let frame = frames.pop().expect("some are left");
        assert_eq!(free(&mut pcp, &mut zone, frame, 0, ZoneSignals::default()), 0, "{tuning}");
        assert_eq!(pcp.count(), 1, "{tuning}: and now they keep again");
    }
}

#[test]
fn the_refill_that_finds_the_zone_under_high_grows_nothing() {
    let mut zone = zone(1 << 15);
    let mut pcp = Pcp::with_tuning(PcpLimits::tuned(3, 40, 4096), PcpTuning::Refill);
    let high = zone.watermarks().mark(WatermarkLevel::High);
    let nr_above = (zone.nr_free() - high - 1) as u32;
    take(&mut zone, nr_above, 0);
    // A block of eight exceeds the frames above HIGH.
    assert!(!zone.table().is_below_high());
    assert!(pcp.refill(&mut zone, &AllocRequest::fast(Order(3))).is_some());
    assert_eq!(pcp.high(), 40);
}

#[test]
fn hot_frames_come_back_hottest_first_and_their_words_are_left_alone() {
    let mut zone = zone(4096);
    let mut pcp = fixed(PcpLimits::fixed(63, 1036));
    let frames = take(&mut zone, 30, 0);
    for nr_frames in 1..=frames.len() {
        // More than the hot array holds.
        for frame in &frames[..nr_frames] {
            assert_eq!(free(&mut pcp, &mut zone, *frame, 0, CALM), 0);
            assert_eq!(zone.table().state(*frame), FrameState::Allocated(Order(0)));
        }
        pcp.validate(zone.table());
        for frame in frames[..nr_frames].iter().rev() {
            assert_eq!(pcp.alloc(zone.table(), &request(0)), Some(*frame));
            assert_eq!(zone.table().state(*frame), FrameState::Allocated(Order(0)));
        }
        assert_eq!(pcp.count(), 0);
    }
}

#[test]
fn drains_take_the_hot_frames_last() {
    let mut zone = zone(4096);
    let mut pcp = fixed(PcpLimits::fixed(4, 1036));
    let frames = take(&mut zone, 20, 0);
    for frame in &frames {
        assert_eq!(free(&mut pcp, &mut zone, *frame, 0, CALM), 0);
    }
    pcp.drain(&mut zone, Drain(Work::Frames { nr_frames: 17, first_list: 0 }));
    pcp.validate(zone.table());
    for frame in frames[17..].iter().rev() {
        assert_eq!(pcp.alloc(zone.table(), &request(0)), Some(*frame));
    }
    assert_eq!((pcp.count(), zone.nr_free()), (0, 4096 - 3));
}

#[test]
#[should_panic(expected = "double free: Fx0 is on a per-CPU list already")]
fn a_double_free_on_another_cpu_is_caught_when_the_frame_cools() {
    let mut zone = zone(4096);
    let mut cpus = [(); 2].map(|()| fixed(PcpLimits::fixed(1, 100)));
    let frames = take(&mut zone, 20, 0);
    for pcp in &mut cpus {
        assert_eq!(free(pcp, &mut zone, frames[0], 0, CALM), 0);
    }
    cpus[0].drain(&mut zone, Drain(Work::Frames { nr_frames: 0, first_list: 0 }));
    for frame in &frames[1..] {
        assert_eq!(free(&mut cpus[1], &mut zone, *frame, 0, CALM), 0);
    }
}

//! Review concerns about the first proposal, and the merged tuning's answers.
//!
//! Quotations are shortened from the discussion of July 2023 on the linux-mm list.

use alloc::vec::Vec;

use super::OneCpu;
use crate::ids::{CpuId, FrameId, Order};
use crate::page_alloc::pcp_limits::HighFraction;
use crate::page_alloc::pcp_limits::PcpLimits;
use crate::page_alloc::pcp_tuning::{PCP_BATCH_SCALE_MAX, PcpTuning};
use crate::page_alloc::single::PageAllocator;
use crate::page_alloc::slow_path::{Attempt, Attempted, SlowPath};
use crate::page_alloc::watermark::WatermarkLevel;
use crate::page_alloc::zone::{AllocRequest, Zone, ZoneConfig};
use crate::units::Millis;

const LIMITS: PcpLimits = PcpLimits::tuned(63, 1036, 65536);
const HIGH_MIN: u32 = 1036;
const NR_FRAMES: u32 = 1 << 18;

fn one_cpu(tuning: PcpTuning) -> OneCpu {
    OneCpu::new(NR_FRAMES, LIMITS, tuning)
}

/// Returns the frames through the zone in one burst.
fn burst(cpu: &mut OneCpu, nr_frames: u32) -> u32 {
    cpu.alloc(nr_frames);
    cpu.free(nr_frames);
    let (fetched, sent) = cpu.take_traffic();
    fetched + sent
}

#[test]
fn concern_1_a_second_is_an_eternity_so_the_second_burst_is_served() {
    // "1s is an eternity from the allocation POV."
    let mut cpu = one_cpu(PcpTuning::Refill);
    burst(&mut cpu, 30_000);
    assert_eq!(burst(&mut cpu, 30_000), 0, "no time has passed at all");
}

#[test]
fn concern_3_bursts_further_apart_than_any_window_are_served_at_once() {
    // "Bursts of less than a second more than one second apart will not adapt."
    let traffic_of = |tuning| {
        let mut cpu = one_cpu(tuning);
        let mut traffic = 0;
        for second in (0..30).step_by(3) {
            cpu.signals.now = Millis(1000 * second);
            traffic = burst(&mut cpu, 10_000);
            (0..3).for_each(|_| {
                cpu.tick();
            });
        }
        traffic
    };
    assert!(traffic_of(PcpTuning::Depth) > 15_000, "windows pass, and everything is forgotten");
    assert!(traffic_of(PcpTuning::Refill) < 10_000);
}

#[test]
fn concern_5_refills_and_drains_scale_alike() {
    // "The allocation side should be symmetric: refills on one side, drains on the other."
    let mut taker = one_cpu(PcpTuning::Refill);
    taker.alloc(8000);
    assert_eq!(taker.refilled[..6], [63, 126, 252, 504, 1008, 2016]);
    let mut giver = one_cpu(PcpTuning::Refill);
    let request = AllocRequest::fast(Order::BASE);
    giver.zone.alloc_bulk(&request, 20_000, |_, frame| giver.held.push(frame));
    giver.free(20_000);
    assert_eq!(giver.drained[giver.drained.len() - 3..], [2016, 2016, 2016]);
}

#[test]
fn concern_7_the_limit_is_bounded_however_much_comes() {
    // "It's not clear if pcp->high is bounded; a single PCP may hide a large number of pages."
    for tuning in PcpTuning::ALL {
        let limits = PcpLimits::tuned(63, 1036, 5000);
        let mut cpu = OneCpu::new(NR_FRAMES, limits, tuning);
        for cycle in 0..4 {
            cpu.signals.now = Millis(10_000 + 1001 * cycle);
            cpu.alloc(60_000);
            cpu.free(60_000);
            assert!(cpu.pcp.high() <= 5000 && cpu.pcp.count() <= 5000, "{tuning}");
        }
    }
}

#[test]
fn concern_11_a_fraction_set_by_hand_turns_tuning_off() {
    // "If percpu_pagelist_high_fraction is set, the tuning must be disabled."
    let fraction = HighFraction::new(64).expect("64 is allowed");
    let zone = Zone::new(ZoneConfig::with_frames(NR_FRAMES));
    let mut allocator = PageAllocator::with_tuning(zone, 1, fraction, PcpTuning::Refill);
    let high = allocator.pcp(CpuId(0)).high();
    assert_eq!(high, NR_FRAMES / 64);
    let request = AllocRequest::fast(Order::BASE);
    for _ in 0..3 {
        let frames: Vec<_> =
            (0..50_000).filter_map(|_| allocator.alloc(CpuId(0), &request)).collect();
        frames.into_iter().for_each(|frame| allocator.free(CpuId(0), frame, Order::BASE));
        assert_eq!(allocator.pcp(CpuId(0)).high(), high);
    }
}

#[test]
fn concern_12_the_limit_does_not_grow_under_reclaim() {
    // "Comment on, or disable under reclaim."
    let mut cpu = one_cpu(PcpTuning::Refill);
    burst(&mut cpu, 5000);
    let high = cpu.pcp.high();
    cpu.press_below_high();
    cpu.signals.reclaim_active = true;
    for _ in 0..3 {
        cpu.alloc(1000);
        cpu.free(1000);
        assert!(cpu.pcp.high() <= high);
    }
}

/// CPU 0 frees the allocations of CPU 1. Returns the frames left on CPU 0's lists and the zone
/// visits.
fn hand_over(tuning: PcpTuning, nr_rounds: u32) -> (u32, u64) {
    let zone = Zone::new(ZoneConfig::with_frames(NR_FRAMES));
    let mut allocator = PageAllocator::with_tuning(zone, 2, HighFraction::DEFAULT, tuning);
    let request = AllocRequest::fast(Order::BASE);
    for _ in 0..nr_rounds {
        let frames: Vec<FrameId> =
            (0..1000).filter_map(|_| allocator.alloc(CpuId(1), &request)).collect();
        assert_eq!(frames.len(), 1000);
        frames.into_iter().for_each(|frame| allocator.free(CpuId(0), frame, Order::BASE));
    }
    allocator.validate();
    let stats = *allocator.zone().stats();
    (allocator.pcp(CpuId(0)).count(), stats.nr_alloc_visits + stats.nr_free_visits)
}

#[test]
fn concern_14_frames_freed_on_one_cpu_and_wanted_on_another_are_not_held() {
    // "Pages freed on CPU A are wanted by CPU B: how long to hold them?"
    let (held, visits) = hand_over(PcpTuning::Refill, 200);
    assert!(held <= 2 * (63 << PCP_BATCH_SCALE_MAX), "{held} frames held that B is in want of");
    let (_, visits_fixed) = hand_over(PcpTuning::Fixed, 200);
    assert!(visits < visits_fixed, "{visits} visits; {visits_fixed} with the fixed limit");
    // Unused frames return to the zone.
    let mut cpu = one_cpu(PcpTuning::Refill);
    burst(&mut cpu, 30_000);
    (0..30).for_each(|_| {
        cpu.tick();
    });
    assert!(cpu.pcp.count() <= HIGH_MIN);
}

#[test]
fn concern_15_lists_are_emptied_before_an_allocation_may_fail() {
    // "The sum of highs may exceed the watermarks: premature OOM?"
    let zone = Zone::new(ZoneConfig::with_frames(4096));
    let mut allocator =
        PageAllocator::with_tuning(zone, 4, HighFraction::DEFAULT, PcpTuning::Refill);
    let any = AllocRequest::fast(Order::BASE).at(None);
    let mut frames = Vec::new();
    while let Some(frame) = allocator.alloc(CpuId(0), &any) {
        frames.push(frame);
    }
    // Some frames are now on other CPUs' lists, and the zone is almost empty.
    frames.drain(..16).for_each(|frame| allocator.free(CpuId(frame.0 % 3 + 1), frame, Order(0)));
    assert!(allocator.nr_in_pcps() > 0);
    let nr_unused = allocator.nr_in_pcps() + allocator.zone().nr_free();
    let mut nr_found = 0;
    loop {
        let mut path = SlowPath::new();
        let mut outcome = Attempted::Failed;
        let mut found = None;
        while found.is_none() {
            outcome = match path.next(outcome) {
                Attempt::Take(level) => {
                    found = allocator.alloc(CpuId(0), &any.at(level));
                    Attempted::Failed
                }
                Attempt::DrainCpus => {
                    allocator.drain_all();
                    Attempted::Progress
                }
                Attempt::WakeBackground | Attempt::DirectReclaim => Attempted::Failed,
                Attempt::GiveUp => break,
            };
        }
        if found.is_none() {
            break;
        }
        nr_found += 1;
    }
    assert_eq!(nr_found, nr_unused, "an allocation failed while frames lay on lists");
}

#[test]
fn concern_16_lists_give_back_before_the_zone_is_low() {
    // "Early fallback to remote nodes; cap the tuning as memory gets low."
    let mut cpu = one_cpu(PcpTuning::Refill);
    burst(&mut cpu, 30_000);
    let nr_listed = cpu.pcp.count();
    assert!(nr_listed > 25_000);
    cpu.press_below_high();
    let high = cpu.zone.watermarks().mark(WatermarkLevel::High);
    cpu.alloc(100);
    cpu.free(100);
    assert!(cpu.zone.nr_free() > high, "frames came back above HIGH");
    assert!(cpu.pcp.count() < nr_listed);
    assert!(!cpu.zone.table().is_below_high(), "and no more than that");
}

#[test]
fn concern_17_more_than_one_benchmark() {
    // "Heavily orientated around the will-it-scale benchmark."
    // In frames through the zone, never worse than the fixed limit.
    type Pattern = fn(&mut OneCpu, u64);
    let patterns: [(&str, Pattern); 5] = [
        ("page-fault1", |cpu, _| {
            cpu.alloc(32_768);
            cpu.free(32_768);
        }),
        ("kbuild", |cpu, second| {
            let depth = 20_000 + (second as u32 * 7919) % 10_000;
            cpu.alloc(depth);
            cpu.free(depth / 2);
            cpu.alloc(depth / 4);
            cpu.free(depth * 3 / 4);
        }),
        ("one long run", |cpu, second| match second {
            0 => cpu.alloc(100_000),
            1..19 => {
                cpu.free(500);
                cpu.alloc(500);
            }
            19 => cpu.free(100_000),
            _ => {}
        }),
        ("mixed", |cpu, second| {
            for turn in 0..200 {
                cpu.alloc(40 + (turn * 13 + second as u32) % 50);
                cpu.free(cpu.held.len() as u32 / 2);
            }
        }),
        ("light", |cpu, _| {
            cpu.alloc(10);
            cpu.free(10);
        }),
    ];
    for (name, pattern) in patterns {
        let traffic_of = |tuning| {
            let mut cpu = one_cpu(tuning);
            for second in 0..20 {
                cpu.signals.now = Millis(10_000 + 1001 * second);
                pattern(&mut cpu, second);
                cpu.tick();
            }
            cpu.pcp.validate(cpu.zone.table());
            let (fetched, sent) = cpu.take_traffic();
            fetched + sent
        };
        let [fixed, depth, refill] = PcpTuning::ALL.map(traffic_of);
        assert!(refill <= fixed, "{name}: {refill} frames; fixed {fixed}, depth {depth}");
    }
}

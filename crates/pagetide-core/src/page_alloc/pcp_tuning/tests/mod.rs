//! The tunings, by values worked out from their sources.

use alloc::vec::Vec;

use super::*;
use crate::ids::FrameId;
use crate::page_alloc::pcp::{Drain, Pcp};
use crate::page_alloc::watermark::WatermarkLevel;
use crate::page_alloc::zone::{AllocRequest, Zone, ZoneConfig};
use crate::units::Millis;

mod concerns;

/// Limits of 16 GiB and eight CPUs.
const LIMITS: PcpLimits = PcpLimits::tuned(63, 1036, 65536);
const BATCH: u32 = 63;

/// One CPU's lists and a zone, with a stack of allocated frames.
pub(super) struct OneCpu {
    pub(super) zone: Zone,
    pub(super) pcp: Pcp,
    pub(super) held: Vec<FrameId>,
    pub(super) signals: ZoneSignals,
    /// Frames per refill and per drain.
    pub(super) refilled: Vec<u32>,
    pub(super) drained: Vec<u32>,
}

impl OneCpu {
    pub(super) fn new(nr_frames: u32, limits: PcpLimits, tuning: PcpTuning) -> OneCpu {
        OneCpu {
            zone: Zone::new(ZoneConfig::with_frames(nr_frames)),
            pcp: Pcp::with_tuning(limits, tuning),
            held: Vec::new(),
            signals: ZoneSignals::default(),
            refilled: Vec::new(),
            drained: Vec::new(),
        }
    }

    pub(super) fn alloc(&mut self, nr_blocks: u32) {
        self.alloc_order(nr_blocks, 0);
    }

    pub(super) fn alloc_order(&mut self, nr_blocks: u32, order: u8) {
        let request = AllocRequest::fast(Order(order)).at(Some(WatermarkLevel::Min));
        for _ in 0..nr_blocks {
            let frame = self.pcp.alloc(self.zone.table(), &request).or_else(|| {
                let before = self.zone.nr_free();
                let frame = self.pcp.refill(&mut self.zone, &request);
                self.refilled.push((before - self.zone.nr_free()) as u32);
                frame
            });
            self.held.push(frame.expect("the zone is large enough"));
        }
    }

    pub(super) fn free(&mut self, nr_blocks: u32) {
        self.free_order(nr_blocks, 0);
    }

    pub(super) fn free_order(&mut self, nr_blocks: u32, order: u8) {
        for _ in 0..nr_blocks {
            let frame = self.held.pop().expect("as many were allocated");
            if let Some(drain) = self.pcp.free(self.zone.table(), frame, Order(order), self.signals)
            {
                self.drain(drain);
            }
        }
    }

    fn drain(&mut self, drain: Drain) {
        let before = self.zone.nr_free();
        self.pcp.drain(&mut self.zone, drain);
        self.drained.push((self.zone.nr_free() - before) as u32);
    }

    /// Returns the frames drained.
    pub(super) fn tick(&mut self) -> u32 {
        let before = self.zone.nr_free();
        for piece in self.pcp.tick().into_iter().flat_map(|drain| drain.pieces(BATCH)) {
            assert!(piece.nr_frames() <= BATCH);
            self.pcp.drain(&mut self.zone, piece);
        }
        (self.zone.nr_free() - before) as u32
    }

    /// Takes frames from the zone until HIGH is crossed.
    pub(super) fn press_below_high(&mut self) {
        let request = AllocRequest::fast(Order::BASE);
        let high = self.zone.watermarks().mark(WatermarkLevel::High);
        while !self.zone.table().is_below_high() {
            assert!(self.zone.nr_free() + 1 >= high, "HIGH was reached without notice");
            let nr_above = (self.zone.nr_free() - high).max(1) as u32;
            assert!(self.zone.alloc_bulk(&request, nr_above, |_, _| {}) > 0);
        }
    }

    fn refill_state(&self) -> &Refill {
        match &self.pcp.tuning {
            Tuning::Refill(refill) => refill,
            _ => panic!("another tuning"),
        }
    }

    /// Returns the frames from and to the zone since the last call.
    pub(super) fn take_traffic(&mut self) -> (u32, u32) {
        let sum = |frames: Vec<u32>| frames.iter().sum();
        (sum(core::mem::take(&mut self.refilled)), sum(core::mem::take(&mut self.drained)))
    }
}

#[test]
fn names_lead_back_to_tunings() {
    for (index, tuning) in PcpTuning::ALL.into_iter().enumerate() {
        assert_eq!(tuning.as_str().parse(), Ok(tuning));
        assert_eq!(PcpTuning::from_index(index), Some(tuning));
    }
    assert_eq!("auto".parse::<PcpTuning>(), Err(UnknownPcpTuning));
    assert_eq!(PcpTuning::from_index(4), None);
    assert_eq!(PcpTuning::default(), PcpTuning::Refill);
}

#[test]
fn refills_grow_the_limit_and_themselves() {
    let mut cpu = OneCpu::new(1 << 17, LIMITS, PcpTuning::Refill);
    let mut highs = Vec::new();
    for _ in 0..4000 {
        let before = cpu.refilled.len();
        cpu.alloc(1);
        if cpu.refilled.len() > before {
            highs.push((cpu.pcp.high(), cpu.refill_state().traffic.alloc_factor));
        }
    }
    assert_eq!(cpu.refilled, [63, 126, 252, 504, 1008, 2016, 2016]);
    let expected = [(1099, 1), (1225, 2), (1477, 3), (1981, 4), (2989, 5), (5005, 5), (7021, 5)];
    assert_eq!(highs, expected);
    assert_eq!(cpu.pcp.count(), 1985);

    // The lists keep 4000 frees.
    cpu.free(4000);
    assert_eq!(cpu.drained, []);
    assert_eq!((cpu.pcp.count(), cpu.pcp.high()), (5985, 7021));
    assert_eq!(
        (cpu.refill_state().traffic.free_count, cpu.refill_state().traffic.alloc_factor),
        (2016, 0)
    );

    // Ticks drain an eighth of the limit each.
    let mut highs = Vec::new();
    let mut drained = Vec::new();
    for _ in 0..10 {
        drained.push(cpu.tick());
        highs.push(cpu.pcp.high());
    }
    assert_eq!(highs, [6144, 5376, 4704, 4116, 3602, 3152, 2758, 2414, 2113, 1849]);
    assert_eq!(drained, [0, 609, 672, 588, 514, 450, 394, 344, 301, 264]);
    cpu.pcp.validate(cpu.zone.table());
    cpu.zone.validate();
}

#[test]
fn the_second_round_of_a_refilled_burst_needs_no_zone() {
    let mut cpu = OneCpu::new(1 << 17, LIMITS, PcpTuning::Refill);
    cpu.alloc(30_000);
    cpu.free(30_000);
    assert_eq!(cpu.take_traffic(), (30_177, 0));
    for _ in 0..3 {
        cpu.alloc(30_000);
        cpu.free(30_000);
        assert_eq!(cpu.take_traffic(), (0, 0));
    }
    assert_eq!(cpu.pcp.high(), 31_213);
}

#[test]
fn bounds_that_are_equal_turn_the_limit_off_and_keep_the_batches() {
    let limits = PcpLimits::tuned(63, 1036, 1036);
    let mut cpu = OneCpu::new(1 << 17, limits, PcpTuning::Refill);
    let mut traffic = Vec::new();
    for _ in 0..3 {
        cpu.alloc(30_000);
        cpu.free(30_000);
        traffic.push(cpu.take_traffic());
    }
    assert_eq!(traffic, [(30_135, 29_118), (29_162, 30_047), (30_135, 29_959)]);
    assert_eq!(cpu.pcp.high(), 1036);
}

/// Lists of 3000 frames, limit 5000, 100 frames freed recently.
fn three_thousand() -> OneCpu {
    let mut cpu = OneCpu::new(1 << 17, LIMITS, PcpTuning::Refill);
    cpu.alloc(3100);
    cpu.zone.alloc_bulk(&AllocRequest::fast(Order::BASE), 3000, |_, frame| cpu.held.push(frame));
    while cpu.pcp.count() < 3000 {
        cpu.free(1);
    }
    cpu.pcp.gauge.high = 5000;
    let Tuning::Refill(refill) = &mut cpu.pcp.tuning else { panic!("another tuning") };
    refill.traffic.free_count = 100;
    assert_eq!(cpu.drained, []);
    cpu
}

#[test]
fn below_high_every_free_drains_and_lowers_the_limit() {
    let mut cpu = three_thousand();
    cpu.press_below_high();
    cpu.free(1);
    assert_eq!(cpu.drained, [101]);
    assert_eq!((cpu.pcp.high(), cpu.pcp.count()), (4899, 2900));
    assert!(!cpu.zone.table().is_below_high(), "the drain brought the zone above HIGH");
}

#[test]
fn reclaim_drains_to_four_batches_and_lowers_the_limit() {
    let mut cpu = three_thousand();
    cpu.signals.reclaim_active = true;
    cpu.free(1);
    assert_eq!(cpu.drained, [101]);
    assert_eq!((cpu.pcp.high(), cpu.pcp.count()), (4899, 2900));
}

#[test]
fn refills_of_higher_orders_are_a_batch_in_frames() {
    let mut cpu = OneCpu::new(1 << 17, LIMITS, PcpTuning::Refill);
    cpu.alloc_order(1, 2);
    assert_eq!(cpu.refilled, [60]);
    assert_eq!((cpu.pcp.count(), cpu.pcp.high()), (56, 1036 + 63));
    assert_eq!(cpu.refill_state().traffic.alloc_factor, 0);
}

#[test]
fn the_limit_stops_growing_below_high() {
    let mut cpu = OneCpu::new(1 << 17, LIMITS, PcpTuning::Refill);
    cpu.press_below_high();
    cpu.alloc(200);
    assert_eq!(cpu.pcp.high(), 1036);
    assert_eq!(cpu.refilled, [63, 126, 252], "batches grow all the same");
}

#[test]
fn lists_under_a_batch_fetch_and_send_single_frames() {
    let limits = PcpLimits::tuned(63, 0, 0);
    let mut cpu = OneCpu::new(4096, limits, PcpTuning::Refill);
    cpu.alloc(3);
    cpu.free(3);
    assert_eq!((&cpu.refilled[..], &cpu.drained[..]), (&[1, 1, 1][..], &[1, 1, 1][..]));
}

#[test]
fn a_run_of_higher_order_frees_empties_the_lists_in_bounded_pieces() {
    for (limits, kept) in [(LIMITS, 0), (LIMITS.with_batch_kept_in_runs(), BATCH)] {
        let mut cpu = OneCpu::new(1 << 17, limits, PcpTuning::Refill);
        cpu.alloc_order(400, 2);
        // The run starts after 63 + 1036 / 2 freed frames: 145 blocks, so block 147 is the first of
        // the run.
        let nr_listed = cpu.pcp.count();
        cpu.free_order(146, 2);
        assert_eq!(cpu.drained, [], "kept {kept}");
        cpu.free_order(1, 2);
        assert_eq!(cpu.drained, [nr_listed + 147 * 4]);
        assert_eq!(cpu.pcp.count(), 0);
        cpu.drained.clear();
        cpu.free_order(1, 2);
        // The lists are empty. With a cache to keep warm, they wait for a batch.
        assert_eq!(cpu.drained.len(), usize::from(kept == 0));
    }
}

#[test]
fn an_order_0_free_ends_a_run_of_higher_order_frees() {
    let mut cpu = OneCpu::new(1 << 17, LIMITS, PcpTuning::Refill);
    cpu.alloc(10);
    let singles = core::mem::take(&mut cpu.held);
    cpu.alloc_order(400, 2);
    cpu.free_order(146, 2);
    let fours = core::mem::replace(&mut cpu.held, singles);
    cpu.free(1);
    cpu.held = fours;
    cpu.free_order(1, 2);
    assert_eq!(cpu.drained, []);
    cpu.free_order(1, 2);
    assert_eq!(cpu.drained.len(), 1);
}

/// A period with 30000 frames taken and freed, the last one late.
fn depth_cycle(cpu: &mut OneCpu, start: u64, nr_allocs: u32, nr_frees: u32) {
    cpu.signals.now = Millis(start + 500);
    cpu.alloc(nr_allocs);
    cpu.free(nr_frees - 1);
    cpu.signals.now = Millis(start + 1001);
    cpu.free(1);
}

/// Lists with a period started at `start` by a free.
fn depth_from(start: u64) -> OneCpu {
    let mut cpu = OneCpu::new(1 << 17, LIMITS, PcpTuning::Depth);
    cpu.zone.alloc_bulk(&AllocRequest::fast(Order::BASE), 1, |_, frame| cpu.held.push(frame));
    cpu.signals.now = Millis(start);
    cpu.free(1);
    cpu
}

#[test]
fn the_limit_approaches_the_depth_of_the_runs() {
    let mut cpu = depth_from(100_000);
    let mut highs = Vec::new();
    for cycle in 0..8 {
        depth_cycle(&mut cpu, 100_000 + 1001 * cycle, 30_000, 30_000);
        highs.push(cpu.pcp.high());
    }
    assert_eq!(highs, [15_000, 22_500, 26_250, 28_125, 29_062, 29_531, 29_765, 29_882]);
    cpu.take_traffic();
    depth_cycle(&mut cpu, 100_000 + 1001 * 8, 30_000, 30_000);
    let (fetched, sent) = cpu.take_traffic();
    assert!(fetched <= 30_000 / 50 && sent <= 30_000 / 50, "{fetched} {sent}");
}

/// Averages round down, so the limit is D - 1 for runs of D. Each run of frees drains a batch that
/// the next run of allocations fetches.
#[test]
fn the_depth_limit_stops_one_short_of_the_runs_and_trades_a_batch_a_cycle_for_ever() {
    let mut cpu = depth_from(100_000);
    for cycle in 0..60 {
        cpu.take_traffic();
        depth_cycle(&mut cpu, 100_000 + 1001 * cycle, 32_768, 32_768);
        if cycle >= 20 {
            assert_eq!(cpu.pcp.high(), 32_767);
            assert_eq!(cpu.take_traffic(), (BATCH, BATCH), "cycle {cycle}");
        }
    }
}

#[test]
fn allocations_without_frees_leave_the_depth_limit_alone() {
    let mut cpu = depth_from(100_000);
    depth_cycle(&mut cpu, 100_000, 5000, 1);
    let Tuning::Depth(depth) = &cpu.pcp.tuning else { panic!("another tuning") };
    assert_eq!(depth.averages(), (2500, 0));
    assert_eq!(cpu.pcp.high(), 1036);
}

#[test]
fn the_first_free_ever_and_a_long_silence_forget_everything() {
    let mut cpu = OneCpu::new(1 << 17, LIMITS, PcpTuning::Depth);
    cpu.signals.now = Millis(50_000);
    cpu.alloc(30_000);
    cpu.free(1);
    let Tuning::Depth(depth) = &cpu.pcp.tuning else { panic!("another tuning") };
    assert_eq!(depth.averages(), (0, 0), "the allocations before the first free do not count");
    cpu.free(29_999);
    depth_cycle(&mut cpu, 50_000, 30_000, 30_000);
    assert!(cpu.pcp.high() >= 14_999);
    cpu.signals.now = Millis(51_001 + 2001);
    cpu.alloc(1);
    cpu.free(1);
    assert_eq!(cpu.pcp.high(), 1036);
}

#[test]
fn exactly_one_period_does_not_tune_and_exactly_two_do() {
    let mut cpu = depth_from(100_000);
    cpu.alloc(10_000);
    cpu.signals.now = Millis(101_000);
    cpu.free(9_999);
    assert_eq!(cpu.pcp.high(), 1036);
    cpu.signals.now = Millis(102_000);
    cpu.free(1);
    assert_eq!(cpu.pcp.high(), 5000);
}

#[test]
fn lists_that_are_off_have_no_depth() {
    let mut cpu = OneCpu::new(4096, PcpLimits::DISABLED, PcpTuning::Depth);
    cpu.signals.now = Millis(100_000);
    cpu.alloc(3);
    cpu.free(3);
    assert_eq!((cpu.pcp.high(), cpu.pcp.count()), (0, 0));
}

#[test]
fn frames_of_ones_own_node_stay() {
    let mut cpu = OneCpu::new(1 << 17, LIMITS, PcpTuning::Fixed);
    cpu.alloc(1);
    assert!((0..10).all(|_| cpu.tick() == 0));
    assert_eq!(cpu.pcp.count(), 62);
}

#[test]
fn the_below_high_flag_follows_the_zone() {
    let mut zone = Zone::new(ZoneConfig::with_frames(4096));
    let request = AllocRequest::fast(Order::BASE);
    let mut frames = Vec::new();
    while zone.nr_free() > 193 {
        frames.push(zone.alloc(&request).expect("above LOW"));
        assert!(!zone.table().is_below_high());
    }
    // 193 free, HIGH at 192: one more is allowed. The allocation records the crossing, because the
    // next may be a list hit.
    frames.push(zone.alloc(&request).expect("above LOW"));
    assert!(zone.table().is_below_high());
    frames.push(zone.alloc(&request).expect("above LOW"));
    assert!(zone.table().is_below_high());
    zone.free(frames.pop().expect("some"), Order::BASE);
    assert!(zone.table().is_below_high(), "192 again");
    zone.free(frames.pop().expect("some"), Order::BASE);
    assert!(!zone.table().is_below_high());
}

//! Conformance of all allocators, judged by a naive twin.
//!
//! **Problem.** Buddy lists, zone and per-CPU lists can each lose or duplicate frames.
//!
//! **Idea.** Random operations on a subject and a twin, which knows only the frames in use. Free
//! buddies are always merged, so the twin predicts the free blocks, and failures.
//!
//! ```text
//!   Op --> subject --> frames handed out, counts, free blocks --.
//!    `---> twin    --> the same, computed naively ---------------+--> equal after every step
//! ```
//!
//! **Ignored.** *Which* free block is chosen (see unit tests), per-CPU lists beyond their sum, and
//! concurrency.

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;

use proptest::prelude::*;
use proptest::sample::Index;

use super::*;
use crate::ids::{CpuId, FrameId, Order};
use crate::units::Millis;

const CPUS: u32 = 3;

/// An allocator under test.
trait Subject {
    fn with_zone(zone: Zone) -> Self;
    fn zone(&self) -> &Zone;
    fn zone_mut(&mut self) -> &mut Zone;
    fn alloc(&mut self, cpu: CpuId, request: &AllocRequest) -> Option<FrameId>;
    fn free(&mut self, cpu: CpuId, frame: FrameId, order: Order);
    /// Frames neither free in the zone nor allocated.
    fn nr_in_lists(&self) -> u64;
    fn drain_all(&mut self);
    fn set_signals(&mut self, signals: ZoneSignals);
    /// A second passes.
    fn tick(&mut self);
    fn rederive(&mut self);
    fn validate(&self);
}

impl Subject for Zone {
    fn with_zone(zone: Zone) -> Zone {
        zone
    }
    fn zone(&self) -> &Zone {
        self
    }
    fn zone_mut(&mut self) -> &mut Zone {
        self
    }
    fn alloc(&mut self, _: CpuId, request: &AllocRequest) -> Option<FrameId> {
        Zone::alloc(self, request)
    }
    fn free(&mut self, _: CpuId, frame: FrameId, order: Order) {
        Zone::free(self, frame, order);
    }
    fn nr_in_lists(&self) -> u64 {
        0
    }
    fn drain_all(&mut self) {}
    fn set_signals(&mut self, _: ZoneSignals) {}
    fn tick(&mut self) {}
    fn rederive(&mut self) {
        self.rederive_watermarks();
    }
    fn validate(&self) {
        Zone::validate(self);
    }
}

/// Per-CPU lists with the tuning of this number.
struct Tuned<const TUNING: usize>(PageAllocator);

impl<const TUNING: usize> Subject for Tuned<TUNING> {
    fn with_zone(zone: Zone) -> Tuned<TUNING> {
        let tuning = PcpTuning::from_index(TUNING).expect("one of the three");
        Tuned(PageAllocator::with_tuning(zone, CPUS, HighFraction::DEFAULT, tuning))
    }
    fn zone(&self) -> &Zone {
        self.0.zone()
    }
    fn zone_mut(&mut self) -> &mut Zone {
        self.0.zone_mut()
    }
    fn alloc(&mut self, cpu: CpuId, request: &AllocRequest) -> Option<FrameId> {
        self.0.alloc(cpu, request)
    }
    fn free(&mut self, cpu: CpuId, frame: FrameId, order: Order) {
        self.0.free(cpu, frame, order);
    }
    fn nr_in_lists(&self) -> u64 {
        self.0.nr_in_pcps()
    }
    fn drain_all(&mut self) {
        self.0.drain_all();
    }
    fn set_signals(&mut self, signals: ZoneSignals) {
        self.0.set_signals(signals);
    }
    fn tick(&mut self) {
        self.0.tick();
    }
    fn rederive(&mut self) {
        self.0.rederive();
    }
    fn validate(&self) {
        self.0.validate();
        for cpu in (0..CPUS).map(CpuId) {
            assert!(self.0.pcp(cpu).high() <= self.0.zone().nr_frames(), "a limit out of bounds");
        }
    }
}

#[derive(Clone, Debug)]
enum Op {
    Alloc {
        cpu: u32,
        request: AllocRequest,
    },
    /// Many at once, to reach watermarks and drains.
    AllocRun {
        cpu: u32,
        request: AllocRequest,
        nr_blocks: u32,
    },
    Free {
        cpu: u32,
        which: Index,
    },
    FreeRun {
        cpu: u32,
        which: Index,
        nr_blocks: u32,
    },
    /// Splits a block in use, up to this order.
    Split {
        which: Index,
        into: u8,
    },
    /// Joins two buddies in use.
    Join {
        which: Index,
    },
    DrainAll,
    Signal(ZoneSignals),
    Tick,
    Shrink {
        nr_frames: u32,
    },
    Grow {
        nr_frames: u32,
    },
}

fn requests() -> impl Strategy<Value = AllocRequest> {
    let orders = prop_oneof![6 => Just(0u8), 4 => 1..4u8, 2 => 4..9u8, 1 => 9..=10u8];
    let levels = prop_oneof![
        2 => Just(None),
        2 => Just(Some(WatermarkLevel::Min)),
        3 => Just(Some(WatermarkLevel::Low)),
        1 => Just(Some(WatermarkLevel::High)),
    ];
    (orders, levels).prop_map(|(order, level)| AllocRequest { order: Order(order), level })
}

fn ops() -> impl Strategy<Value = Op> {
    let cpu = 0..CPUS;
    prop_oneof![
        6 => (cpu.clone(), requests()).prop_map(|(cpu, request)| Op::Alloc { cpu, request }),
        3 => (cpu.clone(), requests(), 1..200u32)
            .prop_map(|(cpu, request, nr_blocks)| Op::AllocRun { cpu, request, nr_blocks }),
        6 => (cpu.clone(), any::<Index>()).prop_map(|(cpu, which)| Op::Free { cpu, which }),
        3 => (cpu, any::<Index>(), 1..200u32)
            .prop_map(|(cpu, which, nr_blocks)| Op::FreeRun { cpu, which, nr_blocks }),
        2 => (any::<Index>(), 0..=10u8).prop_map(|(which, into)| Op::Split { which, into }),
        4 => any::<Index>().prop_map(|which| Op::Join { which }),
        1 => Just(Op::DrainAll),
        1 => (any::<bool>(), 0..5000u64).prop_map(|(reclaim_active, now)| {
            Op::Signal(ZoneSignals { reclaim_active, now: Millis(now) })
        }),
        1 => Just(Op::Tick),
        1 => (1..1500u32).prop_map(|nr_frames| Op::Shrink { nr_frames }),
        1 => (1..1500u32).prop_map(|nr_frames| Op::Grow { nr_frames }),
    ]
}

struct Twin {
    /// Allocated or offline.
    is_used: Vec<bool>,
    is_offline: Vec<bool>,
    blocks: BTreeMap<u32, Order>,
}

impl Twin {
    fn new(config: &ZoneConfig) -> Twin {
        let offline: Vec<bool> = (0..config.nr_frames).map(|f| f >= config.nr_online).collect();
        Twin { is_used: offline.clone(), is_offline: offline, blocks: BTreeMap::new() }
    }

    fn mark(&mut self, frame: FrameId, order: Order, used: bool) {
        for frame in frame.0..frame.0 + order.nr_frames() {
            assert_ne!(
                self.is_used[frame as usize],
                used,
                "{} changes hands twice",
                FrameId(frame)
            );
            self.is_used[frame as usize] = used;
        }
    }

    fn mark_offline(&mut self, frame: FrameId, order: Order, offline: bool) {
        self.mark(frame, order, offline);
        let frames = frame.0 as usize..(frame.0 + order.nr_frames()) as usize;
        self.is_offline[frames].fill(offline);
    }

    fn take(&mut self, frame: FrameId, order: Order) {
        assert_eq!(frame.0 % order.nr_frames(), 0, "{frame} is not aligned to {order}");
        self.mark(frame, order, true);
        self.blocks.insert(frame.0, order);
    }

    fn give(&mut self, which: &Index) -> Option<(FrameId, Order)> {
        let keys: Vec<u32> = self.blocks.keys().copied().collect();
        if keys.is_empty() {
            return None;
        }
        let frame = keys[which.index(keys.len())];
        let order = self.blocks.remove(&frame).expect("a key of this map");
        self.mark(FrameId(frame), order, false);
        Some((FrameId(frame), order))
    }

    /// Returns a block in use, and the order to split it into.
    fn split(&mut self, which: &Index, into: Order) -> Option<(FrameId, Order, Order)> {
        let nth = which.index(self.blocks.len().max(1));
        let (&first, &order) = self.blocks.iter().nth(nth)?;
        let into = into.min(order);
        let parts = (first..first + order.nr_frames()).step_by(into.nr_frames() as usize);
        self.blocks.extend(parts.map(|part| (part, into)));
        Some((FrameId(first), order, into))
    }

    /// Returns two buddies in use, and their order.
    fn join(&mut self, which: &Index) -> Option<([FrameId; 2], Order)> {
        let second = |first: u32, order: Order| first | order.nr_frames();
        let is_half = |&(&first, &order): &(&u32, &Order)| {
            order < Order::MAX
                && first & order.nr_frames() == 0
                && self.blocks.get(&second(first, order)) == Some(&order)
        };
        let halves: Vec<(u32, Order)> =
            self.blocks.iter().filter(is_half).map(|(&first, &order)| (first, order)).collect();
        let &(first, order) = halves.get(which.index(halves.len().max(1)))?;
        Some(([first, second(first, order)].map(FrameId), order))
    }

    fn nr_unused(&self) -> u64 {
        self.is_used.iter().filter(|&&used| !used).count() as u64
    }

    fn nr_online(&self) -> u32 {
        self.is_offline.iter().filter(|&&offline| !offline).count() as u32
    }

    /// Returns the only cover of the unused frames by merged blocks, per order.
    fn merged_blocks(&self) -> [u32; 11] {
        let mut is_left: Vec<bool> = self.is_used.iter().map(|used| !used).collect();
        let mut counts = [0; 11];
        for order in (0..11).rev() {
            for block in is_left.chunks_exact_mut(1 << order) {
                if block.iter().all(|&left| left) {
                    block.fill(false);
                    counts[order] += 1;
                }
            }
        }
        counts
    }
}

/// Repeats Linux 6.18's watermark check from visible counts.
fn may_allocate(zone: &Zone, request: &AllocRequest) -> bool {
    let Some(level) = request.level else { return true };
    let limit = i128::from(zone.watermarks().mark(level));
    let free = i128::from(zone.nr_free()) - ((1 << request.order.0) - 1);
    free > limit
}

fn alloc<S: Subject>(subject: &mut S, twin: &mut Twin, cpu: u32, request: &AllocRequest) -> bool {
    let was_in_lists = subject.nr_in_lists();
    let may = may_allocate(subject.zone(), request);
    let order = request.order;
    let has_block = (order.0..=10).any(|o| subject.zone().free_blocks().nr_blocks(Order(o)) > 0);
    let frame = subject.alloc(CpuId(cpu), request);
    if let Some(frame) = frame {
        assert!(may || was_in_lists > 0, "{request:?} went below its level");
        assert_eq!(subject.zone().table().state(frame), FrameState::Allocated(order));
        twin.take(frame, order);
    } else {
        assert!(!may || !has_block, "{request:?} refused with room to spare");
    }
    frame.is_some()
}

fn free<S: Subject>(subject: &mut S, twin: &mut Twin, cpu: u32, which: &Index) {
    if let Some((frame, order)) = twin.give(which) {
        subject.free(CpuId(cpu), frame, order);
    }
}

fn join<S: Subject>(subject: &mut S, twin: &mut Twin, which: &Index) {
    let Some((halves, order)) = twin.join(which) else { return };
    let joined = subject.zone_mut().join_held(halves, order);
    assert_eq!(joined, Some(halves[0]));
    twin.blocks.remove(&halves[1].0);
    twin.blocks.insert(halves[0].0, Order(order.0 + 1));
}

/// Takes a block that must not fail: without watermarks, and again after a drain. Fails only if no
/// aligned run is unused.
fn take_or_drain<S: Subject>(subject: &mut S, twin: &mut Twin, cpu: u32, request: &AllocRequest) {
    let request = request.at(None);
    let taken = subject.alloc(CpuId(cpu), &request).or_else(|| {
        subject.drain_all();
        subject.alloc(CpuId(cpu), &request)
    });
    match taken {
        Some(frame) => twin.take(frame, request.order),
        None => {
            let counts = twin.merged_blocks();
            let larger = &counts[usize::from(request.order.0)..];
            assert!(larger.iter().all(|&count| count == 0), "{request:?} refused: {counts:?}");
        }
    }
}

fn step<S: Subject>(subject: &mut S, twin: &mut Twin, op: &Op) {
    match op {
        Op::Alloc { cpu, request } => {
            alloc(subject, twin, *cpu, request);
        }
        Op::AllocRun { cpu, request, nr_blocks } => {
            let _ = (0..*nr_blocks).all(|_| alloc(subject, twin, *cpu, request));
        }
        Op::Free { cpu, which } => free(subject, twin, *cpu, which),
        Op::FreeRun { cpu, which, nr_blocks } => {
            (0..*nr_blocks).for_each(|_| free(subject, twin, *cpu, which));
        }
        Op::Split { which, into } => {
            if let Some((frame, order, into)) = twin.split(which, Order(*into)) {
                subject.zone_mut().split_held(frame, order, into);
            }
        }
        Op::Join { which } => join(subject, twin, which),
        Op::DrainAll => subject.drain_all(),
        Op::Signal(signals) => subject.set_signals(*signals),
        Op::Tick => subject.tick(),
        Op::Shrink { nr_frames } => {
            let nr_free = subject.zone().nr_free();
            let nr_taken = subject
                .zone_mut()
                .take_free(*nr_frames, |frame, order| twin.mark_offline(frame, order, true));
            assert_eq!(u64::from(nr_taken), nr_free.min(u64::from(*nr_frames)));
            subject.rederive();
        }
        Op::Grow { nr_frames } => {
            let nr_offline = subject.zone().nr_frames() - subject.zone().nr_managed();
            let nr_given = subject
                .zone_mut()
                .give_back(*nr_frames, |frame, order| twin.mark_offline(frame, order, false));
            assert_eq!(nr_given, nr_offline.min(*nr_frames));
            subject.rederive();
        }
    }
}

fn compare<S: Subject>(subject: &S, twin: &Twin) {
    subject.validate();
    let zone = subject.zone();
    assert_eq!(zone.nr_managed(), twin.nr_online());
    assert_eq!(zone.nr_free() + subject.nr_in_lists(), twin.nr_unused());
    if subject.nr_in_lists() == 0 {
        let counts = core::array::from_fn(|o| zone.free_blocks().nr_blocks(Order(o as u8)));
        assert_eq!(counts, twin.merged_blocks(), "free blocks per order");
    }
}

/// Compares after every step. Frees everything at the end, which must restore the zone.
fn agrees_with_the_twin<S: Subject>(config: ZoneConfig, ops: &[Op]) {
    let mut subject = S::with_zone(Zone::new(config));
    let mut twin = Twin::new(&config);
    compare(&subject, &twin);
    for op in ops {
        step(&mut subject, &mut twin, op);
        compare(&subject, &twin);
    }
    for (frame, order) in core::mem::take(&mut twin.blocks) {
        twin.mark(FrameId(frame), order, false);
        subject.free(CpuId(frame % CPUS), FrameId(frame), order);
    }
    subject.drain_all();
    assert_eq!(subject.nr_in_lists(), 0);
    compare(&subject, &twin);
    subject.zone_mut().give_back(u32::MAX, |_, _| {});
    let fresh = Zone::new(ZoneConfig::with_frames(config.nr_frames));
    for order in (0..=Order::MAX.0).map(Order) {
        let nr_blocks = subject.zone().free_blocks().nr_blocks(order);
        assert_eq!(nr_blocks, fresh.free_blocks().nr_blocks(order), "{order}");
    }
}

/// Runs `ops` with allocations that must not fail while any list holds the block.
fn finds_the_last_block<S: Subject>(config: ZoneConfig, ops: &[Op]) {
    let mut subject = S::with_zone(Zone::new(config));
    let mut twin = Twin::new(&config);
    for op in ops {
        match op {
            Op::Alloc { cpu, request } => take_or_drain(&mut subject, &mut twin, *cpu, request),
            Op::AllocRun { cpu, request, nr_blocks } => {
                (0..*nr_blocks).for_each(|_| take_or_drain(&mut subject, &mut twin, *cpu, request))
            }
            op => step(&mut subject, &mut twin, op),
        }
    }
    compare(&subject, &twin);
}

fn configs() -> impl Strategy<Value = ZoneConfig> {
    let nr_frames = prop_oneof![3 => 1..40u32, 1 => 500..530u32, 3 => 40..3000u32];
    (nr_frames, any::<Index>(), any::<bool>()).prop_map(|(nr_frames, online, whole)| {
        let nr_online = if whole { nr_frames } else { online.index(nr_frames as usize + 1) as u32 };
        ZoneConfig { nr_online, ..ZoneConfig::with_frames(nr_frames) }
    })
}

proptest! {
    #[test]
    fn a_zone_agrees_with_the_twin(
        config in configs(), ops in prop::collection::vec(ops(), 1..60)
    ) {
        agrees_with_the_twin::<Zone>(config, &ops);
    }

    #[test]
    fn per_cpu_lists_agree_with_the_twin_under_every_tuning(
        config in configs(), ops in prop::collection::vec(ops(), 1..60)
    ) {
        agrees_with_the_twin::<Tuned<0>>(config, &ops);
        agrees_with_the_twin::<Tuned<1>>(config, &ops);
        agrees_with_the_twin::<Tuned<2>>(config, &ops);
    }
}

proptest! {
    /// Frames freed by one CPU are on its lists when another needs the last block.
    #[test]
    fn nothing_fails_while_any_list_holds_the_block(
        config in configs(), ops in prop::collection::vec(ops(), 1..60)
    ) {
        finds_the_last_block::<Zone>(config, &ops);
        finds_the_last_block::<Tuned<0>>(config, &ops);
        finds_the_last_block::<Tuned<1>>(config, &ops);
        finds_the_last_block::<Tuned<2>>(config, &ops);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 6, ..ProptestConfig::default() })]

    /// Large enough for batches of 15.
    #[test]
    fn a_large_zone_agrees_with_the_twin(ops in prop::collection::vec(ops(), 1..40)) {
        let config = ZoneConfig::with_frames(200 * 512 + 77);
        agrees_with_the_twin::<Tuned<2>>(config, &ops);
    }
}

#[test]
fn every_small_zone_hands_out_every_frame_once() {
    for nr_frames in 1..=130 {
        let mut subject = Tuned::<2>::with_zone(Zone::new(ZoneConfig::with_frames(nr_frames)));
        let request = AllocRequest::fast(Order::BASE).at(None);
        let mut is_seen = vec![false; nr_frames as usize];
        for turn in 0..nr_frames {
            let frame = match subject.alloc(CpuId(turn % CPUS), &request) {
                Some(frame) => frame,
                None => {
                    // The rest is on other CPUs' lists.
                    subject.drain_all();
                    subject.alloc(CpuId(turn % CPUS), &request).expect("a frame is left")
                }
            };
            assert!(!core::mem::replace(&mut is_seen[frame.0 as usize], true), "{frame} twice");
        }
        subject.drain_all();
        assert!(subject.alloc(CpuId(0), &request).is_none());
        subject.validate();
    }
}

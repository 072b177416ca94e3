//! The page allocator's seam under real locks: one mutex for the zone, one try-lock per CPU.
//!
//! Checks that the frame table needs no lock (each word has one owner), that no frame is allocated
//! twice at a time, and that none is lost. A thread writes its name into every frame it holds and
//! checks it on return.
//!
//! A few seconds by default. `PAGETIDE_LONG=1` repeats it for half a minute.
//!
//! Not verified: fairness, contention, and interleavings that do not occur.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use pagetide_core::ids::{FrameId, Order};
use pagetide_core::page_alloc::{
    AllocRequest, FrameTable, HighFraction, Pcp, PcpInputs, PcpLimits, PcpTuning, WatermarkLevel,
    Zone, ZoneConfig, ZoneSignals,
};

const THREADS: u32 = 4;
const NR_FRAMES: u32 = if cfg!(miri) { 64 } else { 4096 };
const NR_STEPS: u32 = if cfg!(miri) { 60 } else { 10_000 };
/// Blocks that wait for their return by another thread.
const EXCHANGED: usize = if cfg!(miri) { 2 } else { 16 };
const FREE: u32 = 0;
/// Rounds that take about half a minute.
const LONG_ROUNDS: u32 = 200;

struct World {
    table: Arc<FrameTable>,
    zone: Mutex<Zone>,
    pcps: Vec<Mutex<Pcp>>,
    owners: Vec<AtomicU32>,
}

impl World {
    /// Fewer CPUs than threads, so that some try-locks fail.
    fn new(nr_cpus: u32, tuning: PcpTuning) -> World {
        let zone = Zone::new(ZoneConfig::with_frames(NR_FRAMES));
        let limits = PcpLimits::derive(&PcpInputs {
            managed: u64::from(NR_FRAMES),
            low_watermark: zone.watermarks().mark(WatermarkLevel::Low),
            nr_cpus_local: nr_cpus,
            nr_cpus_online: nr_cpus,
            fraction: HighFraction::DEFAULT,
            cache_slice: 0,
        });
        World {
            table: Arc::clone(zone.table()),
            zone: Mutex::new(zone),
            pcps: (0..nr_cpus).map(|_| Mutex::new(Pcp::with_tuning(limits, tuning))).collect(),
            owners: (0..NR_FRAMES).map(|_| AtomicU32::new(FREE)).collect(),
        }
    }

    fn alloc(&self, cpu: usize, request: &AllocRequest) -> Option<FrameId> {
        match self.pcps[cpu].try_lock() {
            Ok(mut pcp) => pcp.alloc(&self.table, request).or_else(|| {
                let mut zone = self.zone.lock().unwrap();
                pcp.refill(&mut zone, request)
            }),
            Err(_) => self.zone.lock().unwrap().alloc(request),
        }
    }

    fn free(&self, cpu: usize, frame: FrameId, order: Order) {
        match self.pcps[cpu].try_lock() {
            Ok(mut pcp) => {
                // Some frees occur during reclaim, and drain more.
                let flags =
                    ZoneSignals { reclaim_active: frame.0 % 1024 < 100, ..Default::default() };
                if let Some(drain) = pcp.free(&self.table, frame, order, flags) {
                    pcp.drain(&mut self.zone.lock().unwrap(), drain);
                }
            }
            Err(_) => self.zone.lock().unwrap().free(frame, order),
        }
    }

    /// Background work: ticks, and drains of other CPUs' lists.
    fn disturb(&self, cpu: usize, is_drain: bool) {
        let mut pcp = self.pcps[cpu].lock().unwrap();
        let drain = if is_drain { pcp.full_drain() } else { pcp.tick() };
        if let Some(drain) = drain {
            pcp.drain(&mut self.zone.lock().unwrap(), drain);
        }
    }

    /// Cuts a held block into single frames, and joins the first two.
    fn split(&self, frame: FrameId, order: Order) -> Vec<(FrameId, Order)> {
        let mut zone = self.zone.lock().unwrap();
        zone.split_held(frame, order, Order::BASE);
        let pair = [frame, FrameId(frame.0 + 1)];
        assert_eq!(zone.join_held(pair, Order::BASE), Some(frame));
        let singles = frame.0 + 2..frame.0 + order.nr_frames();
        let singles = singles.map(|single| (FrameId(single), Order::BASE));
        [(frame, Order(1))].into_iter().chain(singles).collect()
    }

    fn own(&self, frame: FrameId, order: Order, from: u32, to: u32) {
        for owner in &self.owners[frame.0 as usize..][..order.nr_frames() as usize] {
            let was = owner.swap(to, Relaxed);
            assert_eq!(was, from, "{frame} is in the hands of {was}, not {from}");
        }
    }
}

/// Xorshift, seeded by the thread's number.
fn next_random(state: &mut u32) -> u32 {
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    *state
}

/// Takes and returns blocks at random, mostly of another thread.
fn churn(world: &World, name: u32, exchange: &Mutex<Vec<(FrameId, Order)>>) -> u64 {
    let mut random = name;
    let mut held = Vec::new();
    let mut nr_taken = 0;
    for _ in 0..NR_STEPS {
        let dice = next_random(&mut random);
        let cpu = dice as usize % world.pcps.len();
        if dice >> 22 & 127 == 0 {
            world.disturb((dice >> 4) as usize % world.pcps.len(), dice >> 29 & 1 == 0);
        }
        let orders = [0, 0, 0, 0, 1, 2, 3, 5];
        let request = AllocRequest::fast(Order(orders[(dice >> 12) as usize % orders.len()]));
        if dice >> 20 & 1 == 0 || held.is_empty() {
            if let Some(frame) = world.alloc(cpu, &request) {
                world.own(frame, request.order, FREE, name);
                held.push((frame, request.order));
                nr_taken += 1;
            }
            continue;
        }
        let mine = held.swap_remove((dice >> 21) as usize % held.len());
        if mine.1 > Order::BASE && dice >> 24 & 3 == 0 {
            held.extend(world.split(mine.0, mine.1));
            continue;
        }
        world.own(mine.0, mine.1, name, FREE);
        let mut exchange = exchange.lock().unwrap();
        exchange.push(mine);
        if exchange.len() > EXCHANGED {
            let (frame, order) = exchange.swap_remove((dice >> 16) as usize % EXCHANGED);
            drop(exchange);
            world.free(cpu, frame, order);
        }
    }
    for (frame, order) in held {
        world.own(frame, order, name, FREE);
        world.free(name as usize % world.pcps.len(), frame, order);
    }
    nr_taken
}

#[test]
fn threads_share_the_frame_table_without_losing_a_frame() {
    let is_long = std::env::var_os("PAGETIDE_LONG").is_some_and(|value| value == "1");
    for _ in 0..if is_long { LONG_ROUNDS } else { 1 } {
        for tuning in PcpTuning::ALL {
            [1, 2, THREADS].into_iter().for_each(|nr_cpus| hammer(nr_cpus, tuning));
        }
    }
}

fn hammer(nr_cpus: u32, tuning: PcpTuning) {
    let world = World::new(nr_cpus, tuning);
    let exchange = Mutex::new(Vec::new());
    let nr_taken: u64 = std::thread::scope(|scope| {
        let threads: Vec<_> = (1..=THREADS)
            .map(|name| {
                scope.spawn({
                    let (world, exchange) = (&world, &exchange);
                    move || churn(world, name, exchange)
                })
            })
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert!(nr_taken > u64::from(THREADS * NR_STEPS / 20), "only {nr_taken} blocks were taken");
    for (frame, order) in exchange.into_inner().unwrap() {
        world.free(0, frame, order);
    }
    let mut zone = world.zone.into_inner().unwrap();
    for pcp in world.pcps {
        let mut pcp = pcp.into_inner().unwrap();
        pcp.validate(zone.table());
        while let Some(drain) = pcp.full_drain() {
            pcp.drain(&mut zone, drain);
        }
    }
    zone.validate();
    assert_eq!(zone.nr_free(), u64::from(NR_FRAMES));
    let nr_largest = zone.free_blocks().nr_blocks(Order::MAX);
    assert_eq!(nr_largest, NR_FRAMES / 1024, "everything merged again");
}

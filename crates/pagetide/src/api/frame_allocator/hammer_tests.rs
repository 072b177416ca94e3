//! Stress tests of the allocator and its memory.
//!
//! Each frame of a block is claimed from the arena, which rejects double allocations, and stamped,
//! which reveals foreign writes. Each test runs for a moment, or half a minute with
//! `PAGETIDE_LONG=1`.
//!
//! Not verified: fairness, and interleavings that the scheduler does not choose (see `loom_tests`).

use super::*;
use pagetide_core::ids::{CpuId, FrameId, PageIndex};
use pagetide_sys::{Claim, PageTable};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

const NR_THREADS: u32 = 2;
const ORDERS: [u8; 12] = [0, 0, 0, 0, 0, 1, 1, 2, 3, 5, 9, 10];
const EXCHANGED: usize = 8;
const NR_TAKEN_MIN: u64 = 100;
/// A third of the memory.
const NR_HELD_MAX: u32 = 1365;

fn allocator(memory: u64, nr_cpus: u32, tuning: PcpTuning) -> FrameAllocator {
    let builder = FrameAllocator::builder().memory(Bytes(memory)).pcp_tuning(tuning);
    builder.huge_pages(false).nr_cpus(nr_cpus).build().expect("a few megabytes")
}

fn patience() -> Duration {
    let is_long = std::env::var_os("PAGETIDE_LONG").is_some_and(|value| value == "1");
    if is_long { Duration::from_secs(30) } else { Duration::from_millis(1200) }
}

fn next_random(state: &mut u32) -> u32 {
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    *state
}

fn move_to(cpu: u32) -> bool {
    let mut cpus = rustix::thread::CpuSet::new();
    cpus.set(cpu as usize);
    rustix::thread::sched_setaffinity(None, &cpus).is_ok()
}

/// The allocator's memory as pages, for writing. Page `n` of the table is any frame its owner maps.
struct Stamps {
    table: Arc<PageTable>,
    nr_pages: AtomicU64,
}

struct Held<'a> {
    block: FrameBlock<'a>,
    first_page: u64,
}

impl Stamps {
    fn new(allocator: &FrameAllocator) -> Stamps {
        let table = Arc::new(PageTable::new(Arc::clone(&allocator.arena)));
        Stamps { table, nr_pages: AtomicU64::new(0) }
    }

    /// Stamps the block with page numbers unique to this thread.
    fn stamp<'a>(&self, block: FrameBlock<'a>) -> Held<'a> {
        let nr_frames = block.order().nr_frames();
        assert_eq!(block.first().0 % nr_frames, 0, "{block:?}");
        let first_page = self.nr_pages.fetch_add(u64::from(nr_frames), Relaxed);
        for nth in 0..nr_frames {
            let frame = FrameId(block.first().0 + nth);
            let claimed = self.table.arena().claim(frame).expect("no other thread has this frame");
            let number = first_page + u64::from(nth);
            let mut page = self.page(number).lock();
            page.install(claimed);
            page.write(0, &number.to_le_bytes());
            page.write(4088, &number.to_le_bytes());
        }
        Held { block, first_page }
    }

    /// Checks the stamps and releases the claims, so that the block can be dropped.
    fn check<'a>(&self, held: Held<'a>) -> FrameBlock<'a> {
        for nth in 0..held.block.order().nr_frames() {
            let number = held.first_page + u64::from(nth);
            let Claim::Locked(mut page) = self.page(number).try_claim() else {
                panic!("page {number} is this block's alone");
            };
            assert_eq!(page.frame(), Some(FrameId(held.block.first().0 + nth)));
            for offset in [0, 4088] {
                let mut stamp = [0; 8];
                page.read(offset, &mut stamp);
                assert_eq!(u64::from_le_bytes(stamp), number, "{:?}, frame {nth}", held.block);
            }
            let claimed = page.evict(None);
            self.table.arena().release(claimed);
        }
        held.block
    }

    fn page(&self, number: u64) -> pagetide_sys::PageRef<'_> {
        self.table.page_or_make(PageIndex(number % (1 << 20))).expect("in range")
    }
}

fn check_all_there(allocator: &FrameAllocator) {
    allocator.drain();
    let stats = allocator.stats();
    assert_eq!((stats.nr_free, stats.nr_listed), (stats.nr_managed, 0));
    let largest = u64::from(Order::MAX.nr_frames());
    let all: Vec<_> = std::iter::from_fn(|| allocator.alloc(Order::MAX)).collect();
    assert_eq!(all.len() as u64, stats.nr_managed / largest, "everything merged again");
}

fn churn<'a>(
    allocator: &'a FrameAllocator,
    stamps: &Stamps,
    exchange: &Mutex<Vec<Held<'a>>>,
    name: u32,
    end: Instant,
) {
    let (mut random, mut nr_taken) = (name, 0);
    let (mut held, mut nr_held) = (Vec::new(), 0);
    while Instant::now() < end || nr_taken < NR_TAKEN_MIN {
        let dice = next_random(&mut random);
        let order = Order(ORDERS[dice as usize % ORDERS.len()]);
        if dice >> 8 & 1 == 0 && nr_held + order.nr_frames() <= NR_HELD_MAX {
            if let Some(block) = allocator.alloc(order) {
                held.push(stamps.stamp(block));
                nr_held += order.nr_frames();
                nr_taken += 1;
            } else {
                assert!(order > Order::BASE, "a third of the memory is free");
            }
        } else if !held.is_empty() {
            let mine = held.swap_remove((dice >> 9) as usize % held.len());
            nr_held -= mine.block.order().nr_frames();
            let mut exchange = exchange.lock().expect("no panic under it");
            // Only small blocks, or the thirds add up to more than the memory.
            if mine.block.order() > Order(3) {
                drop(exchange);
                drop(stamps.check(mine));
                continue;
            }
            exchange.push(mine);
            if exchange.len() > EXCHANGED {
                let other = exchange.swap_remove((dice >> 16) as usize % EXCHANGED);
                drop(exchange);
                drop(stamps.check(other));
            }
        }
        match dice >> 20 {
            0..4 => allocator.drain(),
            4..64 => allocator.tick(),
            _ => {}
        }
    }
    held.into_iter().for_each(|mine| drop(stamps.check(mine)));
}

#[test]
fn two_threads_never_hold_the_same_frame_and_lose_none() {
    let runs = PcpTuning::ALL.map(|tuning| [1, 2].map(|nr_cpus| (tuning, nr_cpus)));
    let each = patience() / runs.as_flattened().len() as u32;
    for &(tuning, nr_cpus) in runs.as_flattened() {
        let allocator = allocator(16 << 20, nr_cpus, tuning);
        let (stamps, exchange) = (Stamps::new(&allocator), Mutex::new(Vec::new()));
        let end = Instant::now() + each;
        std::thread::scope(|scope| {
            for name in 1..=NR_THREADS {
                let (allocator, stamps, exchange) = (&allocator, &stamps, &exchange);
                scope.spawn(move || churn(allocator, stamps, exchange, name, end));
            }
        });
        let left = exchange.into_inner().expect("no panic under it");
        left.into_iter().for_each(|held| drop(stamps.check(held)));
        check_all_there(&allocator);
    }
}

/// Each thread looks up its CPU, is moved, and uses the stale CPU, so that two threads meet in one
/// list. Frames return to other lists, some of CPUs added after the lists were made.
#[test]
fn threads_moved_after_the_look_up_share_lists_and_stay_right() {
    let may_move = std::thread::spawn(|| move_to(0) && move_to(1)).join().expect("no panic");
    if !may_move {
        eprintln!("SKIPPED: threads_moved_after_the_look_up: CPUs 0 and 1 are not both ours");
        return;
    }
    for tuning in PcpTuning::ALL {
        let allocator = allocator(16 << 20, 2, tuning);
        let stamps = Stamps::new(&allocator);
        let end = Instant::now() + patience() / PcpTuning::ALL.len() as u32;
        std::thread::scope(|scope| {
            for name in 0..NR_THREADS {
                let (allocator, stamps) = (&allocator, &stamps);
                scope.spawn(move || wander(allocator, stamps, name, end));
            }
        });
        check_all_there(&allocator);
    }
}

fn wander(allocator: &FrameAllocator, stamps: &Stamps, name: u32, end: Instant) {
    let request = AllocRequest::fast(Order::BASE).at(None);
    // An added CPU, and the largest number.
    let added = [CpuId(2), CpuId(7), CpuId(u32::MAX)];
    for round in 0.. {
        if round > 0 && Instant::now() >= end {
            return;
        }
        assert!(move_to((name + round) % 2));
        let cpu = current_cpu();
        assert!(move_to((name + round + 1) % 2));
        let held: Vec<_> = (0..200)
            .map(|nth| {
                let cpu = if nth % 8 == 0 { added[nth / 8 % added.len()] } else { cpu };
                let first = allocator.zone.alloc(cpu, &request).expect("16 MiB are enough");
                stamps.stamp(FrameBlock { allocator, first, order: Order::BASE })
            })
            .collect();
        for (nth, mine) in held.into_iter().enumerate() {
            let block = std::mem::ManuallyDrop::new(stamps.check(mine));
            let cpu = if nth % 5 == 0 { added[nth / 5 % added.len()] } else { cpu };
            allocator.zone.free(cpu, block.order, [block.first]);
        }
    }
}

/// More CPUs than lists, through the public interface.
#[test]
fn cpus_beyond_the_lists_share_one() {
    let allocator = allocator(16 << 20, 1, PcpTuning::Refill);
    let stamps = Stamps::new(&allocator);
    let end = Instant::now() + patience() / 4;
    std::thread::scope(|scope| {
        for name in 0..NR_THREADS {
            let (allocator, stamps) = (&allocator, &stamps);
            scope.spawn(move || {
                if !move_to(name) {
                    eprintln!("SKIPPED: cpus_beyond_the_lists: CPU {name} is not ours");
                }
                loop {
                    let held: Vec<_> = (0..100)
                        .map(|_| stamps.stamp(allocator.alloc(Order::BASE).expect("enough")))
                        .collect();
                    held.into_iter().for_each(|mine| drop(stamps.check(mine)));
                    if Instant::now() >= end {
                        break;
                    }
                }
            });
        }
    });
    check_all_there(&allocator);
}

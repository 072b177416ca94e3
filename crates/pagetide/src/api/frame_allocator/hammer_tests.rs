//! Threads against the allocator, with the memory it hands out.
//!
//! Each frame of each block is claimed from the arena, so that one handed out twice is refused
//! there, and gets its owner's stamp, so that one that another thread writes shows. At the end all
//! of the memory can be had again, in the largest blocks there are.
//!
//! Each hammer runs for a moment, and for half a minute with `PAGETIDE_LONG=1`; where the machine
//! has no time for it just then, until it has done something.
//!
//! Not verified: fairness, and interleavings the scheduler does not happen to choose (loom has
//! those of the locks).

use super::*;
use pagetide_core::ids::{CpuId, FrameId, PageIndex};
use pagetide_sys::{Claim, PageTable};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

const NR_THREADS: u32 = 2;
/// What a block may be, most often the smallest.
const ORDERS: [u8; 12] = [0, 0, 0, 0, 0, 1, 1, 2, 3, 5, 9, 10];
/// Blocks that wait between their owner and the thread that returns them.
const EXCHANGED: usize = 8;
/// Blocks one thread takes at least.
const NR_TAKEN_MIN: u64 = 100;
/// Frames one thread holds at most: a third of the memory.
const NR_HELD_MAX: u32 = 1365;

fn allocator(memory: u64, nr_cpus: u32, tuning: PcpTuning) -> FrameAllocator {
    let builder = FrameAllocator::builder().memory(Bytes(memory)).pcp_tuning(tuning);
    builder.huge_pages(false).nr_cpus(nr_cpus).build().expect("a few megabytes")
}

/// How long all hammers of one test take together.
fn patience() -> Duration {
    let is_long = std::env::var_os("PAGETIDE_LONG").is_some_and(|value| value == "1");
    if is_long { Duration::from_secs(30) } else { Duration::from_millis(1200) }
}

/// A small generator: the seed is the thread's number.
fn next_random(state: &mut u32) -> u32 {
    *state ^= *state << 13;
    *state ^= *state >> 17;
    *state ^= *state << 5;
    *state
}

/// Takes this thread to `cpu`; says whether it may be there.
fn move_to(cpu: u32) -> bool {
    let mut cpus = rustix::thread::CpuSet::new();
    cpus.set(cpu as usize);
    rustix::thread::sched_setaffinity(None, &cpus).is_ok()
}

/// The allocator's memory as pages, so that it can be written here: page `n` of the table is
/// whichever frame its owner put there.
struct Stamps {
    table: Arc<PageTable>,
    nr_pages: AtomicU64,
}

/// A block whose every frame was claimed and stamped.
struct Held<'a> {
    block: FrameBlock<'a>,
    first_page: u64,
}

impl Stamps {
    fn new(allocator: &FrameAllocator) -> Stamps {
        let table = Arc::new(PageTable::new(Arc::clone(&allocator.arena)));
        Stamps { table, nr_pages: AtomicU64::new(0) }
    }

    /// The pages are this thread's alone: their numbers are the stamps.
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

    /// Finds each stamp as it was, and gives the claims up; the block can be dropped.
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

/// All frames are free, and merged into the largest blocks: none is lost.
fn check_all_there(allocator: &FrameAllocator) {
    allocator.drain();
    let stats = allocator.stats();
    assert_eq!((stats.nr_free, stats.nr_listed), (stats.nr_managed, 0));
    let largest = u64::from(Order::MAX.nr_frames());
    let all: Vec<_> = std::iter::from_fn(|| allocator.alloc(Order::MAX)).collect();
    assert_eq!(all.len() as u64, stats.nr_managed / largest, "everything merged again");
}

/// Takes and returns blocks of all orders at random; some are returned by the other thread.
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
            // What waits there is a few frames, or the thirds would not add up.
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

/// The look-up of the CPU and its use are two moments: each thread looks, is moved, and uses what
/// it saw, so that two threads meet in lists that are neither's CPU's; and returns frames to yet
/// other lists, some of CPUs that were not there when the lists were made.
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
    // One that was added, and the greatest number there is.
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

/// A machine with more CPUs than lists, through the door that programs use.
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

//! The cost of the zone's lock, held and contended: the prices for `pagetide lab`'s virtual
//! machine.
//!
//! ```text
//!   hold 1, 63, 2016   fetches as many frames under one hold of the zone's lock, and returns
//!                      them under another, always the same frames. Two threads take turns, each
//!                      for 28 programs that take and return 128 MiB, so that the other CPU touched
//!                      the zone last, and half of its frames, long ago
//!   zone_page          one more frame in a hold
//!   zone_lines         the extra cost of an empty hold if the other thread had the zone last
//!   acquire            taking a free lock: half of a lock and unlock
//!   hand_off           a word written by two threads in turn: from one write to the next
//!   line_transfer      the extra cost of a free lock if the other thread had the lock last
//!   wait               one short hold while another thread takes the lock all the time, against
//!                      the same hold alone (uncontended)
//! ```
//!
//! Names with an underscore are prices of the virtual machine. Its `list_hit` is half of `pagetide
//! bench alloc`'s fault loop. The rows of one thread, `hand_off` and `line_transfer` are the
//! fastest of short runs, to exclude other programs. The holds of two threads are medians without
//! the hand-off. Each of two threads stays on its own CPU. A virtual machine may run both on one
//! core, with shared caches, or on two. `hand_off` shows the case: about 20 ns, or 50 to 200.
//!
//! Ignored: more than two CPUs, and the mutex's fairness.

mod harness;

use harness::{Mode, Samples, interleave};
use pagetide_core::ids::{FrameId, Order};
use pagetide_core::page_alloc::{AllocRequest, Zone, ZoneConfig};
use std::collections::VecDeque;
use std::hint::black_box;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Frames of the measured zone: 256 MiB.
const NR_FRAMES: u32 = 1 << 16;
/// Turns between clock reads: about ten microseconds, often undisturbed.
const TURNS: u64 = 100;
/// Ends the turns.
const OVER: u64 = u64::MAX;
/// Loads of the word before a yield, because the other thread may not be running.
const LOOKS: u32 = 1 << 12;
/// Lists of the crowded machine, and frames in each: 56 CPUs with page_fault1's 128 MiB. Their page
/// words alone take 15 MB, more than a core's own caches.
const LISTS: u32 = 56;
const SMOKE_LISTS: u32 = 4;
const LIST_FRAMES: u32 = 1 << 15;
/// Frames in a hold: one, a batch, the largest scaled batch.
const HOLDS: [u32; 3] = [1, 63, 2016];

const NR_ROUNDS: u32 = 7;
/// Short runs in a measurement. The fastest counts, because other programs use the machine.
const SHORT_RUNS: u32 = 50;

/// Frames moved and turns taken, so that the compiler keeps the work.
static CHECKSUM: AtomicU64 = AtomicU64::new(0);

fn main() {
    let mode = Mode::from_arguments();
    let near = near_holds(mode);
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        println!("the rows of two threads need two CPUs");
    } else {
        two_threads(mode, &near);
    }
    println!("checksum {:#018x}", CHECKSUM.load(Ordering::Relaxed));
}

/// Measures holds after another thread had the zone, and waiting for a hold.
fn two_threads(mode: Mode, near: &Holds) {
    let lock = Mutex::new(0_u64);
    let [turns, locking_turns, far_batches, far_large, acquire, waits, alone] = interleave(
        mode.pick(NR_ROUNDS, 2),
        [
            Box::new(|| fastest(&time_turns(mode, TURNS, || || ()))),
            Box::new(|| fastest(&time_turns(mode, TURNS, || || hold(&lock)))),
            Box::new(|| time_far_holds(mode, HOLDS[1])),
            Box::new(|| time_far_holds(mode, HOLDS[2])),
            Box::new(|| time_acquire(mode)),
            Box::new(|| time_short_holds(mode, true)),
            Box::new(|| time_short_holds(mode, false)),
        ],
    );
    // A turn with a hold locks and unlocks, so subtract both.
    let transfer = locking_turns.with(&turns, |with, without| with - without);
    let transfer = transfer.with(&acquire, |there, here| (there - 2.0 * here).max(0.0));
    let far = Holds {
        batch: far_batches.with(&turns, |with, without| with - without),
        large: far_large.with(&turns, |with, without| with - without),
    };
    let lines = far.of_none().with(&near.of_none(), |far, near| far - near);
    let lines = lines.with(&transfer, |lines, of_lock| (lines - of_lock).max(0.0));
    far.batch.print("hold 63, 2 threads");
    far.large.print("hold 2016, 2 threads");
    far.per_page().print("zone_page, 2 threads");
    lines.print("zone_lines");
    turns.print("hand_off");
    transfer.print("line_transfer");
    waits.print_against("wait", "uncontended", &alone);
}

/// Holds of a batch and of the largest batch.
struct Holds {
    batch: Samples,
    large: Samples,
}

impl Holds {
    /// Returns the cost of one more frame.
    fn per_page(&self) -> Samples {
        let more = f64::from(HOLDS[2] - HOLDS[1]);
        self.large.with(&self.batch, |large, batch| (large - batch) / more)
    }

    /// Returns the cost of a hold without frames.
    fn of_none(&self) -> Samples {
        self.batch.with(&self.per_page(), |batch, page| batch - f64::from(HOLDS[1]) * page)
    }
}

fn near_holds(mode: Mode) -> Holds {
    let [one, batch, large, acquire] = interleave(
        mode.pick(NR_ROUNDS, 2),
        [
            Box::new(|| time_hold(mode, HOLDS[0])),
            Box::new(|| time_hold(mode, HOLDS[1])),
            Box::new(|| time_hold(mode, HOLDS[2])),
            Box::new(|| time_acquire(mode)),
        ],
    );
    let near = Holds { batch, large };
    one.print("hold 1");
    near.batch.print("hold 63");
    near.large.print("hold 2016");
    near.per_page().print("zone_page");
    acquire.print("acquire");
    near
}

/// Returns the time of a turn with a hold of `nr_frames` frames of a large zone, in nanoseconds.
fn time_far_holds(mode: Mode, nr_frames: u32) -> f64 {
    let nr_lists = mode.pick(LISTS, SMOKE_LISTS);
    let zone = Mutex::new(Zone::new(ZoneConfig::with_frames(nr_lists * LIST_FRAMES / 8 * 9)));
    let nr_turns = (TURNS * u64::from(HOLDS[1]) / u64::from(nr_frames)).max(4);
    let mut times = time_turns(mode, nr_turns, || Program::new(&zone, nr_lists / 2, nr_frames));
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// One thread's half of a crowded machine, with page_fault1 on each CPU. Each turn makes one hold
/// on the next list. Each list fills to 128 MiB, then empties.
struct Program<'z> {
    zone: &'z Mutex<Zone>,
    lists: Vec<FaultList>,
    at: usize,
    /// The frames to move next, or just moved.
    batch: Vec<FrameId>,
    nr_frames: u32,
}

struct FaultList {
    held: VecDeque<FrameId>,
    is_filling: bool,
}

impl<'z> Program<'z> {
    /// Creates lists of different lengths with mixed frames, in batches.
    fn new(zone: &'z Mutex<Zone>, nr_lists: u32, nr_frames: u32) -> Program<'z> {
        let list = |at| FaultList {
            held: VecDeque::with_capacity((LIST_FRAMES + nr_frames) as usize),
            is_filling: at % 2 == 0,
        };
        let lists: Vec<FaultList> = (0..nr_lists).map(list).collect();
        let mut program = Program { zone, lists, at: 0, batch: Vec::new(), nr_frames: HOLDS[1] };
        let nr_rounds = LIST_FRAMES / HOLDS[1];
        for round in 0..2 * nr_rounds {
            for at in 0..nr_lists {
                program.at = at as usize;
                if round % nr_rounds >= nr_rounds * at / nr_lists || round < nr_rounds / 2 {
                    program.prepare();
                    program.visit();
                }
            }
        }
        program.nr_frames = nr_frames;
        program.prepare();
        program
    }
}

impl Visitor for Program<'_> {
    fn visit(&mut self) {
        let request = AllocRequest::fast(Order::BASE).at(None);
        let is_filling = self.lists[self.at].is_filling;
        let mut zone = self.zone.lock().expect("no measured thread panics");
        if is_filling {
            let batch = &mut self.batch;
            zone.alloc_bulk(&request, self.nr_frames, |_, frame| batch.push(frame));
        } else {
            let mut batch = self.batch.iter();
            zone.free_bulk(|_| batch.next().map(|&frame| (frame, Order::BASE)));
        }
    }

    fn prepare(&mut self) {
        if self.lists[self.at].is_filling {
            self.lists[self.at].held.extend(&self.batch);
        }
        self.batch.clear();
        self.at = (self.at + 1) % self.lists.len();
        let list = &mut self.lists[self.at];
        if list.held.len() >= LIST_FRAMES as usize {
            list.is_filling = false;
        } else if list.held.is_empty() {
            list.is_filling = true;
        }
        if !list.is_filling {
            let nr_frames = list.held.len().min(self.nr_frames as usize);
            self.batch.extend(list.held.drain(..nr_frames));
        }
    }
}

/// Returns the time of a hold that moves `nr_frames` frames, in nanoseconds.
fn time_hold(mode: Mode, nr_frames: u32) -> f64 {
    let zone = Mutex::new(Zone::new(ZoneConfig::with_frames(NR_FRAMES)));
    let request = AllocRequest::fast(Order::BASE).at(None);
    let mut held: Vec<FrameId> = Vec::with_capacity(nr_frames as usize);
    let mut nr_moved = 0;
    let time = fastest_loop(duration(mode, 100), 1, || {
        let mut fetching = zone.lock().expect("no measured thread panics");
        fetching.alloc_bulk(&request, nr_frames, |_, frame| held.push(frame));
        drop(fetching);
        nr_moved += held.len() as u64;
        let mut sending = zone.lock().expect("no measured thread panics");
        sending.free_bulk(|_| held.pop().map(|frame| (frame, Order::BASE)));
    });
    CHECKSUM.fetch_add(nr_moved, Ordering::Relaxed);
    time / 2.0
}

/// Returns the time to take a free lock, in nanoseconds.
fn time_acquire(mode: Mode) -> f64 {
    let lock = Mutex::new(0_u64);
    fastest_loop(duration(mode, 50), 1024, || hold(&lock)) / 2.0
}

fn duration(mode: Mode, real_ms: u64) -> Duration {
    Duration::from_millis(mode.pick(real_ms, real_ms / 20))
}

/// Returns the time of one call of `operate`, in nanoseconds, in the fastest of many runs that
/// together take about `duration`.
fn fastest_loop(duration: Duration, batch: u32, mut operate: impl FnMut()) -> f64 {
    let runs = (0..SHORT_RUNS).map(|_| time_loop(duration / SHORT_RUNS, batch, &mut operate));
    runs.fold(f64::INFINITY, f64::min)
}

/// Returns the time of one call of `operate`, in nanoseconds. Reads the clock every `batch` calls.
fn time_loop(duration: Duration, batch: u32, mut operate: impl FnMut()) -> f64 {
    let (start, mut nr_calls) = (Instant::now(), 0_u64);
    loop {
        (0..batch).for_each(|_| operate());
        nr_calls += u64::from(batch);
        let elapsed = start.elapsed();
        if elapsed >= duration {
            return elapsed.as_nanos() as f64 / nr_calls as f64;
        }
    }
}

/// Pins this thread to a CPU, if permitted. Otherwise the scheduler's moves show in the spread.
fn stay_on(cpu: usize) {
    let mut cpus = rustix::thread::CpuSet::new();
    cpus.set(cpu);
    let _ = rustix::thread::sched_setaffinity(None, &cpus);
}

/// Takes the lock for almost no work.
fn hold(lock: &Mutex<u64>) {
    *black_box(lock).lock().expect("no measured thread panics") += 1;
}

/// The work of a thread in its turns, and between them.
trait Visitor {
    fn visit(&mut self);
    fn prepare(&mut self) {}
}

impl<F: FnMut()> Visitor for F {
    fn visit(&mut self) {
        self();
    }
}

/// Returns the time of a turn in each of many short runs, in nanoseconds: from one thread's write
/// until the waiting other thread has seen the write and made its visit. Each thread has its own
/// visitor.
fn time_turns<V: Visitor>(mode: Mode, nr_turns: u64, visitor: impl Fn() -> V + Sync) -> Vec<f64> {
    let word = AtomicU64::new(0);
    let (word, visitor) = (&word, &visitor);
    let take = |turn: u64, visitor: &mut V| {
        let is_on = await_turn(word, turn);
        if is_on {
            visitor.visit();
            word.store(turn + 1, Ordering::Release);
            visitor.prepare();
        }
        is_on
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            stay_on(1);
            let (mut turn, mut visitor) = (1, visitor());
            while take(turn, &mut visitor) {
                turn += 2;
            }
        });
        let leader = scope.spawn(|| {
            stay_on(0);
            let (mut turn, mut visitor, mut times) = (0, visitor(), Vec::new());
            // The first turns wait for the other thread to start.
            let mut begin = Instant::now();
            while times.is_empty() || begin.elapsed() < duration(mode, 200) {
                let start = Instant::now();
                for _ in 0..nr_turns {
                    take(turn, &mut visitor);
                    turn += 2;
                }
                if turn == 2 * nr_turns {
                    begin = Instant::now();
                    continue;
                }
                times.push(start.elapsed().as_nanos() as f64 / (2 * nr_turns) as f64);
            }
            await_turn(word, turn);
            word.store(OVER, Ordering::Release);
            CHECKSUM.fetch_add(turn, Ordering::Relaxed);
            times
        });
        leader.join().expect("no measured thread panics")
    })
}

fn fastest(times: &[f64]) -> f64 {
    times.iter().copied().fold(f64::INFINITY, f64::min)
}

/// Waits for this turn. Returns false if there are no more turns.
fn await_turn(word: &AtomicU64, turn: u64) -> bool {
    let mut nr_looks = 0_u32;
    loop {
        match word.load(Ordering::Acquire) {
            OVER => return false,
            seen if seen == turn => return true,
            _ => nr_looks += 1,
        }
        if nr_looks.is_multiple_of(LOOKS) {
            std::thread::yield_now();
        } else {
            std::hint::spin_loop();
        }
    }
}

/// Returns the time of a short hold, in nanoseconds, with or without contention by another thread.
fn time_short_holds(mode: Mode, is_contended: bool) -> f64 {
    let lock = Mutex::new(0_u64);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        if is_contended {
            scope.spawn(|| {
                stay_on(1);
                while !is_over.load(Ordering::Relaxed) {
                    hold(&lock);
                }
            });
        }
        let time = time_loop(duration(mode, 100), 1024, || hold(&lock));
        is_over.store(true, Ordering::Relaxed);
        time
    })
}

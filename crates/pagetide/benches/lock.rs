//! What the zone's lock costs while it is held and while it is waited for: the prices that a
//! virtual machine needs.
//!
//! ```text
//!   hold 1, 63, 2016   frames fetched under one hold of the zone's lock, and sent back under
//!                      another: a hold of so many frames, always the same ones. Two threads: by
//!                      turns, each for 28 programs that take and return 128 MiB; so the zone, and
//!                      half of its frames, were touched by the other CPU last, and long ago
//!   zone_page          a frame more in a hold
//!   zone_lines         what a hold of no frames costs more when the other thread had the zone last
//!   acquire            taking a free lock: half of taking it and letting it go
//!   hand_off           a word that two threads write in turn: from one's write to the other's
//!   line_transfer      what taking a free lock costs more when the other thread had it last
//!   wait               one short hold, with another thread taking the lock all the time; against
//!                      the same alone (uncontended)
//! ```
//!
//! Names with an underscore are those of the prices in `pagetide lab`'s virtual machine; its
//! `list_hit` is half of `pagetide bench alloc`'s fault loop. One thread's rows, `hand_off` and
//! `line_transfer` are the fastest of short runs, two threads' holds their median, each without the
//! hand-off: what the machine does when no other program runs. Two threads are each kept on a CPU
//! of their own; in a virtual machine these may at one time be two threads of one core, whose
//! caches are shared, and at another two cores. `hand_off` tells them apart: some 20 ns, or some 50
//! to 200.
//!
//! Ignored: more CPUs than two, and how unfair a mutex is.

mod harness;

use harness::{Mode, Samples, interleave};
use pagetide_core::ids::{FrameId, Order};
use pagetide_core::page_alloc::{AllocRequest, Zone, ZoneConfig};
use std::collections::VecDeque;
use std::hint::black_box;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Frames of the zone that is measured: 256 MiB.
const NR_FRAMES: u32 = 1 << 16;
/// Turns of each thread between looks at the clock: some ten microseconds, in which both may well
/// be left alone.
const TURNS: u64 = 100;
/// The turn after the last.
const OVER: u64 = u64::MAX;
/// Looks at a word before the time slice is given away: on a machine that is busy the other thread
/// may not be running at all.
const LOOKS: u32 = 1 << 12;
/// Lists of the crowded machine that two threads play, and frames that each grows to: 56 CPUs with
/// page_fault1's 128 MiB. Their words alone are 15 MB, more than a core's own caches.
const LISTS: u32 = 56;
const SMOKE_LISTS: u32 = 4;
const LIST_FRAMES: u32 = 1 << 15;
/// Frames of a hold: one, a batch, the most a batch is scaled to.
const HOLDS: [u32; 3] = [1, 63, 2016];

const NR_ROUNDS: u32 = 7;
/// Times within a measurement that a short run is made: the fastest is what counts on a machine
/// that other programs use too.
const SHORT_RUNS: u32 = 50;

/// Frames moved and turns taken: work that was done, and cannot be left out.
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

/// What a hold costs where another thread had the zone, and waiting for one.
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
    // A hold by turns takes the lock and lets it go, and so do two of the others.
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

/// Holds of a batch, and of the largest one.
struct Holds {
    batch: Samples,
    large: Samples,
}

impl Holds {
    /// What a frame more takes.
    fn per_page(&self) -> Samples {
        let more = f64::from(HOLDS[2] - HOLDS[1]);
        self.large.with(&self.batch, |large, batch| (large - batch) / more)
    }

    /// What is left of a hold without its frames.
    fn of_none(&self) -> Samples {
        self.batch.with(&self.per_page(), |batch, page| batch - f64::from(HOLDS[1]) * page)
    }
}

/// One thread's holds.
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

/// Nanoseconds for a turn with a hold of `nr_frames` frames of a large zone.
fn time_far_holds(mode: Mode, nr_frames: u32) -> f64 {
    let nr_lists = mode.pick(LISTS, SMOKE_LISTS);
    let zone = Mutex::new(Zone::new(ZoneConfig::with_frames(nr_lists * LIST_FRAMES / 8 * 9)));
    let nr_turns = (TURNS * u64::from(HOLDS[1]) / u64::from(nr_frames)).max(4);
    let mut times = time_turns(mode, nr_turns, || Program::new(&zone, nr_lists / 2, nr_frames));
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Half of a crowded machine, on one thread: page_fault1 on each of its CPUs. Each list is filled
/// to 128 MiB and emptied again, a hold in each turn, the lists in turn.
struct Program<'z> {
    zone: &'z Mutex<Zone>,
    lists: Vec<FaultList>,
    at: usize,
    /// What moves next, or has moved.
    batch: Vec<FrameId>,
    nr_frames: u32,
}

struct FaultList {
    held: VecDeque<FrameId>,
    is_filling: bool,
}

impl<'z> Program<'z> {
    /// Lists at different levels, their frames mixed, one batch after the other.
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

/// Nanoseconds for one hold that moves `nr_frames` frames.
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
    // Two holds.
    time / 2.0
}

/// Nanoseconds for taking a free lock.
fn time_acquire(mode: Mode) -> f64 {
    let lock = Mutex::new(0_u64);
    fastest_loop(duration(mode, 50), 1024, || hold(&lock)) / 2.0
}

/// How long one measurement takes.
fn duration(mode: Mode, real_ms: u64) -> Duration {
    Duration::from_millis(mode.pick(real_ms, real_ms / 20))
}

/// Nanoseconds of one call of `operate`, in the fastest of many runs that together take about
/// `duration`.
fn fastest_loop(duration: Duration, batch: u32, mut operate: impl FnMut()) -> f64 {
    let runs = (0..SHORT_RUNS).map(|_| time_loop(duration / SHORT_RUNS, batch, &mut operate));
    runs.fold(f64::INFINITY, f64::min)
}

/// Nanoseconds of one call of `operate`; the clock is read once in `batch` calls.
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

/// Keeps this thread on a CPU of its own, where that is allowed; else the scheduler decides, and
/// the spread shows it.
fn stay_on(cpu: usize) {
    let mut cpus = rustix::thread::CpuSet::new();
    cpus.set(cpu);
    let _ = rustix::thread::sched_setaffinity(None, &cpus);
}

/// A hold that does next to nothing.
fn hold(lock: &Mutex<u64>) {
    *black_box(lock).lock().expect("no measured thread panics") += 1;
}

/// What a thread does in its turns, and between them.
trait Visitor {
    fn visit(&mut self);
    fn prepare(&mut self) {}
}

impl<F: FnMut()> Visitor for F {
    fn visit(&mut self) {
        self();
    }
}

/// Nanoseconds for a turn, in each of many short runs: from one thread's write until the other,
/// which waits for it, has seen it and made its visit. Each thread has a visitor of its own.
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
            // The first turns wait until the other is there.
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

/// The least of these.
fn fastest(times: &[f64]) -> f64 {
    times.iter().copied().fold(f64::INFINITY, f64::min)
}

/// Waits for this turn; `false` when there are no more.
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

/// Nanoseconds for a hold that does next to nothing, with or without another thread that takes the
/// lock all the time.
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

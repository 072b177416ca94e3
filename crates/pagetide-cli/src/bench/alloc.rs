//! `bench alloc`: the cost of a frame, from a per-CPU list and through the zone.
//!
//! ```text
//!   pair         alloc and free of one frame, the list hit       threads 1, 2
//!     mutex        the same, a vector behind one mutex
//!     spin         the same, a vector behind one spin lock
//!     array-queue  the same, a lock-free bounded queue
//!   fault <t>    128 MiB allocated, then freed, repeatedly; per frame, with tuning <t>
//!   locked <t>   the same loop: frames through the zone's lock per cycle, after the third
//! ```
//!
//! `fault` and `locked` compare tunings only. `locked` counts frames of all threads. Ignored: use
//! of the frames.

use super::interleave::{Samples, fastest_of, stay_on, time_threads};
use super::{Bench, Row};
use crate::failure::Failure;
use ::pagetide::{FrameAllocator, FrameBlock, Order, PcpTuning};
use crossbeam_queue::ArrayQueue;
use pagetide_core::units::Bytes;
use std::hint::black_box;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Operations per clock read.
const BATCH: u32 = 1024;
const NR_FRAMES: u32 = 1024;
/// Uncounted cycles.
const WARM_CYCLES: u32 = 3;
/// Counted cycles.
const CYCLES: usize = 5;
/// The depth tuning needs time to find its limit.
const DEPTH_WARM: Duration = Duration::from_secs(10);

pub(super) fn run(bench: &Bench<'_>) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    for threads in [1, 2] {
        pairs(bench, threads, &mut rows)?;
    }
    for threads in [1, 2] {
        for tuning in PcpTuning::ALL {
            fault_loop(bench, threads, tuning, &mut rows)?;
        }
    }
    Ok(rows)
}

fn allocator(memory: Bytes, tuning: PcpTuning) -> Result<FrameAllocator, Failure> {
    let builder = FrameAllocator::builder().memory(memory).pcp_tuning(tuning).huge_pages(false);
    builder.build().map_err(|error| Failure::on(&format!("reserve {memory}"), &error))
}

fn pairs(bench: &Bench<'_>, threads: u32, rows: &mut Vec<Row>) -> Result<(), Failure> {
    let duration = bench.duration(100);
    let frames = allocator(Bytes(64 << 20), PcpTuning::default())?;
    let mutex: Mutex<Vec<u32>> = Mutex::new((0..NR_FRAMES).collect());
    let spin =
        SpinList { is_held: AtomicBool::new(false), list: Mutex::new((0..NR_FRAMES).collect()) };
    let queue = ArrayQueue::new(NR_FRAMES as usize);
    (0..NR_FRAMES).try_for_each(|frame| queue.push(frame)).expect("it is as long");
    let [subject, by_mutex, by_spin, by_queue] = bench.interleave(
        &format!("alloc pair, {threads} threads"),
        [
            Box::new(|| {
                time_pairs(threads, duration, || {
                    black_box(frames.alloc(Order::BASE));
                })
            }),
            Box::new(|| {
                time_pairs(threads, duration, || {
                    let frame = lock(&mutex).pop();
                    lock(&mutex).extend(black_box(frame));
                })
            }),
            Box::new(|| {
                time_pairs(threads, duration, || {
                    let frame = spin.with(Vec::pop);
                    spin.with(|list| list.extend(black_box(frame)));
                })
            }),
            Box::new(|| {
                time_pairs(threads, duration, || {
                    let frame = black_box(queue.pop());
                    frame.into_iter().for_each(|frame| queue.push(frame).expect("there is room"));
                })
            }),
        ],
    )?;
    for (reference, samples) in [("mutex", by_mutex), ("spin", by_spin), ("array-queue", by_queue)]
    {
        rows.push(Row::measured(("alloc", "pair", threads), reference, &subject, &samples));
    }
    Ok(())
}

/// Takes the fastest short run of one thread, and one long run of several threads, because they
/// must meet.
fn time_pairs(threads: u32, duration: Duration, pair: impl Fn() + Sync) -> Result<f64, Failure> {
    let time = |duration| {
        let cpus = (0..threads).map(Some).collect();
        time_threads((duration, 1), cpus, |cpu| {
            cpu.take().into_iter().for_each(stay_on);
            (0..BATCH).for_each(|_| pair());
            Ok(())
        })
    };
    let time = if threads == 1 { fastest_of(duration, time) } else { time(duration) };
    Ok(time? / f64::from(BATCH))
}

/// A list behind a spin lock. The inner mutex is never contended and avoids unsafe code. The
/// measurement includes the mutex.
struct SpinList {
    is_held: AtomicBool,
    list: Mutex<Vec<u32>>,
}

impl SpinList {
    fn with<T>(&self, change: impl FnOnce(&mut Vec<u32>) -> T) -> T {
        while self.is_held.swap(true, Ordering::Acquire) {
            while self.is_held.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        }
        let result = change(&mut lock(&self.list));
        self.is_held.store(false, Ordering::Release);
        result
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().expect("no measured thread panics")
}

/// Lets each thread allocate and free 128 MiB, as a process that faults its memory and exits.
fn fault_loop(
    bench: &Bench<'_>,
    threads: u32,
    tuning: PcpTuning,
    rows: &mut Vec<Row>,
) -> Result<(), Failure> {
    let burst = Bytes(if bench.args.quick { 4 << 20 } else { 128 << 20 });
    // All CPUs' lists may hold an eighth: each thread's burst must fit in its share.
    let nr_cpus = u64::from(pagetide_sys::read_nr_cpus_possible());
    let frames = allocator(Bytes(burst.0 * 10 * nr_cpus.max(u64::from(threads))), tuning)?;
    let is_slow = tuning == PcpTuning::Depth && !bench.args.quick;
    let warm = if is_slow { DEPTH_WARM } else { Duration::ZERO };
    let (start, mut cycle) = (Instant::now(), 0);
    let (mut times, mut locked) = (Vec::new(), Vec::new());
    while times.len() < CYCLES {
        bench.interrupt.check()?;
        let before = through_lock(&frames);
        let time = one_cycle(&frames, threads, burst.whole_pages());
        frames.tick();
        cycle += 1;
        if cycle > WARM_CYCLES && start.elapsed() >= warm {
            times.push(time);
            locked.push((through_lock(&frames) - before) as f64);
        }
    }
    let (case, counted) = (format!("fault {tuning}"), format!("locked {tuning}"));
    rows.push(Row::alone(("alloc", &case, threads), &Samples::from(times)));
    rows.push(Row::alone(("alloc", &counted, threads), &Samples::from(locked)));
    Ok(())
}

/// Counts frames in both directions.
fn through_lock(frames: &FrameAllocator) -> u64 {
    let zone = frames.stats().zone;
    zone.nr_frames_taken + zone.nr_frames_returned
}

/// Nanoseconds per frame.
fn one_cycle(frames: &FrameAllocator, threads: u32, nr_frames: u64) -> f64 {
    let start = Instant::now();
    std::thread::scope(|scope| {
        for cpu in 0..threads {
            scope.spawn(move || {
                stay_on(cpu);
                let held: Vec<FrameBlock<'_>> =
                    (0..nr_frames).filter_map(|_| frames.alloc(Order::BASE)).collect();
                assert_eq!(held.len() as u64, nr_frames, "ten times as much is there");
            });
        }
    });
    start.elapsed().as_nanos() as f64 / nr_frames as f64
}

//! `bench lock`: what the zone's lock costs those who hold it and those who wait: the prices that a
//! simulated machine needs.
//!
//! ```text
//!   hold 1, 63, 2016   frames fetched under one hold of the zone's lock, and sent back under
//!                      another: a hold of so many frames
//!   zone_page          a frame more in a hold
//!   acquire            taking a free lock: half of taking it and letting it go
//!   hand_off           a word that two threads write in turn: from one's write to the other's
//!   line_transfer      what taking a free lock costs more when the other thread had it last
//!   wait               one short hold, with another thread taking the lock all the time; against
//!                      the same alone (uncontended)
//! ```
//!
//! Names with an underscore are those of the prices in `pagetide lab`'s virtual machine; its
//! `list_hit` is half of `bench alloc`'s pair. All but `wait` are the fastest of short runs: what
//! the machine does when nobody else is on it. Two threads are each kept on a CPU of their own.
//!
//! Ignored: more CPUs than two, and how unfair a mutex is.

use super::interleave::{Samples, fastest_of, interleave, stay_on, time_threads};
use super::{Bench, Row};
use crate::failure::Failure;
use pagetide_core::ids::{FrameId, Order};
use pagetide_core::page_alloc::{AllocRequest, Zone, ZoneConfig};
use std::hint::black_box;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

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
/// Frames of a hold: one, a batch, the most a batch is scaled to.
const HOLDS: [u32; 3] = [1, 63, 2016];

pub(super) fn run(bench: &Bench<'_>) -> Result<Vec<Row>, Failure> {
    let mut rows = holds(bench)?;
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        let why = "one CPU: nobody to hand the lock to".to_owned();
        for case in ["hand_off", "line_transfer"] {
            rows.push(Row::skipped(("lock", case, 2), "-", why.clone()));
        }
        rows.push(Row::skipped(("lock", "wait", 2), "uncontended", why));
        return Ok(rows);
    }
    let lock = Mutex::new(0_u64);
    let [turns, locking_turns, acquire, waits, alone] = interleave(
        "lock hand-off and wait",
        bench.args.runs,
        bench.interrupt,
        [
            Box::new(|| Ok(time_turns(bench, || ()))),
            Box::new(|| Ok(time_turns(bench, || hold(&lock)))),
            Box::new(|| time_acquire(bench)),
            Box::new(|| time_short_holds(bench, true)),
            Box::new(|| time_short_holds(bench, false)),
        ],
    )?;
    // A hold by turns takes the lock and lets it go, and so do two of the others.
    let transfer = locking_turns.with(&turns, |with, without| with - without);
    let transfer = transfer.with(&acquire, |there, here| (there - 2.0 * here).max(0.0));
    rows.push(Row::alone(("lock", "hand_off", 2), &turns));
    rows.push(Row::alone(("lock", "line_transfer", 2), &transfer));
    rows.push(Row::measured(("lock", "wait", 2), "uncontended", &waits, &alone));
    Ok(rows)
}

fn holds(bench: &Bench<'_>) -> Result<Vec<Row>, Failure> {
    let [one, batch, large, acquire] = interleave(
        "lock holds",
        bench.args.runs,
        bench.interrupt,
        [
            Box::new(|| time_hold(bench, HOLDS[0])),
            Box::new(|| time_hold(bench, HOLDS[1])),
            Box::new(|| time_hold(bench, HOLDS[2])),
            Box::new(|| time_acquire(bench)),
        ],
    )?;
    let per_page =
        large.with(&batch, |large, batch| (large - batch) / f64::from(HOLDS[2] - HOLDS[1]));
    let row = |case: &str, samples: &Samples| Row::alone(("lock", case, 1), samples);
    Ok(vec![
        row("hold 1", &one),
        row("hold 63", &batch),
        row("hold 2016", &large),
        row("zone_page", &per_page),
        row("acquire", &acquire),
    ])
}

/// Nanoseconds for one hold that moves `nr_frames` frames.
fn time_hold(bench: &Bench<'_>, nr_frames: u32) -> Result<f64, Failure> {
    let zone = Mutex::new(Zone::new(ZoneConfig::with_frames(NR_FRAMES)));
    let request = AllocRequest::fast(Order::BASE).at(None);
    let time = fastest_of(bench.duration(100), |duration| {
        let held: Vec<FrameId> = Vec::with_capacity(nr_frames as usize);
        time_threads((duration, 1), vec![held], |held| {
            let mut fetching = zone.lock().expect("no measured thread panics");
            fetching.alloc_bulk(&request, nr_frames, |_, frame| held.push(frame));
            drop(fetching);
            let mut sending = zone.lock().expect("no measured thread panics");
            sending.free_bulk(|_| held.pop().map(|frame| (frame, Order::BASE)));
            Ok(())
        })
    })?;
    // Two holds.
    Ok(time / 2.0)
}

/// Nanoseconds for taking a free lock.
fn time_acquire(bench: &Bench<'_>) -> Result<f64, Failure> {
    let lock = Mutex::new(0_u64);
    let time = fastest_of(bench.duration(50), |duration| {
        time_threads((duration, 1024), vec![()], |()| {
            hold(&lock);
            Ok(())
        })
    })?;
    Ok(time / 2.0)
}

/// A hold that does next to nothing.
fn hold(lock: &Mutex<u64>) {
    *black_box(lock).lock().expect("no measured thread panics") += 1;
}

/// Nanoseconds for a turn: from one thread's write until the other, which waits for it, has seen
/// it and made its `visit`.
fn time_turns(bench: &Bench<'_>, visit: impl Fn() + Sync) -> f64 {
    let word = AtomicU64::new(0);
    let (word, visit) = (&word, &visit);
    let take = |turn: u64| {
        let is_on = await_turn(word, turn);
        if is_on {
            visit();
            word.store(turn + 1, Ordering::Release);
        }
        is_on
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            stay_on(1);
            let mut turn = 1;
            while take(turn) {
                turn += 2;
            }
        });
        let leader = scope.spawn(|| {
            stay_on(0);
            let (begin, mut turn, mut fastest) = (Instant::now(), 0, f64::INFINITY);
            while begin.elapsed() < bench.duration(200) {
                let start = Instant::now();
                for _ in 0..TURNS {
                    take(turn);
                    turn += 2;
                }
                fastest = fastest.min(start.elapsed().as_nanos() as f64 / (2 * TURNS) as f64);
            }
            await_turn(word, turn);
            word.store(OVER, Ordering::Release);
            fastest
        });
        leader.join().expect("no measured thread panics")
    })
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

/// Nanoseconds for a hold that does next to nothing, with or without somebody else doing the same.
fn time_short_holds(bench: &Bench<'_>, is_contended: bool) -> Result<f64, Failure> {
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
        let time = time_threads((bench.duration(100), 1024), vec![()], |()| {
            hold(&lock);
            Ok(())
        });
        is_over.store(true, Ordering::Relaxed);
        time
    })
}

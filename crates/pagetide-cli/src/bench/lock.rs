//! `bench lock`: what the zone's lock costs those who hold it and those who wait: the numbers a
//! simulated machine needs.
//!
//! ```text
//!   hold 1, 63, 2016   frames fetched under one hold of the zone's lock, and sent back under
//!                      another: a hold of so many frames
//!   hand-off           a word that two threads write in turn: a cache line there and back, half
//!   wait               one short hold, with another thread taking the lock all the time; against
//!                      the same alone (uncontended)
//! ```
//!
//! Ignored: more CPUs than two, and how unfair a mutex is.

use super::interleave::{interleave, time_threads};
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
/// Turns of a hand-off measurement.
const TURNS: u64 = 20_000;
/// Frames of a hold: one, a batch, the most a batch is scaled to.
const HOLDS: [u32; 3] = [1, 63, 2016];

pub(super) fn run(bench: &Bench<'_>) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    for nr_frames in HOLDS {
        let [samples] = interleave(
            &format!("lock hold {nr_frames}"),
            bench.args.runs,
            bench.interrupt,
            [Box::new(|| time_hold(bench, nr_frames))],
        )?;
        rows.push(Row::alone(("lock", &format!("hold {nr_frames}"), 1), &samples));
    }
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        let why = "one CPU: nobody to hand the lock to".to_owned();
        rows.push(Row::skipped(("lock", "hand-off", 2), "-", why.clone()));
        rows.push(Row::skipped(("lock", "wait", 2), "uncontended", why));
        return Ok(rows);
    }
    let [turns, waits, alone] = interleave(
        "lock hand-off and wait",
        bench.args.runs,
        bench.interrupt,
        [
            Box::new(|| Ok(time_hand_off())),
            Box::new(|| time_short_holds(bench, true)),
            Box::new(|| time_short_holds(bench, false)),
        ],
    )?;
    rows.push(Row::alone(("lock", "hand-off", 2), &turns));
    rows.push(Row::measured(("lock", "wait", 2), "uncontended", &waits, &alone));
    Ok(rows)
}

/// Nanoseconds for one hold that moves `nr_frames` frames.
fn time_hold(bench: &Bench<'_>, nr_frames: u32) -> Result<f64, Failure> {
    let zone = Mutex::new(Zone::new(ZoneConfig::with_frames(NR_FRAMES)));
    let held: Vec<FrameId> = Vec::with_capacity(nr_frames as usize);
    let request = AllocRequest::fast(Order::BASE).at(None);
    let time = time_threads((bench.duration(100), 16), vec![held], |held| {
        let mut fetching = zone.lock().expect("no measured thread panics");
        fetching.alloc_bulk(&request, nr_frames, |_, frame| held.push(frame));
        drop(fetching);
        let mut sending = zone.lock().expect("no measured thread panics");
        sending.free_bulk(|_| held.pop().map(|frame| (frame, Order::BASE)));
        Ok(())
    })?;
    // Two holds.
    Ok(time / 2.0)
}

/// Nanoseconds from one thread's write until the other, which waits for it, has seen it.
fn time_hand_off() -> f64 {
    let word = AtomicU64::new(0);
    let take_turns = |first: u64| {
        for turn in 0..TURNS {
            let mine = 2 * turn + first;
            let mut nr_looks = 0_u32;
            while word.load(Ordering::Acquire) != mine {
                nr_looks += 1;
                // On a machine that is busy the other one may not be running at all.
                if nr_looks.is_multiple_of(1 << 14) {
                    std::thread::yield_now()
                } else {
                    std::hint::spin_loop()
                }
            }
            word.store(mine + 1, Ordering::Release);
        }
    };
    let start = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| take_turns(1));
        take_turns(0);
    });
    start.elapsed().as_nanos() as f64 / (2 * TURNS) as f64
}

/// Nanoseconds for a hold that does next to nothing, with or without somebody else doing the same.
fn time_short_holds(bench: &Bench<'_>, is_contended: bool) -> Result<f64, Failure> {
    let counter = Mutex::new(0_u64);
    let is_over = AtomicBool::new(false);
    let hold = || *counter.lock().expect("no measured thread panics") += 1;
    let time = std::thread::scope(|scope| {
        if is_contended {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    hold();
                }
            });
        }
        let time = time_threads((bench.duration(100), 1024), vec![()], |()| {
            hold();
            Ok(())
        });
        is_over.store(true, Ordering::Relaxed);
        time
    });
    black_box(&counter);
    time
}

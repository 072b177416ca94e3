//! All interleavings of two or three threads in the frame allocator's locks.
//!
//! Run: `RUSTFLAGS="--cfg loom" cargo test -p pagetide --release --lib loom`. A double allocation
//! is a refused claim, which panics. A lost frame is missed at the end.
//!
//! Not explored: the words of core's frame table, plain relaxed atomics to loom. Each belongs to
//! the holder of a lock.

use super::*;
use loom::thread;
use pagetide_core::page_alloc::{HighFraction, PcpTuning};
use pagetide_sys::ArenaOptions;

/// Few enough that lists and zone run dry.
const NR_FRAMES: u32 = 16;

fn allocator(nr_cpus: u32) -> Arc<ArenaFrames> {
    let arena = FrameArena::reserve(NR_FRAMES, ArenaOptions::default()).expect("a few frames");
    let settings = PcpSettings {
        nr_cpus,
        tuning: PcpTuning::Refill,
        fraction: HighFraction::DEFAULT,
        cache_slice: 0,
    };
    Arc::new(ArenaFrames::new(Arc::new(arena), 0..NR_FRAMES, NR_FRAMES, settings))
}

/// Explores up to two preemptions. More take minutes.
fn explore(test: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(test);
}

fn take_and_give(frames: &ArenaFrames, cpu: CpuId) {
    let taken: Vec<_> = (0..2).filter_map(|_| frames.alloc(cpu, None)).collect();
    assert_eq!(taken.len(), 2, "there are enough for both");
    let ids: Vec<_> = taken.into_iter().map(|claimed| frames.arena.release(claimed)).collect();
    frames.free(cpu, ids);
}

fn check_all_there(frames: &ArenaFrames) {
    assert_eq!(frames.resident_bytes(), 0);
    frames.drain_lists();
    let nr_managed = frames.managed_bytes() / PAGE_BYTES as u64;
    let all: Vec<_> = std::iter::from_fn(|| frames.alloc(CpuId(0), None)).collect();
    assert_eq!(all.len() as u64, nr_managed, "a frame got lost");
}

#[test]
fn loom_threads_of_one_cpu_share_its_list() {
    explore(|| {
        let frames = allocator(1);
        let other = {
            let frames = Arc::clone(&frames);
            thread::spawn(move || take_and_give(&frames, CpuId(0)))
        };
        take_and_give(&frames, CpuId(0));
        other.join().expect("no panic");
        check_all_there(&frames);
    });
}

#[test]
fn loom_lists_are_drained_by_another_cpu() {
    explore(|| {
        let frames = allocator(2);
        let other = {
            let frames = Arc::clone(&frames);
            thread::spawn(move || take_and_give(&frames, CpuId(0)))
        };
        frames.drain_lists();
        take_and_give(&frames, CpuId(1));
        other.join().expect("no panic");
        check_all_there(&frames);
    });
}

#[test]
fn loom_counting_beside_allocations_stays_within_the_limit() {
    explore(|| {
        let frames = allocator(2);
        let other = {
            let frames = Arc::clone(&frames);
            thread::spawn(move || take_and_give(&frames, CpuId(0)))
        };
        assert!(frames.resident_bytes_max() <= frames.managed_bytes());
        other.join().expect("no panic");
        check_all_there(&frames);
    });
}

#[test]
fn loom_frames_taken_out_of_service_are_nobody_elses() {
    explore(|| {
        let frames = allocator(2);
        let other = {
            let frames = Arc::clone(&frames);
            thread::spawn(move || take_and_give(&frames, CpuId(0)))
        };
        let nr_left = frames.resize(NR_FRAMES / 2, Vec::new());
        assert!((NR_FRAMES / 2..=NR_FRAMES / 2 + 2).contains(&nr_left), "{nr_left} left");
        other.join().expect("no panic");
        check_all_there(&frames);
    });
}

#[test]
fn loom_lists_kept_short_for_reclaim_lose_nothing() {
    explore(|| {
        let frames = allocator(2);
        let other = {
            let frames = Arc::clone(&frames);
            thread::spawn(move || take_and_give(&frames, CpuId(0)))
        };
        frames.set_reclaim_active(true);
        frames.background_target(WatermarkLevel::High, 0);
        take_and_give(&frames, CpuId(0));
        frames.set_reclaim_active(false);
        other.join().expect("no panic");
        check_all_there(&frames);
    });
}

#[test]
fn loom_two_threads_of_one_cpu_and_one_that_drains() {
    explore(|| {
        let frames = allocator(1);
        let others = [(); 2].map(|()| {
            let frames = Arc::clone(&frames);
            thread::spawn(move || take_and_give(&frames, CpuId(0)))
        });
        frames.drain_lists();
        for other in others {
            other.join().expect("no panic");
        }
        check_all_there(&frames);
    });
}

#[test]
fn loom_a_tick_beside_allocations_loses_nothing() {
    explore(|| {
        let frames = allocator(1);
        let other = {
            let frames = Arc::clone(&frames);
            thread::spawn(move || take_and_give(&frames, CpuId(0)))
        };
        frames.tick(Millis(10_000));
        take_and_give(&frames, CpuId(0));
        other.join().expect("no panic");
        check_all_there(&frames);
    });
}

/// With all frames taken but the lists', a thread that drains first finds the frames freed by the
/// second thread, unless they were still held.
#[test]
fn loom_nothing_fails_while_frames_lie_on_lists() {
    explore(|| {
        let frames = allocator(2);
        let mut all: Vec<_> = std::iter::from_fn(|| frames.alloc(CpuId(0), None)).collect();
        let last = frames.arena.release(all.pop().expect("sixteen"));
        let other = {
            let frames = Arc::clone(&frames);
            thread::spawn(move || frames.free(CpuId(1), [last]))
        };
        let take = || {
            frames.alloc(CpuId(0), None).or_else(|| {
                frames.drain_lists();
                frames.alloc(CpuId(0), None)
            })
        };
        let early = take();
        other.join().expect("no panic");
        let found = early.or_else(take).expect("the frame lay on a list");
        assert!(frames.alloc(CpuId(0), None).is_none(), "one frame was handed out twice");
        all.push(found);
        let ids: Vec<_> = all.into_iter().map(|claimed| frames.arena.release(claimed)).collect();
        frames.free(CpuId(0), ids);
        check_all_there(&frames);
    });
}

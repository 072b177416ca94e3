//! Automatic memory size, from the spare memory of the container or the machine.
//!
//! ```text
//!   every 10 ms   spare memory (sys) + the cache's own usage + the sizing curve
//!                 --> core's AutoSize --> another size, and the reason --> resize, counted
//! ```
//!
//! The cache's unused allowance does not count as spare. Ignored: memory taken between samples
//! faster than the cache can release it.

use crate::engine::Engine;
use crate::engine::limits::Limits;
use crate::engine::stats::counters::Event;
use crate::memory::locks::{Signal, Wake, lock};
use pagetide_core::autosize::{AutoSize, RoomLook, SizeReason};
use pagetide_core::sizing::ReuseCounts;
use pagetide_core::units::Bytes;
use pagetide_sys::MemoryRoom;
use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::{Duration, Instant};

const INTERVAL: Duration = Duration::from_millis(10);
/// Samples between evaluations of the sizing curve.
const CURVE_EVERY: u64 = 10;
const LAST: usize = 64;

/// An automatic change of size: see [`Builder::memory_auto`](crate::Builder::memory_auto).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SizeChange {
    /// Time since the cache was built.
    pub at: Duration,
    /// Size before.
    pub from: Bytes,
    /// Size after, larger than intended if pages were pinned.
    pub to: Bytes,
    /// Reason.
    pub reason: SizeReason,
    /// Spare memory of the container or the machine just before.
    pub spare: Bytes,
}

/// The automatic changes of a cache's size.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SizeChanges {
    /// Times it grew because of the sizing curve.
    pub grown: u64,
    /// Times it shrank because other programs used the reserve.
    pub shrunk_for_reserve: u64,
    /// Times it shrank because a thread stalled for memory.
    pub shrunk_for_stalls: u64,
    /// Smallest size so far.
    pub memory_min: Bytes,
    /// Largest size so far.
    pub memory_max: Bytes,
    /// Last changes, oldest first.
    pub last: VecDeque<SizeChange>,
}

pub(crate) struct Sizer {
    bounds: (Bytes, Bytes),
    limits: Limits,
    started: Instant,
    changes: Mutex<SizeChanges>,
    pub(crate) signal: Signal,
}

impl Sizer {
    pub(crate) fn new(bounds: (Bytes, Bytes), limits: &Limits) -> Sizer {
        let changes =
            SizeChanges { memory_min: bounds.0, memory_max: bounds.0, ..SizeChanges::default() };
        Sizer {
            bounds,
            limits: *limits,
            started: Instant::now(),
            changes: Mutex::new(changes),
            signal: Signal::default(),
        }
    }

    pub(crate) fn changes(&self) -> SizeChanges {
        lock(&self.changes).clone()
    }

    fn note(&self, change: SizeChange) {
        let mut changes = lock(&self.changes);
        *match change.reason {
            SizeReason::Pays => &mut changes.grown,
            SizeReason::Reserve => &mut changes.shrunk_for_reserve,
            SizeReason::Stalled => &mut changes.shrunk_for_stalls,
        } += 1;
        changes.memory_min = changes.memory_min.min(change.to);
        changes.memory_max = changes.memory_max.max(change.to);
        if changes.last.len() == LAST {
            changes.last.pop_front();
        }
        changes.last.push_back(change);
    }
}

impl Engine {
    pub(crate) fn follow_room(&self, sizer: &Sizer) {
        let room = MemoryRoom::find();
        let mut auto = AutoSize::new(sizer.bounds.0.0, sizer.bounds.1.0);
        let mut curve = Curve::default();
        let (mut seen_at, mut stalled_us) = (Instant::now(), room.read().stalled_us);
        for nth in 0_u64.. {
            if matches!(sizer.signal.wait(INTERVAL), Wake::Stop) {
                return;
            }
            let memory = self.pages.nodes.managed_bytes();
            let used = Bytes::from_pages(self.pages.nodes.sample_resident());
            let unused = memory.saturating_sub(used.0);
            if nth.is_multiple_of(CURVE_EVERY) {
                curve.ask(self, Bytes(memory), unused < memory / 8);
            }
            let now = room.read();
            let elapsed_us = seen_at.elapsed().as_micros().max(1) as u64;
            seen_at = Instant::now();
            let stalled = 1000 * now.stalled_us.saturating_sub(stalled_us) / elapsed_us;
            stalled_us = now.stalled_us;
            let look = RoomLook {
                memory,
                total: now.total,
                spare: now.spare.saturating_sub(unused),
                stalled: u32::try_from(stalled).unwrap_or(u32::MAX),
                gain: curve.gain,
            };
            let Some(step) = auto.step(&look) else { continue };
            // With pinned pages it goes as far as possible, and on with the next sample.
            let _ = self.source.resize(Bytes(step.memory), &sizer.limits);
            sizer.note(SizeChange {
                at: sizer.started.elapsed(),
                from: Bytes(memory),
                to: Bytes(self.pages.nodes.managed_bytes()),
                reason: step.reason,
                spare: Bytes(look.spare),
            });
        }
    }
}

#[derive(Default)]
struct Curve {
    before: Option<(ReuseCounts, u64)>,
    gain: u32,
}

impl Curve {
    /// Estimates the extra hits of an eighth more memory since the last call.
    fn ask(&mut self, engine: &Engine, memory: Bytes, is_full: bool) {
        let counters = &engine.pages.counters;
        let nr_accesses = counters.collect(Event::Hit) + counters.collect(Event::Miss);
        let counts = engine.pages.reuse.counts();
        let (frames, more) = (memory.whole_pages(), memory.whole_pages() / 8);
        let gained = |counts: &ReuseCounts, nr_accesses: u64| {
            let hits = |frames| counts.hits(frames, nr_accesses);
            let gained = hits(frames + more).saturating_sub(hits(frames));
            gained.saturating_mul(1_000_000).checked_div(nr_accesses).unwrap_or(0)
        };
        self.gain = match &self.before {
            // More memory is useless until the present memory is full.
            _ if !is_full => 0,
            Some((before, nr_before)) if nr_accesses > *nr_before => {
                gained(&counts.since(before), nr_accesses - nr_before) as u32
            }
            _ => 0,
        };
        self.before = Some((counts, nr_accesses));
    }
}

//! The size that follows what the container or the machine can spare.
//!
//! ```text
//!   every 10 ms   room (sys) + the cache's own use + the sizing curve --> a look
//!                 core's AutoSize --> another size, and why --> resize, counted
//! ```
//!
//! What the cache may have and does not use yet is no room for it to grow. Ignored: memory that is
//! taken faster than can be given up between looks beyond the reserve.

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

/// Between looks.
const INTERVAL: Duration = Duration::from_millis(10);
/// Looks between questions to the sizing curve.
const CURVE_EVERY: u64 = 10;
/// Changes that are remembered one by one.
const LAST: usize = 64;

/// A change of a cache's size by itself: see [`Builder::memory_auto`](crate::Builder::memory_auto).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SizeChange {
    /// Since the cache was built.
    pub at: Duration,
    /// Before.
    pub from: Bytes,
    /// After; more than was meant where pages were pinned.
    pub to: Bytes,
    /// Why.
    pub reason: SizeReason,
    /// What the container or the machine had to spare just before.
    pub spare: Bytes,
}

/// What a cache whose size follows the machine has made of it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SizeChanges {
    /// Times it grew, because that pays.
    pub grown: u64,
    /// Times it shrank, because others took what is kept in reserve.
    pub shrunk_for_reserve: u64,
    /// Times it shrank, because some thread waited for memory.
    pub shrunk_for_stalls: u64,
    /// The smallest size there was.
    pub memory_min: Bytes,
    /// The largest.
    pub memory_max: Bytes,
    /// The last changes, the oldest first.
    pub last: VecDeque<SizeChange>,
}

/// What a cache has whose size follows.
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
    /// Lets the size follow until the cache goes.
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
            // Where pages are pinned it goes as far as it can, and on in the next look.
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

/// What the sizing curve said last.
#[derive(Default)]
struct Curve {
    before: Option<(ReuseCounts, u64)>,
    gain: u32,
}

impl Curve {
    /// Asks what an eighth more memory would have brought since the last question.
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
            // While there is room in it, more memory is of no use.
            _ if !is_full => 0,
            Some((before, nr_before)) if nr_accesses > *nr_before => {
                gained(&counts.since(before), nr_accesses - nr_before) as u32
            }
            _ => 0,
        };
        self.before = Some((counts, nr_accesses));
    }
}

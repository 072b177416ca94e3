//! Warming: rereads the resident set of an earlier run as its files are opened.
//!
//! ```text
//!   plan     files by inode                 an open: unchanged? --> ranges, hottest first
//!   worker   range --> piece --> piece ...  ends when memory is full
//!                          `-- a miss of the program meanwhile? then finish the reads in
//!                              flight before the next piece
//! ```
//!
//! Problem: rereading first delays the program. Idea: read in the background, and only into free
//! memory. Ignored: the layout on the device.

use crate::engine::Engine;
use crate::engine::mapping::Mapping;
use crate::engine::prefetch::Wish;
use crate::engine::resident::{ResidentFile, ResidentSet, WarmStats};
use crate::engine::stats::counters::Event;
use crate::memory::locks::{Signal, lock};
use pagetide_core::readahead::ReadaheadRun;
use pagetide_sys::Fingerprint;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

/// Maximum number of pages requested between checks for misses: 512 KiB.
const PIECE: u64 = 128;
/// Maximum piece as a fraction of memory, so that an overshoot evicts nothing.
const PIECE_PARTS: u64 = 64;

#[derive(Default)]
pub(crate) struct Warmer {
    /// A plan or ranges exist. Otherwise opens skip warming.
    is_on: AtomicBool,
    state: Mutex<State>,
    pub(crate) signal: Signal,
}

/// Queue key: heat, then order of opens, then page.
type WarmRank = (Reverse<u8>, u64, u64);

#[derive(Default)]
struct State {
    plan: BTreeMap<u64, ResidentFile>,
    ranges: BTreeMap<WarmRank, (Arc<Mapping>, u64)>,
    nr_opened: u64,
    stats: WarmStats,
}

impl State {
    fn pop(&mut self, piece: u64) -> Option<(Arc<Mapping>, ReadaheadRun)> {
        let (key, (mapping, nr)) = self.ranges.pop_first()?;
        let nr_now = nr.min(piece);
        if nr > nr_now {
            let rest = (key.0, key.1, key.2 + nr_now);
            self.ranges.insert(rest, (Arc::clone(&mapping), nr - nr_now));
        }
        self.stats.waiting -= nr_now;
        self.stats.pages += nr_now;
        Some((mapping, ReadaheadRun::asked_for(key.2, nr_now)))
    }
}

impl Warmer {
    pub(crate) fn plan(&self, set: ResidentSet) {
        let plan = set.files.into_iter().map(|file| (file.ino, file)).collect();
        *lock(&self.state) = State { plan, ..State::default() };
        self.is_on.store(true, Relaxed);
    }

    pub(crate) fn stats(&self) -> WarmStats {
        lock(&self.state).stats
    }

    fn open(&self, mapping: &Arc<Mapping>, look: &Fingerprint) -> bool {
        let mut state = lock(&self.state);
        let Some(file) = state.plan.remove(&look.ino) else { return false };
        if (file.len, file.mtime_ns) != (look.len, look.mtime_ns) {
            state.stats.stale_files += 1;
            return false;
        }
        state.nr_opened += 1;
        let nth = state.nr_opened;
        for range in &file.ranges {
            let nr = range.nr.min(mapping.nr_pages().saturating_sub(range.first));
            if nr > 0 {
                let key = (Reverse(range.heat), nth, range.first);
                if state.ranges.insert(key, (Arc::clone(mapping), nr)).is_none() {
                    state.stats.waiting += nr;
                }
            }
        }
        true
    }

    fn clear(&self) {
        let mut state = lock(&self.state);
        state.ranges.clear();
        state.stats.waiting = 0;
    }
}

impl Engine {
    pub(crate) fn warm_opened(&self, mapping: &Arc<Mapping>, look: Option<&Fingerprint>) {
        if !self.warmer.is_on.load(Relaxed) {
            return;
        }
        if look.is_some_and(|look| self.warmer.open(mapping, look)) {
            match self.source.has_workers {
                true => self.warmer.signal.notify(),
                false => self.warm(),
            }
        }
    }

    pub(crate) fn warm(&self) {
        span!("warm");
        let counters = &self.pages.counters;
        let piece = (self.pages.nodes.nr_frames() / PIECE_PARTS).clamp(1, PIECE);
        let mut reads = self.prefetcher.begin();
        let mut nr_missed = counters.collect(Event::Miss);
        while !self.warmer.signal.is_stopped() {
            if !self.pages.nodes.is_ample() {
                self.warmer.clear();
            }
            let next = lock(&self.warmer.state).pop(piece);
            let Some((mapping, run)) = next else { break };
            // The file was closed meanwhile.
            if !mapping.has_handles() {
                continue;
            }
            let nr_in = reads.submit(&Wish::new(&mapping, run, &Arc::default()));
            lock(&self.warmer.state).stats.brought_in += nr_in;
            let nr_missed_now = counters.collect(Event::Miss);
            if std::mem::replace(&mut nr_missed, nr_missed_now) != nr_missed_now {
                while !reads.is_idle() {
                    reads.reap();
                }
            }
        }
        reads.end();
    }
}

//! Warming: what an earlier run had in memory is brought in again, as its files are opened.
//!
//! ```text
//!   plan     files by inode                 an open: unchanged? --> ranges, the hottest first
//!   worker   range --> piece --> piece ...  ends when memory is full
//!                          `-- has the program missed meanwhile? then what is on its way comes
//!                              first, and the next piece after it
//! ```
//!
//! Problem: a new cache misses for as long as the old one took to learn; reading everything again
//! first would keep the program waiting. Idea: beside it, hottest first, and only into memory that
//! nothing competes for.
//!
//! Ignored: where a file lies on its device; its pages are read in their order.

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

/// Pages asked for between looks at what the program does, at most: 512 KiB.
const PIECE: u64 = 128;
/// The same as a part of memory: so little over the end evicts nothing.
const PIECE_PARTS: u64 = 64;

/// What is to be brought in.
#[derive(Default)]
pub(crate) struct Warmer {
    /// Whether there is a plan, or ranges wait: opens look no further otherwise.
    is_on: AtomicBool,
    state: Mutex<State>,
    pub(crate) signal: Signal,
}

/// Where a range stands in the queue: by heat, then in the order of opens and of pages.
type WarmRank = (Reverse<u8>, u64, u64);

#[derive(Default)]
struct State {
    plan: BTreeMap<u64, ResidentFile>,
    ranges: BTreeMap<WarmRank, (Arc<Mapping>, u64)>,
    nr_opened: u64,
    stats: WarmStats,
}

impl State {
    /// The hottest piece that waits, of at most `piece` pages.
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

    /// A file was opened for the first time, and looked so.
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
            // What is past the end is no page.
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

    /// Forgets what waits.
    fn clear(&self) {
        let mut state = lock(&self.state);
        state.ranges.clear();
        state.stats.waiting = 0;
    }
}

impl Engine {
    /// A mapping was made of a file that looked so.
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

    /// Brings in what waits.
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
            // Of a file that was closed meanwhile nothing is wanted.
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

//! Huge pages for the mapped pages of a region. Problem: see `pagetide_sys`'s region. Idea: after a
//! moment with few faults, fully mapped blocks are collapsed, a few at a time.
//!
//! Data and invariants: all pages of a block are try-locked meanwhile, and write-back of the region
//! is blocked: a sync after an unreported store waits until the page is dirty. A huge page needs
//! new memory, so as much must be free.
//!
//! Ignored: regions in use while memory is full. Reclaim would split their huge pages again.

use crate::engine::Engine;
use crate::engine::mapping::Mapping;
use crate::engine::stats::counters::Event;
use crate::memory::locks::{Signal, Wake};
use pagetide_core::ids::PageIndex;
use pagetide_sys::{BLOCK_PAGES, Lock, PageRef, RegionMemory};
use std::sync::Arc;
use std::time::Duration;

/// Interval between attempts.
const INTERVAL: Duration = Duration::from_millis(250);
/// Maximum number of faults and reads since the last attempt.
const QUIET: u64 = BLOCK_PAGES as u64;
/// Blocks in one attempt, which takes about 50 ms.
const NR_AT_ONCE: usize = 32;

pub(super) struct Blocks {
    pub(super) engine: Arc<Engine>,
    pub(super) memory: Arc<RegionMemory>,
    pub(super) mapping: Arc<Mapping>,
}

impl Blocks {
    pub(super) fn work(&self, signal: &Signal) {
        let (mut before, mut done) = (0, 0);
        while signal.wait(INTERVAL) != Wake::Stop {
            let now = self.count_busy();
            // After a futile attempt, wait for new faults.
            if now != done && now - before < QUIET && self.make_some() == 0 {
                done = now;
            }
            before = now;
        }
    }

    fn make_some(&self) -> usize {
        let all = 0..self.memory.nr_blocks();
        let candidates = all.filter(|block| self.memory.could_be_huge(*block));
        candidates.take(NR_AT_ONCE).filter(|block| self.make(*block)).count()
    }

    /// Returns false if the block could not be tried.
    pub(super) fn make(&self, block: u32) -> bool {
        let Blocks { engine, mapping, .. } = self;
        let frames = &engine.pages.nodes.first().frames;
        if u64::from(frames.nr_managed()) < frames.sample_resident() + BLOCK_PAGES as u64 {
            return false;
        }
        // A later sync must find the store recorded.
        let Ok(_no_write_back) = mapping.flush.try_lock() else { return false };
        let start = u64::from(block) * BLOCK_PAGES as u64;
        let lock = |index| mapping.table.page(PageIndex(index))?.try_lock().ok();
        let locks: Option<Vec<Lock<PageRef<'_>>>> =
            (start..start + BLOCK_PAGES as u64).map(lock).collect();
        let Some(mut locks) = locks else { return false };
        for written in Lock::make_huge(&mut locks) {
            let frame = locks[written].frame().expect("a page that is mapped is resident");
            engine.pages.mark_whole_dirty(mapping, start + written as u64, frame);
        }
        true
    }

    fn count_busy(&self) -> u64 {
        let counters = &self.engine.pages.counters;
        let events = [Event::Miss, Event::Readahead, Event::RegionMinor, Event::RegionWriteProtect];
        events.map(|event| counters.collect(event)).iter().sum()
    }
}

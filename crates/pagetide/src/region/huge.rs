//! Has huge pages made of what a region's user has mapped.
//!
//! Problem: see `pagetide_sys`'s region. Idea: as for memory that other processes look at: when
//! little has come or been stored for a moment, blocks that are mapped whole are made huge, a few
//! each time.
//!
//! Data and invariants: the pages of a block are all locked meanwhile, by tries alone, and nothing
//! of the region is written back: a sync after a store that was not heard of waits until the page
//! is dirty. A huge page is made beside those that it replaces: only where so much memory is free,
//! for the limit's sake.
//!
//! Ignored: regions that are used while memory is full. Their pages come and go, and a huge page
//! would be split again.

use crate::engine::Engine;
use crate::engine::mapping::Mapping;
use crate::engine::stats::counters::Event;
use crate::memory::locks::{Signal, Wake};
use pagetide_core::ids::PageIndex;
use pagetide_sys::{BLOCK_PAGES, Lock, PageRef, RegionMemory};
use std::sync::Arc;
use std::time::Duration;

/// How often it looks.
const INTERVAL: Duration = Duration::from_millis(250);
/// Faults and pages read since the last look that are little: as many as a block has pages.
const QUIET: u64 = BLOCK_PAGES as u64;
/// Blocks made each time, which takes 50 ms or so.
const NR_AT_ONCE: usize = 32;

/// A region's blocks.
pub(super) struct Blocks {
    pub(super) engine: Arc<Engine>,
    pub(super) memory: Arc<RegionMemory>,
    pub(super) mapping: Arc<Mapping>,
}

impl Blocks {
    /// The thread's loop, until it is to stop.
    pub(super) fn work(&self, signal: &Signal) {
        let (mut before, mut done) = (0, 0);
        while signal.wait(INTERVAL) != Wake::Stop {
            let now = self.count_busy();
            // What has been looked at in vain is not, until something has come again.
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

    /// Whether it could be tried.
    pub(super) fn make(&self, block: u32) -> bool {
        let Blocks { engine, mapping, .. } = self;
        let frames = &engine.pages.nodes.first().frames;
        if u64::from(frames.nr_managed()) < frames.sample_resident() + BLOCK_PAGES as u64 {
            return false;
        }
        // A sync that follows a store finds it noted.
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

    /// Goes up with what makes pages come, go, or be protected.
    fn count_busy(&self) -> u64 {
        let counters = &self.engine.pages.counters;
        let events = [Event::Miss, Event::Readahead, Event::RegionMinor, Event::RegionWriteProtect];
        events.map(|event| counters.collect(event)).iter().sum()
    }
}

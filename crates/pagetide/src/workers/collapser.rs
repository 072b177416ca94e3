//! The collapser: makes huge pages of memory shared with other processes.
//!
//! **Problem.** A memory file has small pages unless the administrator allows huge pages for all
//! files. **Idea.** After a moment with few reads, resident blocks of 2 MiB are collapsed, a few at
//! a time, without new memory. **Ignored.** Blocks freed after they were collapsed.

use crate::engine::Engine;
use crate::engine::stats::counters::Event;
use crate::memory::locks::Wake;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// Interval between attempts.
const INTERVAL: Duration = Duration::from_millis(250);
/// Maximum number of pages read since the last attempt: a block's pages.
const QUIET_PAGES: u64 = 512;
/// Blocks in one attempt, which takes about 50 ms if all are collapsed.
const NR_AT_ONCE: usize = 64;

pub(super) fn run(engine: &Arc<Engine>) {
    let arena = &engine.pages.arena;
    let mut blocks: VecDeque<u32> = (0..arena.nr_to_collapse()).collect();
    let mut nr_before = 0;
    while !blocks.is_empty() && engine.collapser.wait(INTERVAL) != Wake::Stop {
        let nr_come = count_pages_in(engine);
        if nr_come - nr_before < QUIET_PAGES && nr_come > 0 {
            for _ in 0..NR_AT_ONCE.min(blocks.len()) {
                let block = blocks.pop_front().expect("counted");
                if !arena.collapse(block) {
                    blocks.push_back(block);
                }
            }
        }
        nr_before = nr_come;
    }
}

fn count_pages_in(engine: &Engine) -> u64 {
    let counters = &engine.pages.counters;
    [Event::Miss, Event::Readahead, Event::Around].map(|event| counters.collect(event)).iter().sum()
}

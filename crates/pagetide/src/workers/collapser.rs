//! The collapser: has memory that other processes look at made of huge pages, once it is in use.
//!
//! **Problem.** A memory file is of small pages unless the administrator has allowed huge ones for
//! all files, and so each program that looks at it misses its translations.
//!
//! **Idea.** When little has come into the cache for a moment, blocks of 2 MiB that are all in
//! memory are made huge pages, a few each time: first fills are not slowed, nothing but what is in
//! memory already is made, and a program whose pages change all the time waits for the device, not
//! for translations.
//!
//! **Ignored.** Blocks whose memory was given back after they were made.

use crate::engine::Engine;
use crate::engine::stats::counters::Event;
use crate::memory::locks::Wake;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// How often it looks.
const INTERVAL: Duration = Duration::from_millis(250);
/// Pages that may have come in since the last look: as many as a block has.
const QUIET_PAGES: u64 = 512;
/// Blocks looked at each time, which takes 50 ms or so if all are made.
const NR_AT_ONCE: usize = 64;

/// The thread's loop, until all blocks are made.
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

/// Pages that have come into the cache so far.
fn count_pages_in(engine: &Engine) -> u64 {
    let counters = &engine.pages.counters;
    [Event::Miss, Event::Readahead, Event::Around].map(|event| counters.collect(event)).iter().sum()
}

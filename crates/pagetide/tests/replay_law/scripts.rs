//! Scripts of recorded runs: reads, writes, guards and advice in patterns that cause reclaim.

use crate::common::PAGE;
use crate::common::pages::Random;
use crate::common::store::{Fault, FaultyStore, Kind};
use pagetide::{Advice, File, Millis, PageCache};
use std::cell::Cell;
use std::collections::VecDeque;

pub(crate) type Script = fn(&mut Player<'_>);

pub(crate) const SCRIPTS: [(&str, Script); 9] = [
    ("random reads", random_reads),
    ("skewed reads", skewed_reads),
    ("a loop", sequential_loop),
    ("calls of many pages", long_calls),
    ("guards", guards),
    ("guards that stay", long_guards),
    ("writes", writes),
    ("more dirty pages than fit", dirty_guards),
    ("everything", everything),
];

pub(crate) fn random_reads(player: &mut Player<'_>) {
    player.reads(4 * player.memory);
}

pub(crate) fn skewed_reads(player: &mut Player<'_>) {
    for _ in 0..8 * player.memory {
        let index = player.skewed_index();
        player.read(index, 1);
    }
}

pub(crate) fn sequential_loop(player: &mut Player<'_>) {
    let nr_pages = (player.memory * 5 / 4).min(player.nr_pages());
    for _ in 0..4 {
        (0..nr_pages).for_each(|index| player.read(index, 1));
    }
}

pub(crate) fn long_calls(player: &mut Player<'_>) {
    for _ in 0..100 {
        let (index, nr) = (player.any_index(), 1 + player.random.below(40));
        player.read(index, nr);
        let index = player.skewed_index();
        player.read(index, 1);
    }
}

pub(crate) fn guards(player: &mut Player<'_>) {
    for _ in 0..4 * player.memory {
        let index = player.skewed_index();
        player.ticks.note_call();
        match player.random.below(4) {
            0 => drop(player.file.page_mut(index)),
            1 => player.read(index, 1),
            _ => drop(player.file.page(index)),
        }
    }
}

/// Up to all of a small memory is pinned, and a write guard is open during reads.
pub(crate) fn long_guards(player: &mut Player<'_>) {
    let file = player.file;
    let mut held = VecDeque::new();
    // Changes only the upper half, and reads only the lower half meanwhile.
    let half = player.nr_pages() / 2;
    for _ in 0..2 * player.memory {
        let changed = file.page_mut(half + player.random.below(half));
        for _ in 0..4 {
            let index = player.random.below(half);
            match player.random.below(3) {
                0 => held.extend(file.page(index)),
                _ => player.read(index, 1),
            }
        }
        if held.len() > 14 {
            held.drain(..player.random.below(15) as usize);
        }
        if let (Ok(mut changed), 0) = (changed, player.random.below(4)) {
            changed[0] ^= 1;
        }
        if player.random.below(30) == 0 {
            file.sync_data().unwrap();
        }
    }
}

pub(crate) fn writes(player: &mut Player<'_>) {
    for _ in 0..2 * player.memory {
        player.write();
        let index = player.skewed_index();
        player.read(index, 1);
        if player.random.below(50) == 0 {
            player.file.sync_data().unwrap();
        }
    }
}

/// Write guards block flushing: reclaim runs out of clean pages, and reads bypass the cache.
pub(crate) fn dirty_guards(player: &mut Player<'_>) {
    for _ in 0..3 {
        let mut nr_refused = 0;
        while nr_refused < 10 {
            let index = player.any_index();
            let changed =
                player.file.page_mut(index).map(|mut page| page[1] = page[1].wrapping_add(1));
            nr_refused += u32::from(changed.is_err());
        }
        for _ in 0..20 {
            let index = player.any_index();
            player.read(index, 3);
            player.read(index + 3, 1);
        }
        player.write();
        player.reads(player.memory);
    }
}

pub(crate) fn everything(player: &mut Player<'_>) {
    for _ in 0..3 * player.memory.max(100) {
        let (index, nr) = (player.skewed_index(), 1 + player.random.below(6));
        let (offset, len) = (index * PAGE as u64, nr * PAGE as u64);
        match player.random.below(40) {
            0..12 => player.read(index, 1),
            12..20 => player.read(index, nr),
            20..24 => drop(player.file.page(index)),
            24..28 => drop(player.file.page_mut(index).map(|mut page| page[0] ^= 3)),
            28..33 => player.write(),
            33..35 => (index..index + 20).for_each(|index| player.read(index, 1)),
            35 => player.file.sync_all().unwrap(),
            36 => player.file.advise(Advice::DontNeed, offset, 4 * len).unwrap(),
            37 => player.file.advise(Advice::WillNeed, offset, 4 * len).unwrap(),
            38 => {
                let advice = [Advice::Normal, Advice::Sequential, Advice::Random, Advice::NoReuse];
                let nth = player.random.below(4) as usize;
                player.file.advise(advice[nth], 0, 0).unwrap();
            }
            _ => {
                let whole = player.file.len();
                player.file.set_len(whole - player.random.below(whole / 4)).unwrap();
                player.file.set_len(whole).unwrap();
            }
        }
    }
}

/// Runs reads, writes and syncs with many failures. Returns the number of failed store calls.
pub(crate) fn failing_store(cache: &PageCache, seed: u64) -> u64 {
    let store = FaultyStore::with_contents(&vec![1; 200 * PAGE]);
    let file = cache.open_store(store.boxed()).unwrap();
    let mut random = Random::new(seed);
    for _ in 0..600 {
        let kind = [Kind::Read, Kind::Read, Kind::Write][random.below(3) as usize];
        store.fail(kind, random.below(3), Fault::Error(libc::EIO), 1 + random.below(2));
        let offset = random.below(190) * PAGE as u64;
        // The result of a call does not matter, only the cache's reaction.
        let _ = match random.below(6) {
            0 => file.write_at(&[1; 100], offset).is_ok(),
            1 => file.page(offset / PAGE as u64).is_ok(),
            2 => file.sync_data().is_ok(),
            3 => file.advise(Advice::WillNeed, offset, 7 * PAGE as u64).is_ok(),
            4 => file.read_at(&mut [0; 5 * PAGE], offset).is_ok(),
            _ => file.read_at(&mut [0; 100], offset).is_ok(),
        };
    }
    let nr_faults = store.lift();
    file.sync_data().unwrap_or_default();
    nr_faults
}

/// A clock with a tick every few calls.
pub(crate) struct Ticks<'f> {
    cache: Option<&'f PageCache>,
    calls: Cell<u64>,
}

impl<'f> Ticks<'f> {
    /// A stopped clock.
    pub(crate) fn none() -> Ticks<'static> {
        Ticks { cache: None, calls: Cell::new(0) }
    }

    /// For a cache with tiers, which works at ticks.
    pub(crate) fn of(cache: &'f PageCache) -> Ticks<'f> {
        let has_tiers = cache.stats().tiering.is_some();
        Ticks { cache: Some(cache).filter(|_| has_tiers), calls: Cell::new(0) }
    }

    fn note_call(&self) {
        let Some(cache) = self.cache else { return };
        let nr_calls = self.calls.get();
        self.calls.set(nr_calls + 1);
        if nr_calls.is_multiple_of(5) {
            // Sometimes the clock stops or jumps.
            let jump = if nr_calls % 700 < 100 { nr_calls % 3 } else { 0 };
            cache.tick(Millis(nr_calls / 5 * 3 + jump));
        }
    }
}

pub(crate) struct Player<'f> {
    pub(crate) random: Random,
    pub(crate) file: &'f File,
    pub(crate) memory: u64,
    pub(crate) ticks: Ticks<'f>,
}

impl Player<'_> {
    pub(crate) fn nr_pages(&self) -> u64 {
        self.file.len().div_ceil(PAGE as u64)
    }

    pub(crate) fn any_index(&mut self) -> u64 {
        let nr_pages = self.nr_pages();
        self.random.below(nr_pages)
    }

    /// A tenth of the pages gets about half of the accesses.
    pub(crate) fn skewed_index(&mut self) -> u64 {
        let nr_pages = self.nr_pages();
        let part = self.random.below(1000);
        nr_pages * part * part * part / 1_000_000_000
    }

    pub(crate) fn reads(&mut self, nr: u64) {
        for _ in 0..nr {
            let index = self.any_index();
            self.read(index, 1);
        }
    }

    pub(crate) fn read(&mut self, index: u64, nr: u64) {
        self.ticks.note_call();
        let mut target = vec![0; (nr - 1) as usize * PAGE + 100];
        self.file.read_at(&mut target, index * PAGE as u64 + PAGE as u64 - 100).unwrap();
    }

    /// Writes part of a page or a few pages, sometimes past the end.
    pub(crate) fn write(&mut self) {
        self.ticks.note_call();
        let offset = self.skewed_index() * PAGE as u64 + self.random.below(2) * 50;
        let len = [10, PAGE, 3 * PAGE][self.random.below(3) as usize];
        self.file.write_at(&vec![5; len], offset).unwrap();
    }
}

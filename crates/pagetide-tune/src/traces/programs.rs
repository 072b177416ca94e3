//! Synthetic programs: accesses to files and memory, as page numbers.
//!
//! **Problem.** The patterns of [`Pattern`](super::Pattern) were looked at while mechanisms were
//! chosen, and are pure. Programs mix patterns. **Idea.** A dozen programs, each a few lines,
//! written down before any policy ran.
//!
//! ```text
//!   lsm      get old get new get old ...     a run of pages moves to new numbers, in order
//!   join     build: row hash row hash ...    probe: row hash row hash ...    the next join
//!   tailers  n  n-1000  n-6000  n-15000      a log, and three late readers
//! ```
//!
//! Ignored: writes, times, and differences between such programs.

use super::patterns::{FRESH, by_number, up_and_down};
use pagetide_lab::machine::Random;
use pagetide_lab::scenario::zipf::Popularity;

/// A synthetic program. Sizes are in pages, with 1,000,000 accesses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Program {
    /// Look-ups of 25,000 rows by Zipf 0.8 through 250 inner pages. After each 200,000 accesses all
    /// rows are read in order.
    Index,
    /// Gets, Zipf 0.9 over 40,000 pages. At each 40,000th a compaction runs in between for 16,000
    /// accesses: reads 4000 pages in order, and writes each under a new number.
    Lsm,
    /// Eight tenants, Zipf 0.9 over 8000 pages each. Three at a time are awake, and one of them
    /// goes to sleep each 20,000 accesses.
    Tenants,
    /// A hot set that shrinks and grows between 2000 and 18,000 pages, each as likely as the next.
    Breath,
    /// Updates, Zipf 0.9 over 40,000 pages. After each 80,000 a checkpoint writes the pages updated
    /// since the last, in order.
    Checkpoint,
    /// Hash joins: 12,000 rows' pages go into a table of 8000 in random order, 48,000 look there.
    Join,
    /// A log's writer, and readers 1000, 6000 and 15,000 pages behind.
    Tailers,
    /// A loop of 13,000 pages, and between the steps Zipf 0.9 over 20,000.
    LoopAndZipf,
    /// A compiler, again and again: 24,000 pages of sources in order, and after each two of
    /// headers, Zipf 0.6 over 3000.
    Builds,
    /// Rounds over the edges of a graph, 20,000 pages, and after each a vertex, Zipf 0.6 over 8000.
    Graph,
    /// Zipf 0.7 over 50,000 pages. Each 50,000 accesses half of them go to 500 new pages, and then
    /// fewer and fewer.
    Crowds,
    /// By day Zipf 0.9 over 30,000 pages, 150,000 accesses. By night three rounds over 15,000
    /// different pages. Repeated.
    Days,
}

const SEED: u64 = 44;

impl Program {
    /// Returns the pages read, in order.
    pub(crate) fn reads(self) -> Box<dyn Iterator<Item = u64>> {
        let random = Random::new(SEED);
        match self {
            Program::Index => index(random),
            Program::Lsm => lsm(random),
            Program::Tenants => tenants(random),
            Program::Breath => breath(random),
            Program::Checkpoint => checkpoint(random),
            Program::Join => join(random),
            Program::Tailers => by_number(|at| {
                let behind = [0, 1000, 6000, 15_000][(at % 4) as usize];
                (at / 4).saturating_sub(behind)
            }),
            Program::LoopAndZipf => loop_and_zipf(random),
            Program::Builds => beside_rounds(random, 24_000, 3, 3000),
            Program::Graph => beside_rounds(random, 20_000, 2, 8000),
            Program::Crowds => crowds(random),
            Program::Days => days(random),
        }
    }
}

fn index(mut random: Random) -> Box<dyn Iterator<Item = u64>> {
    let popular = Popularity::new(&mut random, 25_000, 0.8);
    let mut row = 0;
    by_number(move |at| match at % 225_000 {
        step @ 200_000.. => step - 200_000,
        step if step % 2 == 0 => {
            row = u64::from(popular.next(&mut random));
            FRESH + row / 100
        }
        _ => row,
    })
}

fn lsm(mut random: Random) -> Box<dyn Iterator<Item = u64>> {
    let popular = Popularity::new(&mut random, 40_000, 0.9);
    let mut pages: Vec<u64> = (0..40_000).collect();
    let mut first = 0;
    by_number(move |at| {
        let step = at % 40_000;
        if step == 0 {
            first = random.index(10) as usize * 4000;
        }
        if step >= 16_000 || step % 2 == 0 {
            return pages[popular.next(&mut random) as usize];
        }
        let page = &mut pages[first + (step / 4) as usize];
        if step % 4 == 3 {
            *page = FRESH + at;
        }
        *page
    })
}

fn tenants(mut random: Random) -> Box<dyn Iterator<Item = u64>> {
    let popular = Popularity::new(&mut random, 8000, 0.9);
    by_number(move |at| {
        let tenant = (at / 20_000 + random.below(3)) % 8;
        tenant * 8000 + u64::from(popular.next(&mut random))
    })
}

fn breath(mut random: Random) -> Box<dyn Iterator<Item = u64>> {
    by_number(move |at| random.below(2000 + up_and_down(at, 100_000) * 16 / 100))
}

fn checkpoint(mut random: Random) -> Box<dyn Iterator<Item = u64>> {
    let popular = Popularity::new(&mut random, 40_000, 0.9);
    let mut dirty = std::collections::BTreeSet::new();
    let mut nr_updates = 0;
    let mut is_writing = false;
    by_number(move |_| {
        if is_writing && let Some(page) = dirty.pop_first() {
            return page;
        }
        nr_updates += 1;
        is_writing = nr_updates % 80_000 == 0;
        let page = u64::from(popular.next(&mut random));
        dirty.insert(page);
        page
    })
}

fn join(mut random: Random) -> Box<dyn Iterator<Item = u64>> {
    by_number(move |at| {
        let table = at / 120_000 * 8000;
        if at % 2 == 0 { FRESH + at / 2 } else { table + random.below(8000) }
    })
}

fn loop_and_zipf(mut random: Random) -> Box<dyn Iterator<Item = u64>> {
    let popular = Popularity::new(&mut random, 20_000, 0.9);
    by_number(move |at| match at % 2 {
        0 => FRESH + at / 2 % 13_000,
        _ => popular.next(&mut random).into(),
    })
}

/// Rounds over `round` pages, each followed by popular pages, `group` accesses in all.
fn beside_rounds(
    mut random: Random,
    round: u64,
    group: u64,
    nr_popular: u32,
) -> Box<dyn Iterator<Item = u64>> {
    let popular = Popularity::new(&mut random, nr_popular, 0.6);
    by_number(move |at| match at % group {
        0 => FRESH + at / group % round,
        _ => popular.next(&mut random).into(),
    })
}

fn crowds(mut random: Random) -> Box<dyn Iterator<Item = u64>> {
    let popular = Popularity::new(&mut random, 50_000, 0.7);
    by_number(move |at| {
        let left = 50_000 - at % 50_000;
        if random.below(100_000) < left {
            FRESH + at / 50_000 * 500 + random.below(500)
        } else {
            popular.next(&mut random).into()
        }
    })
}

fn days(mut random: Random) -> Box<dyn Iterator<Item = u64>> {
    let popular = Popularity::new(&mut random, 30_000, 0.9);
    by_number(move |at| match at % 195_000 {
        step @ 150_000.. => FRESH + step % 15_000,
        _ => popular.next(&mut random).into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    fn distinct(reads: impl Iterator<Item = u64>) -> usize {
        reads.collect::<HashSet<u64>>().len()
    }

    #[test]
    fn a_night_repeats_and_a_join_forgets() {
        assert_eq!(distinct(Program::Days.reads().skip(150_000).take(45_000)), 15_000);
        let table = |nth: usize| {
            let reads = Program::Join.reads().skip(nth * 120_000).take(120_000);
            reads.filter(|page| *page < FRESH).collect::<HashSet<u64>>()
        };
        assert!(table(0).is_disjoint(&table(1)));
        assert!(table(0).len() > 7900);
    }

    #[test]
    fn a_checkpoint_writes_what_was_touched_and_a_compaction_renumbers() {
        let touched = distinct(Program::Checkpoint.reads().take(80_000));
        let written: Vec<u64> = Program::Checkpoint.reads().skip(80_000).take(touched).collect();
        assert!(written.is_sorted());
        assert_eq!(distinct(written.into_iter()), touched);
        let gets = Program::Lsm.reads().skip(16_000).take(24_000);
        let nr_new = gets.filter(|page| *page >= FRESH).count();
        assert!((1000..10_000).contains(&nr_new), "{nr_new} gets of what was compacted");
    }

    #[test]
    fn a_hot_set_breathes() {
        let at = |nth| distinct(Program::Breath.reads().skip(nth).take(10_000));
        assert!(at(0) < 3600 && at(95_000) > 7000 && at(195_000) < 3600);
    }
}

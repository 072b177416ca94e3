//! Gains from page-table walks, their filter, look-around and `min_ttl`.

use pagetide_core::ids::{MappingId, PageId, PageIndex};
use pagetide_core::lru::page_table::LookCounts;
use pagetide_core::lru::{Mechanism, PolicyName, Switches};
use pagetide_core::units::Millis;
use pagetide_core::vmstat::Counter;
use pagetide_lab::replay::{self, Setup, World};
use pagetide_lab::trace::{Access, AccessKind, DenseTrace};

const FRAMES: u32 = 4096;
const SET: u64 = 1024;

fn push(trace: &mut DenseTrace, mapping: u32, index: u64) {
    let page = PageId { mapping: MappingId(mapping), index: PageIndex(index) };
    trace.push(Access { page, kind: AccessKind::Table, thread: 0 });
}

/// Returns a working set of [`SET`] pages used in turn, with two new pages of a scan after each,
/// all through page tables.
fn set_and_scan(rounds: u64) -> DenseTrace {
    let mut trace = DenseTrace::default();
    for at in 0..rounds * SET {
        push(&mut trace, 0, at % SET);
        push(&mut trace, 1, 2 * at);
        push(&mut trace, 1, 2 * at + 1);
    }
    trace
}

fn misses_on_set(trace: &DenseTrace, switches: Switches) -> u64 {
    let setup = Setup { switches, ..Setup::new(PolicyName::Mglru, FRAMES) };
    let mut world = World::new(setup, trace, |_| {});
    let mut on_set = 0;
    for (rank, kind) in trace.entries() {
        let before = world.outcome().misses;
        world.apply(rank, kind);
        if trace.page(rank).mapping == MappingId(0) {
            on_set += world.outcome().misses - before;
        }
    }
    world.validate();
    on_set - SET
}

/// With walks, part of the set is lost while memory fills, then nothing. Without walks, every round
/// loses some.
#[test]
fn a_set_used_through_tables_survives_a_scan_if_tables_are_walked() {
    let walks_alone =
        Switches::default().without(Mechanism::LookAround).without(Mechanism::BloomFilter);
    let without = walks_alone.without(Mechanism::TableWalks);
    let (short, long) = (set_and_scan(12), set_and_scan(24));
    let [walked, walked_longer] = [&short, &long].map(|trace| misses_on_set(trace, walks_alone));
    let [left, left_longer] = [&short, &long].map(|trace| misses_on_set(trace, without));
    println!(
        "misses on the set: {walked}, {walked_longer} with walks, {left}, {left_longer} without"
    );
    assert!(walked < SET && walked_longer == walked, "{walked}, {walked_longer}");
    assert!(left > 4 * walked && left_longer > left + SET, "{left}, {left_longer}");
}

/// Uses two full leaf tables and one page in each of [`SPARSE`] more in each round, with aging on
/// request. Finally evicts all pages that are not young.
fn age_sparse(switches: Switches) -> (LookCounts, u64, u64) {
    const SPARSE: u64 = 2000;
    const ROUNDS: u64 = 6;
    let mut trace = DenseTrace::default();
    (0..SET).for_each(|index| push(&mut trace, 0, index));
    (0..SPARSE).for_each(|nth| push(&mut trace, 1, nth * 512));
    let setup = Setup { switches, ..Setup::new(PolicyName::Mglru, FRAMES) };
    let mut world = World::new(setup, &trace, |_| {});
    for round in 0..ROUNDS {
        trace.entries().for_each(|(rank, kind)| world.apply(rank, kind));
        assert_eq!(world.command_lru_gen(&format!("+ 0 0 {}", 3 + round)), Ok(0));
    }
    let tables = world.lruvec().multigen_summary().expect("generations").tables_total;
    let before = world.outcome().misses;
    world.command_lru_gen(&format!("- 0 0 {}", 3 + ROUNDS - 2)).expect("evicted");
    for (rank, kind) in trace.entries().take(SET as usize) {
        world.apply(rank, kind);
    }
    (tables, world.outcome().misses - before, ROUNDS)
}

#[test]
fn the_filter_spares_walks_of_sparse_tables_and_keeps_the_set() {
    let (filtered, filtered_misses, rounds) = age_sparse(Switches::default());
    let (all, all_misses, _) = age_sparse(Switches::default().without(Mechanism::BloomFilter));
    println!("filtered {filtered:?}\nall {all:?}");
    assert_eq!((filtered_misses, all_misses), (0, 0), "the set is there");
    assert_eq!((all.nr_leaves, all.nr_skipped), (rounds * 2002, 0));
    assert_eq!(filtered.nr_leaves + filtered.nr_skipped, all.nr_leaves);
    // The first walk reads everything. Later walks read the set's two leaves and at most one false
    // positive of the filter.
    assert!((2002 + 2 * (rounds - 1)..2012 + 2 * (rounds - 1)).contains(&filtered.nr_leaves));
}

/// Generations younger than `min_ttl` are not evicted, so misses get no frame.
#[test]
fn young_generations_are_not_evicted_and_reads_go_past_memory() {
    let trace = DenseTrace::from_reads((0..3000).map(|at| at % 1500));
    let play = |min_ttl| {
        let setup = Setup { min_ttl: Millis(min_ttl), ..Setup::new(PolicyName::Mglru, 1000) };
        replay::run_setup(setup, &trace)
    };
    let (free, held) = (play(0), play(3_600_000));
    assert!(free.bypasses == 0 && free.evictions > 0);
    assert_eq!((held.evictions, held.bypasses, held.misses), (0, 1000, 2000));
    assert!(held.misses < free.misses, "a loop larger than memory: what stays is hit");
    let refused = held.vmstat.read(Counter::LruGenTooYoung);
    assert!((1..=2000).contains(&refused), "{refused} passes");
    assert_eq!(free.vmstat.read(Counter::LruGenTooYoung), 0);
}

//! Generations of 4000 pages, compared with a kernel's `lru_gen` file.
//!
//! Measured on Linux 6.18.15 and 7.3.4 in a fresh memory group without reclaim: a program read,
//! faulted or wrote 4000 pages. Some 20 pages were still in a batch at the dump.
//!
//! ```text
//!                                            6.18               7.3
//!   single random reads                      4000 at 0          129 at 0, the rest at 1
//!   reads of pages read ahead                4000 at 0          4000 at 0
//!   faults on a file, in random order        at 2; aged: 2      at 1; aged: 3
//!   faults on anonymous memory               at 2; aged: 2      at 2; aged: 3
//!   written, and to be evicted while dirty   at 1               at 2
//! ```

use pagetide_core::ids::{MappingId, PageId, PageIndex};
use pagetide_core::lru::PolicyName;
use pagetide_core::lru::lru_gen::Detail;
use pagetide_core::units::Millis;
use pagetide_lab::replay::{Setup, World};
use pagetide_lab::trace::{Access, AccessKind, DenseTrace};

const NR_PAGES: u64 = 4000;

/// Each page once, in an order without neighbours.
fn in_random_order(kind: AccessKind) -> DenseTrace {
    let mut trace = DenseTrace::default();
    (0..NR_PAGES).for_each(|nth| push(&mut trace, nth * 1237 % NR_PAGES, kind));
    trace
}

fn push(trace: &mut DenseTrace, index: u64, kind: AccessKind) {
    let page = PageId { mapping: MappingId(1), index: PageIndex(index) };
    trace.push(Access { page, kind, thread: 0 });
}

/// Plays the trace with spare memory, runs the commands, and returns the pages in each non-empty
/// generation.
fn dump(policy: PolicyName, trace: &DenseTrace, commands: &str) -> Vec<(u64, u64)> {
    let setup = Setup {
        swap_pages: Some(2 * NR_PAGES),
        flush_every: Some(Millis(1_000_000)),
        ..Setup::new(policy, 2 * NR_PAGES as u32)
    };
    let mut world = World::new(setup, trace, |_| {});
    assert!(world.play(|_| true));
    let nr_evicted = world.command_lru_gen(commands).expect("the commands are sound");
    assert_eq!(nr_evicted, 0, "{policy}");
    let text = world.describe_lru_gen(Detail::Sizes);
    text.lines().skip(2).map(sizes_in).filter(|(_, nr_pages)| *nr_pages > 0).collect()
}

/// Returns the generation and the pages of both types, from a line `seq age anon file`.
fn sizes_in(line: &str) -> (u64, u64) {
    let numbers: Vec<u64> =
        line.split_whitespace().map(|word| word.parse().expect("a number")).collect();
    let [seq, _age, anon, file] = numbers[..] else { panic!("not four numbers: {line}") };
    (seq, anon + file)
}

fn in_both(trace: &DenseTrace, commands: &str) -> [Vec<(u64, u64)>; 2] {
    [PolicyName::Mglru, PolicyName::Mglru73].map(|kernel| dump(kernel, trace, commands))
}

#[test]
fn of_31_single_reads_one_is_cold_in_7_3() {
    let dumps = in_both(&in_random_order(AccessKind::Read), "");
    assert_eq!(dumps, [vec![(0, 4000)], vec![(0, 129), (1, 3871)]]);
}

/// Whole batches, as from large folios, which never wait in a batch.
#[test]
fn what_readahead_brings_is_cold_in_both() {
    let mut trace = DenseTrace::default();
    for kind in [AccessKind::Readahead, AccessKind::Read] {
        (0..129 * 31).for_each(|index| push(&mut trace, index, kind));
    }
    assert_eq!(in_both(&trace, ""), [(); 2].map(|()| vec![(0, 129 * 31)]));
}

#[test]
fn a_look_at_faulted_pages_promotes_them_in_7_3() {
    let trace = in_random_order(AccessKind::Table);
    assert_eq!(in_both(&trace, ""), [vec![(2, 4000)], vec![(1, 4000)]]);
    assert_eq!(in_both(&trace, "+ 0 0 3"), [vec![(2, 4000)], vec![(3, 4000)]]);
}

#[test]
fn the_same_of_anonymous_pages_which_enter_alike() {
    let mut trace = in_random_order(AccessKind::Table);
    trace.mark_anonymous(MappingId(1));
    assert_eq!(in_both(&trace, ""), [vec![(2, 4000)], vec![(2, 4000)]]);
    assert_eq!(in_both(&trace, "+ 0 0 3"), [vec![(2, 4000)], vec![(3, 4000)]]);
}

/// Dirty pages cannot go. 6.18 sorts them into the next generation, 7.3 refuses them and puts them
/// back.
#[test]
fn dirty_pages_that_were_to_be_evicted_are_active_in_7_3() {
    let trace = in_random_order(AccessKind::Write);
    assert_eq!(dump(PolicyName::Mglru, &trace, "- 0 0 0"), [(1, 4000)]);
    assert_eq!(dump(PolicyName::Mglru73, &trace, "- 0 0 1"), [(2, 4000)]);
}

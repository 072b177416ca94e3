//! Replays of synthetic records: every policy gets the same accesses, and none beats the optimum.
//!
//! The records imitate a page cache: streams with readahead (some unused), random reads with
//! surrounding pages, calls of several pages, writes, guards and truncated files. The command's
//! tests check a real record.

use pagetide_core::lru::PolicyName;
use pagetide_lab::judge::opt;
use pagetide_lab::replay::{self, Contender, ReplayOutcome, Setup};
use pagetide_lab::trace::{Access, AccessKind, DenseTrace};

const SIZES: [u32; 8] = [1, 2, 7, 32, 60, 150, 400, 3000];

fn without_readahead(trace: &DenseTrace) -> DenseTrace {
    let mut trace = trace.clone();
    trace.drop_readahead();
    trace
}

fn outcomes(trace: &DenseTrace, frames: u32) -> Vec<(Contender, ReplayOutcome)> {
    Contender::all().map(|it| (it, replay::run(it, trace, frames))).collect()
}

fn check_bound(name: &str, trace: &DenseTrace) {
    for frames in SIZES {
        let best = replay::run(Contender::Opt, trace, frames);
        for (contender, outcome) in outcomes(trace, frames) {
            let what = format!("{contender} on {name} with {frames} frames");
            assert_eq!(outcome.accesses, best.accesses, "{what}: other accesses");
            assert!(
                outcome.misses >= best.misses,
                "{what}: {} misses, the optimum {}",
                outcome.misses,
                best.misses
            );
        }
    }
}

#[test]
fn the_optimum_is_never_above_another_with_readahead_or_without() {
    for seed in 0..4 {
        let given = crate::records::recorded(seed, 12_000);
        assert!(given.has_readahead(), "seed {seed} recorded no readahead");
        check_bound(&format!("record {seed} with readahead"), &given);
        check_bound(&format!("record {seed} without"), &without_readahead(&given));
    }
}

#[test]
fn without_readahead_a_record_is_its_accesses() {
    let given = crate::records::recorded(9, 12_000);
    let taken = without_readahead(&given);
    assert!(!taken.has_readahead());
    assert_eq!(taken.nr_accesses(), given.nr_accesses());
    assert!(taken.access_ranks().eq(given.access_ranks()));
    let mut asked = DenseTrace::default();
    for (rank, kind) in given.entries() {
        if !matches!(kind, AccessKind::Readahead | AccessKind::Around) {
            asked.push(Access { page: given.page(rank), kind, thread: 0 });
        }
    }
    for frames in SIZES {
        for (contender, outcome) in outcomes(&taken, frames) {
            let same = replay::run(contender, &asked, frames);
            assert_eq!(outcome.misses, same.misses, "{contender} with {frames} frames");
            assert_eq!(outcome.pages_ahead, 0, "{contender} with {frames} frames");
            assert_eq!(outcome.device_read_bytes(), outcome.misses * 4096);
        }
    }
}

#[test]
fn readahead_is_given_to_every_column() {
    let trace = crate::records::stream(1000, 8);
    for (contender, outcome) in outcomes(&trace, 1000) {
        assert_eq!(outcome.misses, 1, "{contender}");
        assert_eq!(outcome.device_read_bytes(), 1000 * 4096, "{contender}");
    }
    for (contender, outcome) in outcomes(&without_readahead(&trace), 1000) {
        assert_eq!(outcome.misses, 1000, "{contender}");
        assert_eq!(outcome.device_read_bytes(), 1000 * 4096, "{contender}");
    }
}

#[test]
fn a_discarded_page_is_missed_again_by_all() {
    let trace = crate::records::cut_files(50, 20);
    for (contender, outcome) in outcomes(&trace, 100) {
        assert_eq!(outcome.misses, 50 * 20, "{contender}");
    }
}

#[test]
fn a_machines_policies_do_not_beat_the_optimum_of_its_memory() {
    let trace = without_readahead(&crate::records::recorded(3, 12_000));
    let next_uses = opt::next_uses(&trace);
    for frames in [60, 400, 1000] {
        let best = opt::count_misses_with(&trace, &next_uses, frames as usize);
        for &policy in PolicyName::ALL {
            let memory = replay::Memory::Machine { nr_frames: frames };
            let outcome = replay::run_setup(Setup::new(policy, memory), &trace);
            assert!(outcome.misses >= best, "{policy}, {frames}: {} < {best}", outcome.misses);
        }
    }
}

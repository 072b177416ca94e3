//! Prefetch of a scan's next folio changes no decision: on or off, every policy has the same
//! evictions and counters.
//!
//! Source: Kairui Song, "mm, lru_gen: try to prefetch next page when scanning LRU", version 3,
//! January 2024.

use crate::support::load_trace;
use pagetide_core::ids::PageId;
use pagetide_core::lru::{Mechanism, PolicyName, Switches};
use pagetide_lab::replay::{self, ReplayOutcome, Setup};
use pagetide_lab::trace::DenseTrace;

fn run(
    policy: PolicyName,
    trace: &DenseTrace,
    frames: u32,
    on: bool,
) -> (ReplayOutcome, Vec<PageId>) {
    let switches = Switches::default();
    let switches = if on {
        switches.with(Mechanism::ScanPrefetch)
    } else {
        switches.without(Mechanism::ScanPrefetch)
    };
    let mut evicted = Vec::new();
    let setup = Setup { switches, ..Setup::new(policy, frames) };
    let outcome = replay::run_observed(setup, trace, |page| evicted.push(page));
    (outcome, evicted)
}

fn check(trace: &DenseTrace, frames: u32) {
    for policy in Mechanism::ScanPrefetch.policies() {
        let (with, without) =
            (run(*policy, trace, frames, true), run(*policy, trace, frames, false));
        assert!(with.0.evictions > 0, "{policy}: the trace fits");
        assert_eq!(with, without, "{policy} decides by prefetch");
    }
}

#[test]
fn decisions_do_not_depend_on_prefetch() {
    for (_, trace) in crate::synthetic::reads() {
        check(&trace, 97);
    }
    check(&crate::synthetic::mixed(5, 30_000), 97);
}

#[test]
fn nor_do_they_on_real_traces() {
    let test = "nor_do_they_on_real_traces";
    for (file, frames) in [("cloudPhysicsIO.csv.zst", 9651), ("lirs_2_pools.trace", 450)] {
        if let Some(trace) = load_trace(test, file) {
            check(&trace, frames);
        }
    }
}

//! Snapshots of short runs: hits, evictions in order, and every counter.
//!
//! **Problem.** Refactoring moves decisions, and other tests miss a victim evicted one place
//! earlier. **Idea.** Thousands of short runs, each a row in a text file: the run and its outcome,
//! with sequences as 64-bit digests. A changed row fails the test by name.
//!
//! ```text
//!   cargo test -p pagetide-lab --test snapshot                           compares
//!   PAGETIDE_SNAPSHOT=write cargo test -p pagetide-lab --test snapshot   writes the files anew
//! ```
//!
//! | file | runs |
//! |---|---|
//! | `replays.txt` | every policy: reads in a limit; every kind of entry, memory, time; records |
//! | `switches.txt` | every switch of every policy, alone, in a dozen of these |
//! | `scenarios.txt` | every scenario by every policy |
//! | `machines.txt` | per-CPU lists, fast and slow memory, groups |
//! | `real.txt` | published traces: with `PAGETIDE_TRACES` |
//!
//! **Intended changes.** A commit that changes behaviour rewrites the files, and gives the reason.
//! The policy `pagetide` still changes, so `tests/all/pagetide.rs` covers it instead.
//!
//! **Not here.** Durations. The real page cache, which the replay law covers.

#[path = "../support/records.rs"]
#[expect(dead_code, reason = "its streams and cut files are other tests'")]
mod records;
#[path = "../support/mod.rs"]
mod support;
#[path = "../support/synthetic.rs"]
mod synthetic;

mod digest;
mod groups;
mod machines;
mod notes;
mod replays;
mod subjects;
mod table;

use pagetide_core::lru::PolicyName;
use pagetide_lab::replay::{Memory, Setup};
use pagetide_lab::scenario::Condition;
use rayon::prelude::*;
use subjects::Design;
use table::Row;

#[test]
fn replays_are_as_they_were() {
    let mut rows = replays::rows(&replays::reads(), &subjects::plain());
    rows.extend(replays::rows(&replays::circumstances(), &subjects::plain()));
    rows.extend(replays::memory_rows([PolicyName::Mglru, PolicyName::ActiveInactive]));
    table::check("replays", &rows);
}

#[test]
fn every_switch_does_what_it_did() {
    table::check("switches", &replays::rows(&replays::circumstances(), &subjects::flipped()));
}

#[test]
fn scenarios_are_as_they_were() {
    table::check("scenarios", &machines::scenarios(&subjects::plain(), &[Condition::Tidy]));
}

#[test]
fn machines_are_as_they_were() {
    let mut rows = machines::per_cpu_lists(1 << 21, 15);
    rows.extend(machines::tiers(["active-inactive", "mglru"], 5));
    rows.extend(machines::groups());
    table::check("machines", &rows);
}

/// Files and sizes. Short files also try switches at the first size.
const REAL: [(&str, &[u32]); 7] = [
    ("lirs_2_pools.trace", &[450, 1000]),
    ("lirs_sprite.trace", &[600, 100]),
    ("lirs_loop.trace", &[500]),
    ("lirs_cs.trace", &[500]),
    ("sqlite_filemap_tracepoint.csv.zst", &[6136]),
    ("arc_OLTP.lis.zst", &[5000]),
    ("cloudPhysicsIO.oracleGeneral.bin.zst", &[9795]),
];
/// Longer traces, in entries, are replayed without flipped switches only.
const SHORT: u64 = 120_000;

#[test]
fn real_traces_are_replayed_as_they_were() {
    let (mut rows, mut found) = (Vec::new(), Vec::new());
    for (file, sizes) in REAL {
        let test = "real_traces_are_replayed_as_they_were";
        let Some(trace) = support::load_trace(test, file) else { continue };
        found.push(format!("real/{file}"));
        let mut runs: Vec<(Design, u32)> = Vec::new();
        let plain = subjects::plain();
        sizes.iter().for_each(|frames| runs.extend(plain.iter().map(|it| (*it, *frames))));
        if trace.nr_entries() < SHORT {
            runs.extend(subjects::flipped().into_iter().map(|it| (it, sizes[0])));
        }
        let run = |(design, frames): &(Design, u32)| -> Row {
            let setup = Setup::new(design.policy, Memory::from(*frames));
            replays::replayed(&format!("real/{file}"), *design, *frames, setup, &trace)
        };
        rows.par_extend(runs.par_iter().map(run));
    }
    if !found.is_empty() {
        table::check_part("real", &rows, |what| found.iter().any(|known| known == what));
    }
}

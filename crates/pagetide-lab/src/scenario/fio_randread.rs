//! fio-randread: uniform reads of a file of 2.75 x memory, a test of reclaim cost.
//!
//! ```text
//!   memory   |<------ 4096 ------>|
//!   file     |<--------------------- 11264 --------------------->|   one random page a call
//! ```
//!
//! No policy hits more than memory's share for long. Policies differ in folios scanned per
//! eviction.
//!
//! Source: the multi-gen LRU series, table A: fio, 72 jobs, 99 GiB in a group of 36 GiB, uniform.
//! Its gain (+30 to 32 % operations) is CPU time, which a virtual machine lacks.

use super::machine::{Host, Layout, Stopped};
use super::stage::{Stage, percent};
use super::{FRAMES, Metric, Scenario, SourceClaim};
use pagetide_core::vmstat::{Counter, VmStat};

const FILE_PAGES: u32 = FRAMES / 4 * 11;
/// Reads before the measurement.
const RAMP: u32 = 100_000;
const READS: u32 = 200_000;
const STEPS: u32 = 20;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "fio-randread",
    story: "Uniform random reads of a file of 2.75 x memory, one page a call.",
    source: "multi-gen LRU series, 2022: fio table",
    metrics: &[
        Metric::new(
            "hit_percent",
            "Reads that hit; memory's share of the file is 36.4.",
            &[SourceClaim::of_all("any policy: memory's share, 36.4")],
        ),
        Metric::new(
            "scanned_per_evicted",
            "Folios looked at for each one evicted; 1 is best.",
            &[SourceClaim::of("mglru", "series: +30-32 % operations over two lists")],
        ),
    ],
    play,
};

fn play(stage: &mut Stage<'_>) -> Result<(), Stopped> {
    let nr_frames = stage.vary_frames(FRAMES);
    let mut layout = Layout::new();
    let file = layout.file(FILE_PAGES);
    let mut machine = stage.machine(&layout, Host::group(nr_frames));
    for _ in 0..RAMP {
        machine.read(file, stage.random.index(FILE_PAGES), 1)?;
    }
    let before = machine.outcome().vmstat;
    let mut course = Vec::new();
    let mut nr_hits = 0;
    for _ in 0..STEPS {
        let hits_before = nr_hits;
        for _ in 0..READS / STEPS {
            nr_hits += u64::from(1 - machine.read(file, stage.random.index(FILE_PAGES), 1)?);
        }
        course.push(percent(nr_hits - hits_before, (READS / STEPS).into()));
    }
    let after = machine.outcome().vmstat;
    stage.measure("hit_percent", percent(nr_hits, READS.into()));
    stage.measure("scanned_per_evicted", scanned_per_evicted(&before, &after));
    stage.course("hits, in percent", course);
    stage.end(machine);
    Ok(())
}

/// Returns the folios scanned per eviction between two readings of the counters.
fn scanned_per_evicted(before: &VmStat, after: &VmStat) -> f64 {
    let since = |counters: &[Counter]| {
        let read = |vmstat: &VmStat| counters.iter().map(|it| vmstat.read(*it)).sum::<u64>();
        read(after) - read(before)
    };
    // Scans of an active list serve the same evictions.
    let scanned = since(&[Counter::PgscanDirect, Counter::PgscanBackground, Counter::Pgrefill]);
    let evicted = since(&[Counter::PgstealDirect, Counter::PgstealBackground]);
    scanned as f64 / evicted.max(1) as f64
}

//! micro: threads sweep anonymous memory and a mapped file, together more than memory.
//!
//! ```text
//!   thread 1   ====>  its quarter of 0.6 x memory, anonymous, round and round
//!   thread 2     ====>     ...                                  interleaved at random
//!   thread 1'  ====>  its quarter of a mapped file of 1.2 x memory, once and again
//! ```
//!
//! Measures reclaim: scans per eviction, the direct share, and anonymous evictions caused by the
//! file.
//!
//! Source: the thrash detection series of 2013, micro ("a mix of anonymous and mapped file
//! memory"). The sizes are ours.

use super::machine::{Area, Host, Layout, Machine, Stopped};
use super::stage::{Stage, percent};
use super::{FRAMES, Metric, Scenario, SourceClaim};
use pagetide_core::vmstat::Counter;

const THREADS: usize = 4;
/// Anonymous pages of a thread.
const ANON_PAGES: u32 = FRAMES / 10 * 6 / THREADS as u32;
/// File pages of a thread.
const FILE_PAGES: u32 = FRAMES / 10 * 12 / THREADS as u32;
const SWAP_PAGES: u64 = 4 * FRAMES as u64;
const ACCESSES: u32 = 200_000;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "micro",
    story: "Four threads sweep 0.6 x memory anonymous, four a mapped file of 1.2 x memory.",
    source: "thrash detection series, 2013 (micro)",
    metrics: &[
        Metric::new(
            "efficiency_percent",
            "Folios evicted for a hundred looked at; higher is better.",
            &[
                SourceClaim::of("active-inactive-vanilla", "kswapd 48, direct 23"),
                SourceClaim::of("active-inactive-2013", "kswapd 62, direct 99"),
            ],
        ),
        Metric::new(
            "direct_scan_percent",
            "How much of the looking allocating threads did; lower is better.",
            &[
                SourceClaim::of("active-inactive-vanilla", "26"),
                SourceClaim::of("active-inactive-2013", "6"),
            ],
        ),
        Metric::new(
            "swapped",
            "Anonymous pages evicted; lower is better.",
            &[
                SourceClaim::of("active-inactive-vanilla", "6702"),
                SourceClaim::of("active-inactive-2013", "0"),
            ],
        ),
        Metric::new("file_faults", "Faults on the mapped file; lower is better.", &[]),
    ],
    play,
};

fn play(stage: &mut Stage<'_>) -> Result<(), Stopped> {
    let nr_frames = stage.vary_frames(FRAMES);
    let mut layout = Layout::new();
    let anonymous: Vec<Area> = (0..THREADS).map(|_| layout.anonymous(ANON_PAGES)).collect();
    let mapped: Vec<Area> = (0..THREADS).map(|_| layout.file(FILE_PAGES)).collect();
    let mut sweeps: Vec<Sweep> = anonymous
        .iter()
        .chain(&mapped)
        .map(|&area| Sweep { area, at: stage.random.index(area.nr_pages) })
        .collect();
    let host = Host::machine(nr_frames).with_swap(SWAP_PAGES);
    let mut machine = stage.machine(&layout, host);
    let mut file_faults = 0;
    for _ in 0..ACCESSES {
        let thread = stage.random.index(sweeps.len() as u32) as usize;
        let nr_absent = sweeps[thread].step(&mut machine)?;
        file_faults += u64::from(if thread >= THREADS { nr_absent } else { 0 });
    }
    let vmstat = machine.outcome().vmstat;
    let (direct, background) =
        (vmstat.read(Counter::PgscanDirect), vmstat.read(Counter::PgscanBackground));
    let evicted = vmstat.read(Counter::PgstealDirect) + vmstat.read(Counter::PgstealBackground);
    stage.measure("efficiency_percent", percent(evicted, direct + background));
    stage.measure("direct_scan_percent", percent(direct, direct + background));
    stage.measure("swapped", vmstat.read(Counter::PgstealAnon) as f64);
    stage.measure("file_faults", file_faults as f64);
    stage.end(machine);
    Ok(())
}

struct Sweep {
    area: Area,
    at: u32,
}

impl Sweep {
    fn step(&mut self, machine: &mut Machine<'_>) -> Result<u32, Stopped> {
        let nr_absent = machine.touch(self.area, self.at)?;
        self.at = (self.at + 1) % self.area.nr_pages;
        Ok(nr_absent)
    }
}

//! pft: programs fault memory in and leave, with room for all.
//!
//! ```text
//!   memory   |<--------------------- 4096 --------------------->|
//!   clients  |<-- 1 of 6 -->|<-- 1 of 6 -->|<-- ... 4 -->|   each page twice, interleaved
//! ```
//!
//! Nothing is evicted, so every scan is wasted work of the design.
//!
//! The seed varies frames, and the interleaving of the clients.
//!
//! Source: the thrash detection series of 2013 (pft, "no significant impact").

use super::machine::{Host, Layout, Stopped};
use super::stage::Stage;
use super::{FRAMES, Metric, Scenario, SourceClaim};
use pagetide_core::vmstat::Counter;

const CLIENTS: u32 = 4;
const USES: u32 = 2;
const NONE: &[SourceClaim] = &[SourceClaim::of_all("2013 series: no significant impact")];

pub(super) const SCENARIO: Scenario = Scenario {
    name: "pft",
    story: "Four clients fault in a sixth of memory each, and use it once; nothing is evicted.",
    source: "thrash detection series, 2013 (pft)",
    metrics: &[
        Metric::new("faults", "Pages faulted in.", &[]),
        Metric::new("decisions", "Folios looked at, moved or taken by reclaim; 0 is best.", NONE),
    ],
    play,
};

fn play(stage: &mut Stage<'_>) -> Result<(), Stopped> {
    let nr_frames = stage.vary_frames(FRAMES);
    let mut layout = Layout::new();
    let mut clients: Vec<_> = (0..CLIENTS).map(|_| (layout.anonymous(nr_frames / 6), 0)).collect();
    let host = Host::machine(nr_frames).with_swap(FRAMES.into());
    let mut machine = stage.machine(&layout, host);
    let mut nr_faults = 0;
    while !clients.is_empty() {
        let at = stage.random.index(clients.len() as u32) as usize;
        let (area, index) = &mut clients[at];
        nr_faults += machine.touch(*area, *index % area.nr_pages)?;
        *index += 1;
        if *index == USES * area.nr_pages {
            clients.swap_remove(at);
        }
    }
    let vmstat = machine.outcome().vmstat;
    let decisions = [
        Counter::PgscanDirect,
        Counter::PgscanBackground,
        Counter::Pgrefill,
        Counter::Pgactivate,
        Counter::Pgdeactivate,
        Counter::LruGenAged,
    ];
    let nr_decisions: u64 = decisions.into_iter().map(|counter| vmstat.read(counter)).sum();
    stage.measure("faults", nr_faults.into());
    stage.measure("decisions", nr_decisions as f64);
    stage.end(machine);
    Ok(())
}

//! oldest-generation-stuck: a set larger than memory, then another one.
//!
//! ```text
//!   old set   |<---- 1.1 to 2 x memory ---->|     6 passes, each in another order
//!   new set   |<---- as large          ---->|     6 passes; the old one is never read again
//! ```
//!
//! A frozen resident set is best while the set lasts. When the set changes, frozen pages may be
//! stuck in a generation (or on a list) that nothing drains.
//!
//! Source: measurements of Linux 6.18.15, whose multi-gen LRU did not age in 13 of 14 traces of
//! buffered reads.

use super::machine::{Area, Host, Layout, Machine, Stopped};
use super::stage::{Stage, percent};
use super::{FRAMES, Metric, Scenario, SourceClaim};
use crate::random::Random;

const PASSES: u32 = 6;
/// Size of a set in tenths of memory, and its metrics.
const SIZES: [(u32, &str, &str); 3] = [
    (11, "hit_percent_1.1x", "stale_percent_1.1x"),
    (15, "hit_percent_1.5x", "stale_percent_1.5x"),
    (20, "hit_percent_2x", "stale_percent_2x"),
];
const HIT: &str = "Hits in the last pass over the old set, of so many times memory; higher is \
                   better.";
const STALE: &str = "Frames that the old set holds after six passes over the new one; 0 is best.";

pub(super) const SCENARIO: Scenario = Scenario {
    name: "oldest-generation-stuck",
    story: "A set of 1.1, 1.5 or 2 x memory read in six random orders, then another such set.",
    source: "random reads on a booted Linux 6.18.15",
    metrics: &[
        Metric::new(SIZES[0].1, HIT, &[SourceClaim::of_all("a fixed share would hit 91")]),
        Metric::new(
            SIZES[0].2,
            STALE,
            &[SourceClaim::of("mglru", "frozen while cold traffic lasts")],
        ),
        Metric::new(SIZES[1].1, HIT, &[SourceClaim::of_all("a fixed share would hit 67")]),
        Metric::new(
            SIZES[1].2,
            STALE,
            &[SourceClaim::of("mglru", "frozen while cold traffic lasts")],
        ),
        Metric::new(SIZES[2].1, HIT, &[SourceClaim::of_all("a fixed share would hit 50")]),
        Metric::new(
            SIZES[2].2,
            STALE,
            &[SourceClaim::of("mglru", "frozen while cold traffic lasts")],
        ),
    ],
    play,
};

fn play(stage: &mut Stage<'_>) -> Result<(), Stopped> {
    let nr_frames = stage.vary_frames(FRAMES);
    for (tenths, hit, stale) in SIZES {
        let mut layout = Layout::new();
        let nr_pages = FRAMES * tenths / 10;
        let (old, new) = (layout.file(nr_pages), layout.file(nr_pages));
        let mut machine = stage.machine(&layout, Host::group(nr_frames));
        let mut hits = Vec::new();
        for set in [old, new] {
            for _ in 0..PASSES {
                hits.push(visit(&mut machine, set, &mut stage.random)?);
            }
        }
        stage.measure(hit, hits[PASSES as usize - 1]);
        stage.measure(stale, percent(machine.nr_resident(old).into(), nr_frames.into()));
        if tenths == 15 {
            stage.course("hits per pass at 1.5 x memory, in percent", hits);
        }
        stage.end(machine);
    }
    Ok(())
}

/// Reads every page of the set once. Returns the hits, in percent.
fn visit(machine: &mut Machine<'_>, set: Area, random: &mut Random) -> Result<f64, Stopped> {
    let mut nr_missed = 0;
    for index in random.order(set.nr_pages) {
        nr_missed += machine.read(set, index, 1)?;
    }
    Ok(percent((set.nr_pages - nr_missed).into(), set.nr_pages.into()))
}

//! kernbench: compiles and links a tree twice, with enough memory and with half.
//!
//! ```text
//!   sources  ====>  a quarter of memory, each page once a build        |<-- 4096, or 1536 -->|
//!   headers  by popularity (zipf 0.9), a quarter, 40 pages a unit
//!   objects  ====>  a quarter, written; read once more when the tree is linked
//! ```
//!
//! With room, each page misses once. With half, the headers must stay beside single-use sources and
//! objects.
//!
//! Source: the thrash detection series of 2013 (kernbench). The scan prefetch patch of 2024 (its
//! fourth test, a build in a group that is too small). The tree is ours.

use super::machine::{Area, Host, Layout, Machine, Stopped};
use super::stage::{Stage, percent};
use super::zipf::Popularity;
use super::{FRAMES, Metric, Scenario, SourceClaim};

/// Pages of the sources, of the headers, and of the objects.
const PART: u32 = FRAMES / 4;
const PAGES_A_UNIT: u32 = 2;
const HEADERS_A_UNIT: u32 = 40;
const BUILDS: u32 = 2;

pub(super) const SCENARIO: Scenario = Scenario {
    name: "kernbench",
    story: "A tree of 0.75 x memory is compiled and linked twice; again in half of what it needs.",
    source: "thrash detection series, 2013 (kernbench); scan prefetch, 2024",
    metrics: &[
        Metric::new(
            "missed_percent_with_room",
            "Pages missed, of the tree's, where it fits; 67 is each that is read before it is \
             written, once.",
            &[SourceClaim::of_all("2013 series: in the noise")],
        ),
        Metric::new(
            "missed_percent_in_half",
            "The same in half of what the tree needs; lower is better.",
            &[],
        ),
    ],
    play,
};

fn play(stage: &mut Stage<'_>) -> Result<(), Stopped> {
    let names = ["missed_percent_with_room", "missed_percent_in_half"];
    for (name, memory) in names.into_iter().zip([FRAMES, 3 * PART / 2]) {
        let nr_frames = stage.vary_frames(memory);
        let mut layout = Layout::new();
        let parts = [layout.file(PART), layout.file(PART), layout.file(PART)];
        let mut machine = stage.machine(&layout, Host::group(nr_frames));
        let headers = Popularity::new(&mut stage.random, PART, 0.9);
        let mut nr_missed = 0;
        for _ in 0..BUILDS {
            nr_missed += build(stage, &mut machine, parts, &headers)?;
        }
        stage.measure(name, percent(nr_missed, (3 * PART).into()));
        stage.end(machine);
    }
    Ok(())
}

/// Compiles each unit, then links. Returns the missed pages.
fn build(
    stage: &mut Stage<'_>,
    machine: &mut Machine<'_>,
    [sources, headers, objects]: [Area; 3],
    popular: &Popularity,
) -> Result<u64, Stopped> {
    let mut nr_missed = 0;
    for unit in (0..PART).step_by(PAGES_A_UNIT as usize) {
        nr_missed += machine.read(sources, unit, PAGES_A_UNIT)?;
        for _ in 0..HEADERS_A_UNIT {
            nr_missed += machine.read(headers, popular.next(&mut stage.random), 1)?;
        }
        machine.write(objects, unit, PAGES_A_UNIT)?;
    }
    nr_missed += machine.read_all(objects, 0, PAGES_A_UNIT)?;
    Ok(nr_missed.into())
}
